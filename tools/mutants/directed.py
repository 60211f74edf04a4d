"""The third detector: do the directed schedules of the simulator turn red with a planted bug?

    once for a tree:   every schedule, without a bug, marked ─► the functions that each one calls
    for each bug:      those that call a function that it changes, the quickest first, to the first
                       that is red; red once more by itself ─► found

A schedule (tests/sim/test_directed*) is a test that runs the simulator under faults chosen by
hand. It is red where the run breaks a promise, or where it does not come to what the schedule waits
for; which of the two is kept. A bug in a function that no schedule calls is not tried.
"""

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from .mutant import Mutant
from .runner import NotGreen
from .tree import Finished, Tree

SUITE = "tests/sim"
PATTERN = "test_directed*.py"
SLOWER_MAX = 6
"""A bug may make a schedule wait for what never comes: so many times its usual time."""
SECONDS_MIN = 90.0

_PYTEST = (
    "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no",
    "-p", "tools.mutants.watching",
)  # fmt: skip
_RED, _ALL_GREEN = 1, 0


class Schedule(NamedTuple):
    """A directed schedule as it is without a bug."""

    seconds: float
    reached: frozenset[str]
    """The functions that it calls."""


def schedules_of(tree: Tree) -> dict[str, Schedule]:
    """Run all schedules without a bug; return them by the ids of their tests.

    Raises:
        NotGreen: one is red, so that no score can be had.
    """
    files = sorted(str(one.relative_to(tree.path)) for one in (tree.path / SUITE).glob(PATTERN))
    with tree.without_twins():
        finished, watched = _run(tree, files, None, "--mark-functions")
    if finished.code != _ALL_GREEN:
        raise NotGreen(f"the directed schedules are not green:\n{finished.output[-2000:]}")
    return {
        test: Schedule(one["seconds"], frozenset(one["reached"])) for test, one in watched.items()
    }


def red_schedule(tree: Tree, mutant: Mutant, schedules: Mapping[str, Schedule]) -> dict[str, Any]:
    """Plant a bug and run what calls it; return what is known then, for the results."""
    changed = mutant.functions(tree.path)
    chosen = {test: one.seconds for test, one in schedules.items() if changed & one.reached}
    facts: dict[str, Any] = {"tried": len(chosen), "red": 0, "reached": bool(chosen)}
    if not chosen:
        return facts
    started = time.monotonic()
    in_order = sorted(chosen, key=lambda test: chosen[test])
    seconds_max = SECONDS_MIN + SLOWER_MAX * sum(chosen.values())
    with tree.planted(mutant):
        finished, watched = _run(tree, in_order, seconds_max)
        red = [test for test, one in watched.items() if one["is_red"]]
        if finished.code == _RED and red and _run(tree, red[:1], seconds_max)[0].code == _RED:
            told = watched[red[0]]
            facts |= {"red": 1, "test": red[0], "told": told["told"], "by": told["by"]}
            facts["tried"] = len(watched)
    is_clear = facts["red"] or finished.code == _ALL_GREEN
    return {**facts, "unclear": int(not is_clear), "seconds": round(time.monotonic() - started, 1)}


def _run(
    tree: Tree, tests: list[str], seconds_max: float | None, *options: str
) -> tuple[Finished, dict[str, Any]]:
    """Run tests; return what `watching` has written about each, in the order of their end."""
    watched = tree.path / "watched.json"
    watched.unlink(missing_ok=True)
    where = (f"--basetemp={tree.path / 'tmp'}", f"--watched={watched}")
    finished = tree.run(*_PYTEST, *where, *options, *tests, seconds_max=seconds_max)
    found: dict[str, Any] = json.loads(watched.read_text()) if watched.exists() else {}
    return finished, found
