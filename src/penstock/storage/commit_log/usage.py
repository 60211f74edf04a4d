"""What an operator watches of a log.

Source: Kafka's log metrics. Plain numbers, made by SetLog.
"""

from typing import NamedTuple


class LogNumbers(NamedTuple):
    """What an operator watches of a log beside its positions. Cheap to ask for."""

    file_count: int
    file_bytes: int
    free_bytes: int
    snapshot_position: int
    """A start after a crash replays from here."""
    deleted_files: int
    """By retention and deletes, since the start."""
    has_checkpoint_failed: bool
