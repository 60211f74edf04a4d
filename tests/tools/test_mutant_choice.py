"""Which directed schedules are tried with a planted bug, in which order; how a search goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tools.mutants import directed, search
from tools.mutants.catalogue import MUTANTS
from tools.mutants.choice import Choice, Schedule, choose, finds_beside
from tools.mutants.directed import files_of, kept_schedules, red_schedule
from tools.mutants.mutant import Kind, Mutant, plant
from tools.mutants.results import Detector, Results
from tools.mutants.search import Search
from tools.mutants.tree import Finished, Tree

CHANGED = "base/doubling.py:double"
WHOLE_CLUSTER = frozenset({CHANGED, *(f"node/node.py:{number}" for number in range(99))})
SCHEDULES = {
    "the whole cluster": Schedule(1.0, WHOLE_CLUSTER),
    "slow and close": Schedule(20.0, frozenset({CHANGED})),
    "close": Schedule(2.0, frozenset({CHANGED, "base/doubling.py:halve"})),
    "elsewhere": Schedule(0.1, frozenset({"node/node.py:1"})),
}


def bug() -> Mutant:
    edit = ("base/doubling.py", "2 *", "3 *")
    return plant("bug", "Subject", "it breaks", edit, kind=Kind.RANGE, near=())


def test_a_schedule_that_looks_closely_goes_before_one_that_calls_everything() -> None:
    choice = choose({CHANGED}, SCHEDULES)
    assert choice == Choice(("close", "slow and close", "the whole cluster"), 0)


def test_a_schedule_that_found_bugs_beside_this_one_goes_first() -> None:
    choice = choose({CHANGED}, SCHEDULES, finds={"the whole cluster": 40})
    assert choice.tried[0] == "the whole cluster"


def test_a_bounded_choice_leaves_what_takes_longer_and_goes_on_there() -> None:
    first = choose({CHANGED}, SCHEDULES, seconds_max=5)
    assert first == Choice(("close",), 2)
    second = choose({CHANGED}, SCHEDULES, seconds_max=5, green=first.tried)
    assert second == Choice(("slow and close",), 1), "one at least, however long it takes"
    rest = choose({CHANGED}, SCHEDULES, seconds_max=5, green=(*first.tried, *second.tried))
    assert rest == Choice(("the whole cluster",), 0)


def test_finds_are_counted_of_other_bugs_in_the_same_files(tmp_path: Path) -> None:
    results = Results(tmp_path)
    paths = [{edit.path for edit in one.edits} for one in MUTANTS]
    mutant, beside = next(
        (one, other)
        for one, places in zip(MUTANTS, paths, strict=True)
        for other, others in zip(MUTANTS, paths, strict=True)
        if one is not other and places & others
    )
    away = next(
        one
        for one, places in zip(MUTANTS, paths, strict=True)
        if not places & {edit.path for edit in mutant.edits}
    )
    for other, test in ((beside, "a"), (away, "b"), (mutant, "c")):
        results.note_by(Detector.DIRECTED, other, "now", {"red": 1, "tried": 1, "test": test})
    assert finds_beside(mutant, results) == {"a": 1}


def planted_in(place: Path) -> Tree:
    source = place / "src/penstock/base/doubling.py"
    source.parent.mkdir(parents=True)
    source.write_text("def double(number):\n    return 2 * number\n")

    class Planted:
        """A tree that only says that the bug stands in it."""

        path, commit = place, "a" * 40

        @contextmanager
        def planted(self, _: Mutant) -> Iterator[None]:
            yield

        def state_of(self, *places: str) -> list[str]:
            return list(places)

    return cast("Tree", Planted())


def test_what_schedules_call_is_found_out_once_for_a_state_of_the_source(
    tmp_path: Path, monkeypatch: Any
) -> None:
    runs: list[str] = []

    def run(_: Tree, files: list[str]) -> dict[str, Schedule]:
        runs.extend(files)
        return {f"{files[0]}::{test}": one for test, one in SCHEDULES.items()}

    monkeypatch.setattr(directed, "schedules_of", run)
    state = ["one"]
    tree: Any = SimpleNamespace(state_of=lambda *_: state)
    (tmp_path / "build").mkdir()
    for files in (["a.py"], ["a.py"], ["b.py", "a.py"]):
        kept = kept_schedules(tree, tmp_path, files)
        assert {test.partition("::")[0] for test in kept} == set(files)
        assert kept["a.py::close"] == SCHEDULES["close"]
    assert runs == ["a.py", "b.py"]
    state = ["another"]
    kept_schedules(tree, tmp_path, ["a.py"])
    assert runs == ["a.py", "b.py", "a.py"]


def test_files_are_chosen_by_what_their_names_have(tmp_path: Path) -> None:
    (tmp_path / "tests/sim").mkdir(parents=True)
    for name in ("directed", "directed_groups", "directed_raft", "network"):
        (tmp_path / f"tests/sim/test_{name}.py").touch()
    tree: Any = SimpleNamespace(path=tmp_path)
    assert [Path(file).stem for file in files_of(tree, ["groups", "raft"])] == [
        "test_directed_groups",
        "test_directed_raft",
    ]
    assert [Path(file).name for file in files_of(tree, ["directed.py"])] == ["test_directed.py"]
    assert len(files_of(tree)) == 3


def test_a_search_of_some_files_says_that_others_are_left(tmp_path: Path, monkeypatch: Any) -> None:
    tree, results = planted_in(tmp_path), Results(tmp_path)
    monkeypatch.setattr(directed, "_first_red", lambda *_: {"unclear": 0})
    monkeypatch.setattr(search, "files_of", lambda _, names=(): ["a"] if names else ["a", "b"])
    known = {"a": {"elsewhere": SCHEDULES["elsewhere"]}, "b": SCHEDULES}
    monkeypatch.setattr(search, "kept_schedules", lambda _, __, files: known[files[-1]])
    options: Any = SimpleNamespace(
        seeds=None, directed=True, survivors=True, fresh=False, seconds=None, files=["a"]
    )
    Search(tree, results, options).run([bug()])
    assert results.by(Detector.DIRECTED, bug()) is None, "the other file may call it"
    known["a"] = {"close": SCHEDULES["close"]}
    Search(tree, results, options).run([bug()])
    facts = results.by(Detector.DIRECTED, bug()) or {}
    assert (facts["tried"], facts["left"], facts["green"]) == (1, 1, ["close"])
    options.files = []
    Search(tree, results, options).run([bug()])
    facts = results.by(Detector.DIRECTED, bug()) or {}
    assert (facts["tried"], facts.get("left", 0)) == (3, 0)


def test_a_bounded_search_tries_other_schedules_when_it_is_called_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    tree, results, runs = planted_in(tmp_path), Results(tmp_path), []

    def first_red(tree: Tree, mutant: Mutant, choice: Choice, *_: Any) -> dict[str, Any]:
        runs.append(choice.tried)
        return {"unclear": 0}

    monkeypatch.setattr(directed, "_first_red", first_red)
    monkeypatch.setattr(search, "files_of", lambda *_: ["a"])
    monkeypatch.setattr(search, "kept_schedules", lambda *_: SCHEDULES)
    options: Any = SimpleNamespace(
        seeds=None, directed=True, survivors=True, fresh=False, seconds=5.0, files=[]
    )
    for _ in range(4):
        Search(tree, results, options).run([bug()])
    assert runs == [("close",), ("slow and close",), ("the whole cluster",)]
    facts = results.by(Detector.DIRECTED, bug()) or {}
    assert (facts["tried"], facts["red"], facts.get("left", 0)) == (3, 0, 0)
    tree.commit = "b" * 40
    Search(tree, results, options).run([bug()])
    assert len(runs) == 3, "in this source all were tried"
    options.fresh, options.survivors = True, False
    Search(tree, results, options).run([bug()])
    assert runs[3:] == [("close",)]


def test_a_red_schedule_counts_when_it_is_red_again_by_itself(
    tmp_path: Path, monkeypatch: Any
) -> None:
    tree = planted_in(tmp_path)
    red = {"is_red": True, "told": "it is wrong", "by": "promise"}
    ends = [Finished(1, ""), Finished(1, "")]
    monkeypatch.setattr(directed, "_run", lambda *_: (ends.pop(0), {"close": red}))
    facts = red_schedule(tree, bug(), SCHEDULES, seconds_max=5)
    assert (facts["red"], facts["test"], facts["tried"], "left" in facts) == (1, "close", 1, False)
    ends += [Finished(1, ""), Finished(0, "")]
    facts = red_schedule(tree, bug(), SCHEDULES, seconds_max=5)
    assert (facts["red"], facts["unclear"], facts["left"]) == (0, 1, 2)
