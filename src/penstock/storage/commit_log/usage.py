"""Numbers of a log for metrics.

Source: Kafka's log metrics. Plain numbers, made by SetLog.
"""

from typing import NamedTuple


class LogNumbers(NamedTuple):
    """Numbers of a log beside its positions. Cheap to compute."""

    file_count: int
    file_bytes: int
    free_bytes: int
    snapshot_position: int
    """Replay after a crash starts here."""
    deleted_files: int
    """Files deleted by retention and DeleteRecords since the start."""
    closed_early: int
    """Files closed before they were full since the log was opened; see early_roll.py."""
    has_checkpoint_failed: bool
