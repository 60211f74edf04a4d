"""Which directed schedules are tried with a planted bug, and in which order.

Only those that call a function that the bug changes can find it. Of these the first is the one that
is made for such a bug: a schedule that calls few functions besides looks at them closely, and one
that has found bugs in the same files will find more. What is quick goes before what is slow.

A search may be bounded: of each bug so many seconds of schedules. The next search goes on with
those that are left.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from .catalogue import MUTANTS
from .mutant import Mutant
from .results import Detector, Results


class Schedule(NamedTuple):
    """A directed schedule as it is without a bug."""

    seconds: float
    reached: frozenset[str]
    """The functions that it calls."""


class Choice(NamedTuple):
    """The schedules for one bug."""

    tried: tuple[str, ...]
    """To be tried now, the likeliest first."""
    left: int
    """How many more call what the bug changes."""


def choose(
    changed: Collection[str],
    schedules: Mapping[str, Schedule],
    *,
    green: Collection[str] = (),
    finds: Mapping[str, int] | None = None,
    seconds_max: float | None = None,
) -> Choice:
    """Return the schedules to try for a bug that changes these functions.

    `green` are those that did not find it, `finds` how many bugs in the same files each one found.
    The first is chosen however long it takes.
    """
    names = frozenset(changed)
    calling = [test for test, schedule in schedules.items() if names & schedule.reached]
    open_ones = [test for test in calling if test not in green]

    def cost(test: str) -> float:
        schedule = schedules[test]
        return schedule.seconds * len(schedule.reached) / (1 + (finds or {}).get(test, 0))

    chosen: list[str] = []
    seconds = 0.0
    for test in sorted(open_ones, key=cost):
        seconds += schedules[test].seconds
        if chosen and seconds_max is not None and seconds > seconds_max:
            break
        chosen.append(test)
    return Choice(tuple(chosen), len(open_ones) - len(chosen))


def finds_beside(mutant: Mutant, results: Results) -> dict[str, int]:
    """Return how many other bugs in the files of this one each schedule has found."""
    files = {edit.path for edit in mutant.edits}
    finds: dict[str, int] = {}
    for other in MUTANTS:
        test = (results.by(Detector.DIRECTED, other) or {}).get("test")
        if test and other.name != mutant.name and files & {edit.path for edit in other.edits}:
            finds[test] = finds.get(test, 0) + 1
    return finds
