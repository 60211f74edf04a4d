"""The third detector: do the directed schedules of the simulator turn red with a planted bug?

    once for a tree:   every schedule, without a bug, marked ─► the functions that each one calls
    for each bug:      those that call a function that it changes, the likeliest first (`choice`),
                       to the first that is red; red once more by itself ─► found

A schedule (tests/sim/test_directed*) is a test that runs the simulator under faults chosen by
hand. It is red where the run breaks a promise, or where it does not come to what the schedule waits
for; which of the two is kept. A bug in a function that no schedule calls is not tried.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from .choice import Choice, Schedule, choose
from .mutant import Mutant
from .runner import NotGreen
from .tree import Finished, Tree

SUITE = "tests/sim"
KEPT = "build/schedules.json"
PATTERN = "test_directed*.py"
SLOWER_MAX = 6
"""A bug may make a schedule wait for what never comes: so many times its usual time."""
SECONDS_MIN = 90.0

_PYTEST = (
    "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no",
    "-p", "tools.mutants.watching",
)  # fmt: skip
_RED, _ALL_GREEN = 1, 0


def files_of(tree: Tree, names: Sequence[str] = ()) -> list[str]:
    """Return the files with schedules, all or those with one of these texts in their name."""
    files = sorted(str(one.relative_to(tree.path)) for one in (tree.path / SUITE).glob(PATTERN))
    return [file for file in files if not names or any(name in Path(file).name for name in names)]


def schedules_of(tree: Tree, files: Sequence[str]) -> dict[str, Schedule]:
    """Run all schedules of these files without a bug; return them by the ids of their tests.

    Raises:
        NotGreen: one is red, so that no score can be had.
    """
    with tree.without_twins():
        finished, watched = _run(tree, files, None, "--mark-functions")
    if finished.code != _ALL_GREEN:
        raise NotGreen(f"the directed schedules are not green:\n{finished.output[-2000:]}")
    return {
        test: Schedule(one["seconds"], frozenset(one["reached"])) for test, one in watched.items()
    }


def kept_schedules(tree: Tree, root: Path, files: Sequence[str]) -> dict[str, Schedule]:
    """Return what `schedules_of` returns, from the file of an earlier search where it still holds.

    What is found out is kept file by file. Raises NotGreen as `schedules_of` does.
    """
    place, state = root / KEPT, tree.state_of("src", "simulator", SUITE)
    kept = json.loads(place.read_text()) if place.exists() else {}
    if kept.get("state") != state:
        kept = {"state": state, "functions": [], "files": {}}
    place.parent.mkdir(exist_ok=True)
    for file in files:
        if file not in kept["files"]:
            _put(kept, file, schedules_of(tree, [file]))
            place.write_text(json.dumps(kept))
    functions = kept["functions"]
    return {
        test: Schedule(seconds, frozenset(functions[number] for number in numbers))
        for file in files
        for test, (seconds, numbers) in kept["files"][file].items()
    }


def _put(kept: dict[str, Any], file: str, schedules: Mapping[str, Schedule]) -> None:
    """Put schedules into what is kept, where functions have numbers."""
    numbers = {name: number for number, name in enumerate(kept["functions"])}
    for schedule in schedules.values():
        for name in schedule.reached:
            numbers.setdefault(name, len(numbers))
    kept["functions"] = list(numbers)
    kept["files"][file] = {
        test: (one.seconds, sorted(numbers[name] for name in one.reached))
        for test, one in schedules.items()
    }


def red_schedule(
    tree: Tree,
    mutant: Mutant,
    schedules: Mapping[str, Schedule],
    *,
    green: Collection[str] = (),
    finds: Mapping[str, int] | None = None,
    seconds_max: float | None = None,
) -> dict[str, Any]:
    """Plant a bug and run what calls it; return what is known then, for the results.

    `green`, `finds` and `seconds_max` are those of `choice.choose`. Where no schedule is red the
    facts name all that were tried, as `green`, and say how many were not, as `left`.
    """
    choice = choose(
        mutant.functions(tree.path), schedules, green=green, finds=finds, seconds_max=seconds_max
    )
    facts: dict[str, Any] = {
        "tried": len(green) + len(choice.tried),
        "red": 0,
        "reached": bool(choice.tried or green),
    }
    if not choice.tried:
        return facts
    started = time.monotonic()
    facts |= _first_red(tree, mutant, choice, schedules, len(green))
    if not facts["red"]:
        facts |= {"left": choice.left, "green": sorted({*green, *choice.tried})}
    return {**facts, "seconds": round(time.monotonic() - started, 1)}


def _first_red(
    tree: Tree, mutant: Mutant, choice: Choice, schedules: Mapping[str, Schedule], before: int
) -> dict[str, Any]:
    """Plant the bug and try these to the first that is red twice."""
    seconds_max = SECONDS_MIN + SLOWER_MAX * sum(schedules[one].seconds for one in choice.tried)
    with tree.planted(mutant):
        finished, watched = _run(tree, choice.tried, seconds_max)
        red = [test for test, one in watched.items() if one["is_red"]]
        if finished.code == _RED and red and _run(tree, red[:1], seconds_max)[0].code == _RED:
            told = watched[red[0]]
            found = {"red": 1, "test": red[0], "told": told["told"], "by": told["by"]}
            return {**found, "tried": before + len(watched), "unclear": 0}
    return {"unclear": int(finished.code != _ALL_GREEN)}


def _run(
    tree: Tree, tests: Sequence[str], seconds_max: float | None, *options: str
) -> tuple[Finished, dict[str, Any]]:
    """Run tests; return what `watching` has written about each, in the order of their end."""
    watched = tree.path / "watched.json"
    watched.unlink(missing_ok=True)
    where = (f"--basetemp={tree.path / 'tmp'}", f"--watched={watched}")
    finished = tree.run(*_PYTEST, *where, *options, *tests, seconds_max=seconds_max)
    found: dict[str, Any] = json.loads(watched.read_text()) if watched.exists() else {}
    return finished, found
