"""What a node has done for the tier.

Source: docs/adr/0121; the figures of RemoteStorageMetrics in Kafka.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class CopyCounters:
    """What a node has done for the tier since its start."""

    objects: int = 0
    object_bytes: int = 0
    failures: int = 0
    """Uploads, looks and deletes that failed, and commands that had no answer or were refused."""
    deleted: int = 0
    merges: int = 0
    """Objects among them that took the place of several runs of others."""
    merged_runs: int = 0
    """Runs that they took the place of."""
    merge_failures: int = 0
    """Merges that were given up."""
