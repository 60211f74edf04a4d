"""What of a partition in the tier may go: from the members' disks, and from the tier.

    tier start ......... local start .................... tier end ............ log end
      only in the tier       in the tier and on the disks     only on the disks

Both starts rise by whole runs, the oldest first. The local start never rises above the tier's end,
and the tier's never above the local one.

Source: KIP-405 (`local.retention.ms`, `local.retention.bytes`, -2 and -1); Kafka
`UnifiedLog.deleteOldSegments` for the order and the arithmetic of sizes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.tier.metadata.manifest import Manifest, Run

FOLLOWS = -2
NO_LIMIT = -1


class Limits(NamedTuple):
    """How much is kept; -1: no limit."""

    ms: int
    bytes: int


class Held(NamedTuple):
    """A partition on the master's disk."""

    start_offset: int
    """The local start, inclusive."""
    size_bytes: int


def first_offset(manifest: Manifest, local_start: int) -> int:
    """Return where the partition begins, with a log that begins at `local_start`.

    Disks are freed up to the end of a run. A log that begins elsewhere was deleted from up to
    there, and then what the tier has below counts no more, although it may still be there.
    """
    if not manifest.runs or not is_run_edge(manifest, local_start):
        return local_start
    return min(manifest.start_offset, local_start)


def is_run_edge(manifest: Manifest, offset: int) -> bool:
    """Whether a run begins there, or the last one ends."""
    return offset == manifest.end_offset or manifest.run_from(offset) is not None


def local_limits(local: Limits, whole: Limits) -> Limits:
    """Return what is kept on the disks: what is set for them, and never more than of the whole."""
    return Limits(_tighter(local.ms, whole.ms), _tighter(local.bytes, whole.bytes))


def _tighter(local: int, whole: int) -> int:
    if local in {FOLLOWS, NO_LIMIT}:
        return whole
    return local if whole == NO_LIMIT else min(local, whole)


def local_start(manifest: Manifest, held: Held, limits: Limits, now_ms: int) -> int:
    """Return up to where (exclusive) the members' disks need not have what the tier has."""
    start, size = held.start_offset, held.size_bytes
    for run in _runs_from(manifest, start):
        if not _is_over(run, size, limits, now_ms):
            break
        start, size = run.end_offset, size - run.entry.batch_bytes
    return start


def tier_start(manifest: Manifest, held: Held, limits: Limits, now_ms: int) -> int:
    """Return where the tier is to begin: behind what is kept nowhere any more."""
    below = [run for run in manifest.runs if run.end_offset <= held.start_offset]
    size = held.size_bytes + sum(run.entry.batch_bytes for run in below)
    start = manifest.start_offset
    for run in below:
        if not _is_over(run, size, limits, now_ms):
            break
        start, size = max(start, run.end_offset), size - run.entry.batch_bytes
    return start


def _runs_from(manifest: Manifest, offset: int) -> Iterator[Run]:
    run = manifest.run_at(offset)
    while run is not None:
        yield run
        run = manifest.run_at(run.end_offset)


def _is_over(run: Run, size_bytes: int, limits: Limits, now_ms: int) -> bool:
    if limits.ms >= 0 and 0 <= run.entry.max_timestamp < now_ms - limits.ms:
        return True
    return limits.bytes >= 0 and size_bytes - run.entry.batch_bytes >= limits.bytes
