"""Choosing the reads for one chunk of a partition, from the index alone.

    frames in the file   [h|batch] [h|other] [h|batch] [h|batch]
    one read (region)    ^--------------------------------------^   gaps up to 16 KiB are read too
    pieces                  batch               batch    batch      views, headers left out

`choose` has a compiled twin: a consumer that is behind on many partitions reads a region per batch.
No I/O.

Source: ours, ADR 0002.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.frames.frames import FRAME_HEADER_BYTES

GAP_BYTES_MAX = 16 << 10
"""Reading over a gap of this size costs about as much as another system call."""
REGIONS_MAX = 256
PIECES_MAX = 4_000
"""Batches of one chunk. Each is checked and takes more than half a microsecond, however small it
is: 8 MiB of the smallest ones were 70,000, and 40 ms of the loop."""
REGION_BYTES_MAX = 1 << 20
"""Longer ranges are read in parts: a disk keeps buffers of this size for reuse."""
READ_BYTES_MAX = 8 << 20
"""Largest number of bytes read for one chunk, gaps included, unless its first batch is larger."""


class Region(NamedTuple):
    """One read: [start, start + length) of the log, and the batches in it."""

    start: int
    length: int
    pieces: list[tuple[int, int]]
    """(start within the region, size) of each batch."""


def choose(
    positions: Sequence[int], sizes: Sequence[int], entry: int, max_bytes: int, limit: int
) -> tuple[list[Region], int, int]:
    """Choose batches from `entry` on; return (regions, bytes of batches, next entry).

    The next entry is -1 if no batch below the position `limit` (exclusive) was left out.
    `max_bytes` does not apply to the first batch.
    """
    limit -= FRAME_HEADER_BYTES
    regions: list[Region] = []
    pieces: list[tuple[int, int]] = []
    start = stop = positions[entry]
    total = volume = 0
    following = -1
    for at in range(entry, len(positions)):
        position = positions[at]
        size = sizes[at]
        if position + size > limit:
            break
        if total and (total + size > max_bytes or at - entry >= PIECES_MAX):
            following = at
            break
        is_long = pieces and position + FRAME_HEADER_BYTES + size - start > REGION_BYTES_MAX
        if is_long or position - stop > GAP_BYTES_MAX:
            regions.append(Region(start, stop - start, pieces))
            volume += stop - start
            start = position
            pieces = []
        stop = position + FRAME_HEADER_BYTES + size
        if total and (volume + stop - start > READ_BYTES_MAX or len(regions) >= REGIONS_MAX):
            stop = start + (pieces[-1][0] + pieces[-1][1] if pieces else 0)
            following = at
            break
        pieces.append((position - start + FRAME_HEADER_BYTES, size))
        total += size
    if pieces:
        regions.append(Region(start, stop - start, pieces))
    return regions, total, following
