"""Runs of offsets, (first, end) with `end` exclusive: ascending, and not touching each other.

Source: none.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Run: TypeAlias = tuple[int, int]
Runs: TypeAlias = Sequence[Run]

SPAN_MAX = 1 << 23
"""No window, and no record, spans more offsets."""


def runs_of(offsets: Sequence[int]) -> list[Run]:
    """Return the runs of ascending offsets, which may repeat."""
    if not offsets:
        return []
    first = last = offsets[0]
    if offsets[-1] - first + 1 == len(offsets) == len(set(offsets)):
        return [(first, offsets[-1] + 1)]
    found: list[Run] = []
    for offset in offsets:
        if offset > last + 1:
            found.append((first, last + 1))
            first = offset
        last = offset
    found.append((first, last + 1))
    return found


def joined(runs: Iterable[Run]) -> list[Run]:
    """Return runs in order, with those that touch or overlap made one."""
    found: list[Run] = []
    for first, end in sorted(runs):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def length(runs: Iterable[Run]) -> int:
    """Return how many offsets are in the runs."""
    return sum(end - first for first, end in runs)


def parts(runs: Runs, count: int) -> Iterator[Runs]:
    """Yield the runs, at most `count` of them at a time."""
    for at in range(0, len(runs), count):
        yield runs[at : at + count]


def clipped(runs: Iterable[Run], first: int, end: int) -> list[Run]:
    """Return what of the runs lies in [first, end)."""
    found = ((max(a, first), min(b, end)) for a, b in runs)
    return [(a, b) for a, b in found if a < b]
