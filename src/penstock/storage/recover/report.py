"""The report of a recovery, for the log line at start and for metrics.

Source: Kafka logs the same at start. Plain data, no I/O.
"""

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class RecoveryReport:
    """Counts and reasons of one recovery."""

    snapshot_position: int = 0
    end_position: int = 0
    replayed_bytes: int = 0
    replayed_frames: int = 0
    stop_reason: str = ""
    """Why the bytes behind the last good frame are no frame."""
    frames_cut: int = 0
    """Whole frames behind a torn one, never acknowledged, that were cut off with it."""
    cut_bytes: int = 0
    """Size of these frames; the torn one itself is not counted."""
    damaged_files: list[str] = field(default_factory=list)
    """Snapshots, side files, notes and indexes that were damaged and were rebuilt or ignored."""
    was_clean: bool = False
