"""Which positions of a log the index lacks, and which of its tables are of another log.

    log        start ───────────────────────────────────────── confirmed
    floor             ▲ what lies below was let go, by the bound of the disk or by retention
    tables               [────)[─────)        [────)
    pieces                            [──)         [─────►
    lacking                              [────)              the first such range

Logs agree up to a position if the frame in front of it has the same epoch in both (the epochs of
masterships; ADR 0009), so a log that was cut tells by its epochs which tables hold no more.

Source: ours.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.finding.table import Table


class Range(NamedTuple):
    """Positions [first, end) of a log."""

    first: int
    end: int


def lacking(covered: Sequence[tuple[int, int]], start: int, end: int) -> Range | None:
    """Return the first range of [start, end) that nothing covers; None: there is none."""
    at = start
    for first, stop in sorted(covered):
        if first > at:
            break
        at = max(at, stop)
    if at >= end:
        return None
    following = [first for first, _ in covered if first > at]
    return Range(at, min(min(following, default=end), end))


def lacking_bytes(covered: Sequence[tuple[int, int]], start: int, end: int) -> int:
    """Return how many bytes of [start, end) nothing covers."""
    missing = 0
    while (gap := lacking(covered, start, end)) is not None:
        missing += gap.end - gap.first
        start = gap.end
    return missing


def epoch_before(epochs: Sequence[tuple[int, int]], position: int) -> int | None:
    """Return the epoch of the frame in front of a position; None where that is not known.

    `epochs` are (epoch, start position) of masterships, oldest first.
    """
    starts = [start for _, start in epochs]
    at = bisect_left(starts, position)
    return epochs[at - 1][0] if at else None


def holds(end: int, epoch: int, epochs: Sequence[tuple[int, int]], log_end: int) -> bool:
    """Whether the log still has what was indexed up to `end`, whose last frame has the epoch."""
    if end > log_end:
        return False
    known = epoch_before(epochs, end)
    return epoch < 0 or known is None or known == epoch


def kept_tables(
    tables: Iterable[Table], epochs: Sequence[tuple[int, int]], log_end: int
) -> list[Table]:
    """Return the tables of this log by position, without those that lie over another."""
    kept: list[Table] = []
    for table in sorted(tables, key=lambda one: (one.first, -one.end)):
        is_over = bool(kept) and table.first < kept[-1].end
        if not is_over and holds(table.end, table.epoch, epochs, log_end):
            kept.append(table)
    return kept
