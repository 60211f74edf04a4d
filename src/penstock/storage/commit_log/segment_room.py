"""How much of a segment batches may take.

    epoch frame │ batches ...                │ control_bytes │ end marker
    └── overhead: what a segment has besides batches ─────────────────┘

Every segment begins with an epoch frame, so that it can be read without older segments. Room at the
end is kept free of batches, so that deletes and epoch frames can be written when the disk is full.

Source: none. It knows no file: that is segments.py.
"""

from typing import NamedTuple

from penstock.frames.frames import EPOCH_PAYLOAD, FRAME_HEADER_BYTES
from penstock.storage.config import LogConfig

EPOCH_FRAME_BYTES = FRAME_HEADER_BYTES + EPOCH_PAYLOAD.size
CONTROL_BYTES_MAX = 64 << 10
"""Never more than a 64th of the segment."""


class SegmentRoom(NamedTuple):
    """The bytes of a log's segments that are not for batches, and what remains."""

    control_bytes: int
    overhead: int
    payload_bytes_max: int
    """The largest batch that fits in a segment of the configured size."""


def segment_room(config: LogConfig) -> SegmentRoom:
    """Return the room in segments of a log with this configuration."""
    smallest = min(config.segment_bytes, config.first_segment_bytes)
    control_bytes = min(CONTROL_BYTES_MAX, smallest // 64)
    overhead = EPOCH_FRAME_BYTES + FRAME_HEADER_BYTES + control_bytes
    return SegmentRoom(control_bytes, overhead, config.segment_bytes - overhead)
