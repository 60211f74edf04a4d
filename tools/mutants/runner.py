"""Looks for a planted bug with the tests: those of its room first, then those of the rooms above.

    plant ─► near tests ─ green ─► wide tests ─ green ─► survived
                └─ first red test, red again when run alone ─► found

A test counts only if it is red twice with the bug and green without it; all tests that are tried
must be green without one (`check_clean`): otherwise any test that fails now and then would find
every bug. Tests run in a fixed order, with fixed seeds, and each try has a time bound.

It deliberately runs no tests that start real processes, Spark or clients from elsewhere: those take
minutes for a bug, and find what they find by luck. What a bug is in seeds of the simulator is
looked up by `simulator`.
"""

import re
import time
from dataclasses import dataclass

from .catalogue import MUTANTS
from .mutant import AnchorLost, Mutant
from .suites import wide
from .tree import Finished, Tree

NEAR_SECONDS = 300.0
WIDE_SECONDS = 420.0
AGAIN_SECONDS = 90.0
UNSTEADY_MAX = 3
"""Tests that were red once and then green, after which a bug counts as not found."""

FOUND = "found"
SURVIVED = "survived"
BROKEN = "broken"

_PYTEST = (
    "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no",
    "--hypothesis-seed=0", "-m", "not process and not spark and not compat", "--timeout=20",
)  # fmt: skip
"""A bug may make a test hang: here it is red long before the limit that busy machines need."""
_RED = re.compile(r"^(FAILED|ERROR) (\S+\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
_GREEN_CODES = {0, 5}
"""All passed, or nothing was left to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one bug."""

    status: str
    test: str = ""
    stage: str = ""
    seconds: float = 0.0
    """From planting to the first red test."""
    detail: str = ""


class NotGreen(Exception):
    """A test fails without any bug planted."""


def look_for(tree: Tree, mutant: Mutant, *, is_near_only: bool = False) -> Outcome:
    """Plant a bug, and return which test finds it; `is_near_only`: of its own room.

    Raises:
        NotGreen: that test is red without the bug as well.
    """
    try:
        with tree.planted(mutant):
            outcome = _look(tree, mutant, is_near_only=is_near_only)
    except (AnchorLost, SyntaxError) as error:
        return Outcome(status=BROKEN, detail=str(error))
    if outcome.status == FOUND:
        finished = _run(tree, (outcome.test,), [], AGAIN_SECONDS)
        if finished.code not in _GREEN_CODES:
            raise NotGreen(f"{outcome.test} is red without a bug:\n{finished.output[-2000:]}")
    return outcome


def _look(tree: Tree, mutant: Mutant, *, is_near_only: bool) -> Outcome:
    started = time.monotonic()
    above = wide(tuple(edit.path for edit in mutant.edits))
    # pytest forgets the order where a file and its directory are both named: so one by one.
    files = tuple(one for one in mutant.near if one.endswith(".py"))
    rooms = tuple(one for one in mutant.near if one not in files)
    stages = (
        ("near", files, NEAR_SECONDS),
        ("room", rooms, WIDE_SECONDS),
        ("wide", above, WIDE_SECONDS),
    )
    skipped: list[str] = []
    notes: list[str] = []
    for stage, suite, seconds_max in stages[: 1 if is_near_only else 3]:
        while suite:
            finished = _run(tree, suite, skipped, seconds_max)
            seconds = time.monotonic() - started
            if finished.code is None:
                notes.append(f"{stage} tests took longer than {seconds_max:.0f} s")
                break
            if finished.code in _GREEN_CODES:
                break
            test = first_red(finished.output)
            if "::" not in test:
                return Outcome(status=BROKEN, detail=finished.output[-600:])
            if _run(tree, (test,), [], AGAIN_SECONDS).code != 0:
                return Outcome(status=FOUND, test=test, stage=stage, seconds=round(seconds, 1))
            notes.append(f"unsteady: {test}")
            skipped.append(f"--deselect={test}")
            if len(notes) >= UNSTEADY_MAX:
                break
        skipped += [f"--ignore={one}" for one in suite]
    seconds = time.monotonic() - started
    return Outcome(status=SURVIVED, seconds=round(seconds, 1), detail="; ".join(notes))


def _run(tree: Tree, suite: tuple[str, ...], options: list[str], seconds_max: float) -> Finished:
    base = f"--basetemp={tree.path / 'tmp'}"
    return tree.run(*_PYTEST, base, *options, *suite, seconds_max=seconds_max)


def first_red(output: str) -> str:
    """Return the node id of the first test that pytest names as failed, or its file."""
    found = _RED.search(output)
    return "" if found is None else found.group(2)


def check_clean(tree: Tree) -> float:
    """Run every test that is tried for any bug, without one; return how long that took.

    Raises:
        NotGreen: one is red, so that no score can be had.
    """
    started = time.monotonic()
    suites = dict.fromkeys(
        one
        for mutant in MUTANTS
        for one in (*mutant.near, *wide(tuple(edit.path for edit in mutant.edits)))
    )
    directories = [suite for suite in suites if not suite.endswith(".py")]
    for directory in directories:
        finished = _run(tree, (directory,), [], WIDE_SECONDS * 2)
        if finished.code not in _GREEN_CODES:
            raise NotGreen(f"{directory} is not green without a bug:\n{finished.output[-2000:]}")
    return time.monotonic() - started
