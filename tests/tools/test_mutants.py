"""The score for the tests: bugs can be planted, are found by who finds them, and leave no trace."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tools.mutants import runner, search
from tools.mutants.catalogue import MUTANTS, chosen
from tools.mutants.choice import Schedule
from tools.mutants.directed import files_of, red_schedule, schedules_of
from tools.mutants.excuses import EXCUSES
from tools.mutants.mutant import AnchorLost, Kind, plant
from tools.mutants.report import score_of, write
from tools.mutants.results import Detector, Results
from tools.mutants.runner import FOUND, SURVIVED, NotGreen, Outcome, first_red, look_for
from tools.mutants.search import Search
from tools.mutants.simulator import Seeds, red_seeds
from tools.mutants.suites import wide
from tools.mutants.tree import Tree, copy_of

ROOT = Path(__file__).parents[2]
CODE = "def double(number):\n    return 2 * number\n"
TESTS = (
    "from penstock.base.doubling import double\n\n\n"
    "def test_one_and_one_is_two():\n    assert double(1) == 2\n\n\n"
    "def test_twice_two_is_four():\n    assert double(2) == 4\n"
)
SUITE = ("tests/replication/test_doubling.py",)
starting_pytest = pytest.mark.timeout(600)
"""For what starts pytest again and again: seconds of one core each. The limit is for hangs only."""


def bug(old: str, new: str, *, near: tuple[str, ...] = SUITE):
    edit = ("base/doubling.py", old, new)
    return plant("bug", "Subject", "it breaks", edit, kind=Kind.RANGE, near=near)


@pytest.fixture
def root(tmp_path) -> Path:
    """A repository with one function and its tests."""
    root = tmp_path / "root"
    for place, text in (
        ("src/penstock/__init__.py", ""),
        ("src/penstock/base/__init__.py", ""),
        ("src/penstock/base/doubling.py", CODE),
        (SUITE[0], TESTS),
        ("tests/controller/test_none.py", "def test_nothing():\n    pass\n"),
        ("tests/broker/test_none.py", "def test_nothing():\n    pass\n"),
        ("tests/runtime/test_nothing.py", "def test_nothing():\n    pass\n"),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    # One directory of tests may have a module of the same name as another.
    (root / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\nmarkers =\n process\n spark\n compat\n"
    )
    for command in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a"),
    ):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    return root


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_every_bug_can_be_planted_in_the_present_source(mutant):
    mutant.mutated(ROOT)
    assert all(edit.old != edit.new for edit in mutant.edits)
    assert all((ROOT / one).exists() for one in mutant.near)


def test_there_are_bugs_of_every_kind_and_each_has_its_own_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
    assert len({mutant.subject for mutant in MUTANTS}) >= 15
    assert {mutant.kind for mutant in MUTANTS} == set(Kind)
    assert set(EXCUSES) <= {mutant.name for mutant in MUTANTS}


def test_a_bug_whose_place_is_gone_fails_loudly(root):
    with pytest.raises(AnchorLost, match="has 0 times"):
        bug("return 3 * number", "").mutated(root)
    with pytest.raises(AnchorLost, match="has 2 times"):
        bug("number", "").mutated(root)


def test_a_bug_that_is_no_python_is_none(root):
    with pytest.raises(SyntaxError):
        bug("return 2", "return )").mutated(root)


@starting_pytest
def test_the_first_red_test_is_named_and_the_source_is_as_before(root):
    with copy_of(root) as tree:
        outcome = look_for(tree, bug("2 * number", "number + 1"))
        assert (outcome.status, outcome.stage) == (FOUND, "near")
        assert outcome.test == f"{SUITE[0]}::test_twice_two_is_four"
        assert (tree.path / "src/penstock/base/doubling.py").read_text() == CODE
        # Planted within the same second, with the same size: no stale bytecode may run.
        assert look_for(tree, bug("2 * number", "1 + number")).status == FOUND
        assert look_for(tree, bug("2 * number", "number * 2")).status == SURVIVED
    assert not tree.path.exists()
    assert (root / "src/penstock/base/doubling.py").read_text() == CODE


@starting_pytest
def test_a_bug_that_its_own_tests_miss_is_looked_for_in_the_rooms_above(root):
    with copy_of(root) as tree:
        outcome = look_for(tree, bug("2 *", "3 *", near=("tests/controller/test_none.py",)))
    assert (outcome.status, outcome.stage) == (FOUND, "wide")


@starting_pytest
def test_a_test_that_is_red_once_and_then_green_finds_nothing(root):
    unsteady = (
        "from pathlib import Path\n\n\ndef test_now_and_then():\n"
        "    mark = Path(__file__).with_suffix('.mark')\n"
        "    was_there = mark.exists()\n    mark.touch()\n    assert was_there\n"
    )
    with copy_of(root) as tree:
        (tree.path / SUITE[0]).write_text(unsteady)
        outcome = look_for(tree, bug("2 * number", "3 * number"))
    assert outcome.status == SURVIVED
    assert "unsteady" in outcome.detail


@starting_pytest
def test_a_test_that_is_red_without_the_bug_too_finds_nothing(root):
    with copy_of(root) as tree:
        (tree.path / SUITE[0]).write_text("def test_red():\n    assert False\n")
        with pytest.raises(NotGreen, match="test_red is red without a bug"):
            look_for(tree, bug("2 * number", "3 * number"))


@starting_pytest
def test_a_test_that_never_ends_is_ended(root, monkeypatch):
    monkeypatch.setattr(runner, "NEAR_SECONDS", 3.0)
    monkeypatch.setattr(runner, "WIDE_SECONDS", 3.0)
    with copy_of(root) as tree:
        endless = bug("return 2 * number", "while True:\n        pass")
        outcome = look_for(tree, replace(endless, near=SUITE))
    assert outcome.status == SURVIVED
    assert "took longer" in outcome.detail


@starting_pytest
def test_no_score_is_had_from_tests_that_fail_without_a_bug(root, monkeypatch):
    monkeypatch.setattr(runner, "MUTANTS", (bug("2", "3"),))
    with copy_of(root) as tree:
        runner.check_clean(tree)
        (tree.path / SUITE[0]).write_text("def test_red():\n    assert False\n")
        with pytest.raises(NotGreen, match="tests/replication"):
            runner.check_clean(tree)


def test_every_changed_file_has_tests_of_its_room():
    for mutant in MUTANTS:
        assert wide(tuple(edit.path for edit in mutant.edits))


def test_a_collection_error_is_told_from_a_red_test():
    assert first_red("FAILED tests/a.py::test_b[1 - 2] - assert 1 == 2\n") != ""
    assert first_red("ERROR tests/a.py - ImportError\n") == "tests/a.py"
    assert first_red("3 passed in 1.0s\n") == ""


def test_results_count_as_long_as_the_source_is_the_same(root):
    mutant = MUTANTS[0]
    (root / "tests" / "a.py").write_text("def b():\n    pass\n\n\ndef c():\n    pass\n")
    Results(root).note(mutant, "then", Outcome(status=FOUND, test="tests/a.py::b", seconds=1.0))
    results = Results(root)
    assert results.is_known(mutant, "then")
    assert not results.is_known(mutant, "now")
    results.note_by(Detector.SEEDS, mutant, "then", {"red": 2, "tried": 20})
    assert Results(root).is_known(mutant, "then")
    Results(root).note(MUTANTS[1], "then", Outcome(status=FOUND, test="tests/a.py::c"))
    results.note(mutant, "then", Outcome(status=SURVIVED))
    assert Results(root).is_known(MUTANTS[1], "then"), "two runs may go on at once"
    assert not results.is_known(mutant, "then"), "there may be a test for it by now"


@pytest.mark.parametrize(
    ("test", "is_known"),
    [
        ("tests/a.py::test_it", True),
        ("tests/a.py::test_it[1-b]", True),
        ("tests/a.py::test_later", True),
        ("tests/a.py::TestThose::test_inherited", True),
        ("tests/a.py::TestMade::runTest", True),
        ("tests/a.py::test_i", False),
        ("tests/a.py::TestGone::test_it", False),
        ("tests/b.py::test_it", False),
    ],
)
def test_what_a_test_found_that_is_gone_or_has_another_name_is_tried_again(root, test, is_known):
    lines = ("def test_it(one):", "async def test_later():", "class TestThose(Contract):")
    text = "".join(f"{line}\n    pass\n" for line in lines) + "TestMade = Machine.TestCase\n"
    (root / "tests" / "a.py").write_text(text)
    Results(root).note(MUTANTS[0], "then", Outcome(status=FOUND, test=test))
    assert Results(root).is_known(MUTANTS[0], "then") is is_known


def test_what_tests_found_in_an_earlier_source_outlives_the_simulator_in_a_later_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text("def b():\n    pass\n")
    results = Results(tmp_path)
    results.note(MUTANTS[0], "then", Outcome(status=FOUND, test="tests/a.py::b", seconds=1.0))
    results.note_by(Detector.SEEDS, MUTANTS[0], "now", {"red": 0, "tried": 6})
    assert results.is_known(MUTANTS[0], "then"), "it was found in that source"
    assert not results.is_known(MUTANTS[0], "now"), "and is to be tried in this one"
    assert results.is_tried_by(Detector.SEEDS, MUTANTS[0], "now")
    assert not results.is_tried_by(Detector.SEEDS, MUTANTS[0], "then")


def test_the_page_counts_what_was_found_and_names_what_was_not(root):
    (root / "docs").mkdir()
    results = Results(root)
    for mutant in MUTANTS[1:]:
        results.note(mutant, "now", Outcome(status=FOUND, test="tests/a.py::b", seconds=1.0))
    assert score_of(results).untried == 1
    assert not write(root, results).is_good
    results.note(MUTANTS[0], "now", Outcome(status=SURVIVED))
    score = write(root, results)
    assert (score.found, score.is_good) == (len(MUTANTS) - 1, True)
    page = (root / "docs/mutation-score.md").read_text()
    assert "## Not found" in page
    assert MUTANTS[0].name in page.partition("## Not found")[2]


def test_the_page_gives_both_scores_for_each_kind_of_mistake(root):
    (root / "docs").mkdir()
    results = Results(root)
    orders = [mutant for mutant in MUTANTS if mutant.kind is Kind.ORDER]
    for mutant in orders[1:]:
        results.note(mutant, "now", Outcome(status=FOUND, test="tests/a.py::b"))
    results.note_by(Detector.SEEDS, orders[1], "now", {"red": 1, "tried": 8})
    results.note_by(Detector.SEEDS, orders[2], "now", {"red": 0, "tried": 8})
    write(root, results)
    tests = f"{len(orders) - 1} of {len(orders) - 1} (100 %)"
    row = f"| order | {len(orders)} | {tests} | 1 of 2 (50 %) | not tried | 1 of 2 (50 %) |"
    assert row in (root / "docs/mutation-score.md").read_text()


def test_bugs_are_chosen_by_how_their_names_begin():
    assert {one.name for one in chosen(["raft-vote-t"])} == {"raft-vote-twice"}
    with pytest.raises(KeyError, match="no planted bug"):
        chosen(["nothing-like-it"])


@starting_pytest
def test_a_bug_stands_in_the_innermost_function_that_it_changes():
    (mutant,) = chosen(["retention-deletes-too-far"])
    (name,) = mutant.functions(ROOT)
    assert name.startswith("storage/")
    assert all(one.functions(ROOT) for one in MUTANTS)


def test_a_bug_that_no_run_comes_to_is_not_tried_and_counts_for_no_score(root):
    (root / "docs").mkdir()
    mutant = next(one for one in MUTANTS if one.kind is Kind.STALE)
    with copy_of(ROOT) as tree:
        facts = red_seeds(tree, mutant, range(1), frozenset())
    assert (facts["reached"], facts["tried"]) == (False, 0)
    results = Results(root)
    results.note_by(Detector.SEEDS, mutant, "now", facts)
    write(root, results)
    page = (root / "docs/mutation-score.md").read_text()
    count = sum(one.kind is Kind.STALE for one in MUTANTS)
    assert f"| stale-state | {count} | not tried | not tried | not tried | not tried |" in page
    assert "| not reached |" in page


SCHEDULES = (
    "from penstock.base.doubling import double\n\n\n"
    "def test_nothing_is_doubled():\n    assert True\n\n\n"
    "def test_once():\n    findings = [] if double(1) == 2 else ['0.1 it is wrong']\n"
    "    assert not findings\n\n\n"
    "def test_where_the_schedule_wants_to_get():\n    assert double(2) in {4, 3}\n"
)


@pytest.fixture
def scheduled(root: Path) -> Path:
    """The repository, with directed schedules and what watches them."""
    for place in (
        "simulator/__init__.py",
        "simulator/reach",
        "tools/mutants/watching.py",
    ):
        source, target = ROOT / place, root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (root / "tests/sim").mkdir()
    (root / "tests/sim/test_directed_doubling.py").write_text(SCHEDULES)
    (root / "tests/sim/conftest.py").write_text("import penstock.base.doubling\n")
    for command in (
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "b"),
    ):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    return root


@starting_pytest
def test_a_bug_is_looked_for_with_the_schedules_that_call_what_it_changes(scheduled):
    with copy_of(scheduled) as tree:
        schedules = schedules_of(tree, files_of(tree))
        assert [bool(schedule.reached) for schedule in schedules.values()] == [False, True, True]
        promise = red_schedule(tree, bug("2 * number", "number + 2"), schedules)
        assert promise["test"] == "tests/sim/test_directed_doubling.py::test_once"
        assert (promise["red"], promise["by"]) == (1, "promise")
        assert "it is wrong" in promise["told"]
        waiting = red_schedule(tree, bug("2 * number", "number ** 3 + 1"), schedules)
        assert (waiting["red"], waiting["by"]) == (1, "schedule")
        missed = red_schedule(tree, bug("2 * number", "number + number"), schedules)
        assert (missed["tried"], missed["red"], missed["unclear"]) == (2, 0, 0)


@starting_pytest
def test_schedules_that_fail_without_a_bug_find_none(scheduled):
    with copy_of(scheduled) as tree:
        (tree.path / "tests/sim/test_directed_red.py").write_text("def test_it():\n    assert 0\n")
        with pytest.raises(NotGreen, match="directed schedules"):
            schedules_of(tree, files_of(tree))


def test_a_bug_that_no_schedule_calls_is_not_tried(tmp_path):
    place = tmp_path / "src/penstock/base/doubling.py"
    place.parent.mkdir(parents=True)
    place.write_text(CODE)
    tree: Any = SimpleNamespace(path=tmp_path)
    facts = red_schedule(tree, bug("2 *", "3 *"), {"a": Schedule(1.0, frozenset({"b.py:c"}))})
    assert facts == {"tried": 0, "red": 0, "reached": False}


def planted_in(tmp_path: Path) -> Tree:
    place = tmp_path / "src/penstock/base/doubling.py"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(CODE)
    return cast("Tree", SimpleNamespace(path=tmp_path, commit="a" * 40))


def test_survivors_of_the_simulator_are_those_that_it_has_not_found(tmp_path, monkeypatch):
    tree, results, tried = planted_in(tmp_path), Results(tmp_path), []
    by_seeds, by_none, by_schedule = (
        replace(bug("2 *", "3 *"), name=name) for name in ("by-seeds", "by-none", "by-schedule")
    )
    results.note(by_seeds, "then", Outcome(status=FOUND, test="tests/a.py::b"))
    results.note_by(Detector.SEEDS, by_seeds, "then", {"red": 1, "tried": 3})
    results.note_by(Detector.SEEDS, by_none, "then", {"red": 0, "tried": 6})
    results.note_by(Detector.DIRECTED, by_schedule, "then", {"red": 1, "tried": 6})

    def look(kind: str):
        def looked(tree, mutant, *_, **__):
            tried.append((kind, mutant.name))
            return {"red": 0, "tried": 6, "reached": True}

        return looked

    monkeypatch.setattr(search, "red_seeds", look("seeds"))
    monkeypatch.setattr(search, "red_schedule", look("directed"))
    monkeypatch.setattr(search, "clean_seeds", lambda *_: Seeds({}, frozenset()))
    monkeypatch.setattr(search, "files_of", lambda *_: [])
    monkeypatch.setattr(search, "kept_schedules", lambda *_: {})
    options: Any = SimpleNamespace(
        seeds=range(1), directed=True, survivors=True, fresh=False, seconds=None, files=[]
    )
    wanted = [("seeds", "by-none"), ("seeds", "by-schedule"), ("directed", "by-none")]
    for _ in range(2):  # what was broken off goes on: nothing is tried twice on a commit
        Search(tree, results, options).run([by_seeds, by_none, by_schedule])
        assert tried == wanted
    assert (results.of(by_seeds) or {})["status"] == FOUND
    assert (results.by(Detector.SEEDS, by_seeds) or {})["red"] == 1


def test_the_page_tells_seeds_and_schedules_apart_and_together(root):
    (root / "docs").mkdir()
    results, orders = Results(root), [one for one in MUTANTS if one.kind is Kind.ORDER]
    results.note_by(Detector.SEEDS, orders[0], "now", {"red": 1, "tried": 2, "reached": True})
    results.note_by(Detector.SEEDS, orders[1], "now", {"red": 0, "tried": 6, "reached": True})
    results.note_by(Detector.SEEDS, orders[2], "now", {"red": 0, "tried": 0, "reached": False})
    red = {"red": 1, "tried": 4, "reached": True, "test": "tests/sim/a.py::b", "by": "promise"}
    results.note_by(Detector.DIRECTED, orders[1], "now", red)
    none = {"red": 0, "tried": 0, "reached": False}
    results.note_by(Detector.DIRECTED, orders[2], "now", none)
    write(root, results)
    page = (root / "docs/mutation-score.md").read_text()
    assert "random seeds of the simulator find 1 of 2" in page
    assert "directed schedules of the simulator find 1 of 1" in page
    assert "**the simulator finds 2 of 2 (100 %) by one or the other**" in page
    assert "| 0 of 6 | `a.py::b` |" in page
