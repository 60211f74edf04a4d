"""Which functions a run has called: marked where they begin, counted by room."""

import sys
from fnmatch import fnmatchcase
from types import ModuleType

import pytest

from simulator.reach import floors, functions, marking, table
from simulator.reach.exceptions import EXCEPTIONS

SOURCE = '''"""A module."""
from typing import Protocol

class Port(Protocol):
    def ask(self) -> int:
        """A method without a body of its own."""
        ...

class Thing:
    """A class."""

    def called(self):
        """A method with a docstring."""
        return helper()

    def missed(self):
        return 2

def helper():
    def inner():
        return 1
    return inner()

def generator():
    yield 1

def abstract():
    raise NotImplementedError
'''


@pytest.fixture
def module() -> ModuleType:
    """The source above, marked and executed."""
    marking.reached()
    made = ModuleType("marked")
    made.__dict__["__reached__"] = marking._marks
    exec(marking.marked(SOURCE, "room/marked.py", "marked.py"), made.__dict__)
    return made


def test_what_was_called_is_told_once_and_docstrings_stay(module):
    assert module.Thing().called() == 1
    found = marking.reached()
    assert found == [
        "room/marked.py:Thing.called",
        "room/marked.py:helper",
        "room/marked.py:helper.inner",
    ]
    assert marking.reached() == []
    assert module.Thing.called.__doc__ == "A method with a docstring."


def test_a_generator_counts_when_it_runs(module):
    running = module.generator()
    assert marking.reached() == []
    assert next(running) == 1
    assert marking.reached() == ["room/marked.py:generator"]


def test_functions_without_a_body_of_their_own_are_none(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room/thing.py").write_text(SOURCE)
    names = functions.all_of(tmp_path, ("room",))
    assert names == [
        f"room/thing.py:{name}"
        for name in ("Thing.called", "Thing.missed", "helper", "helper.inner", "generator")
    ]


def test_an_exception_is_in_no_figure_and_told_when_it_is_reached(monkeypatch):
    monkeypatch.setattr(table, "EXCEPTIONS", {"raft/b.py:*": "for a reason"})
    monkeypatch.setattr(table, "all_of", lambda _: ["raft/a.py:f", "raft/a.py:g", "raft/b.py:h"])
    (raft,) = [one for one in table.by_room(["raft/a.py:f"]) if one.room == "raft"]
    assert (raft.called, raft.missed, raft.share) == (1, ["raft/a.py:g"], 0.5)
    told = list(table.lines(["raft/b.py:h"], is_in_full=True))
    assert "    missed raft/a.py:f" in told
    assert told[-1] == "    excepted, but reached: raft/b.py:h"


def test_every_exception_names_something_and_says_why():
    names = functions.all_of(table.PACKAGE)
    for pattern, reason in EXCEPTIONS.items():
        assert any(fnmatchcase(name, pattern) for name in names), pattern
        assert len(reason.split()) > 3, pattern


def test_the_parts_of_the_broker_that_coordinate_groups_are_there():
    rooms = {one.room: one for one in table.by_room(())}
    assert len(rooms[table.COORDINATOR].missed) > 40


def test_a_mark_that_would_come_too_late_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setitem(sys.modules, "penstock.storage.log", ModuleType("log"))
    with pytest.raises(RuntimeError, match="imported before it could be marked"):
        marking.install()
    assert sys.meta_path == []


def test_every_room_has_a_floor_and_a_low_one_says_why():
    assert set(floors.FLOORS) == {one.room for one in table.by_room(())}
    for room, floor in floors.FLOORS.items():
        is_low = floor.percent < floors.WANTED_PERCENT
        assert bool(floor.reason) is is_low, room


def test_reach_that_has_fallen_is_named_after_many_seeds(monkeypatch):
    monkeypatch.setattr(floors, "FLOORS", {"raft": floors.Floor(90)})
    low = table.Reach("raft", 8, ["raft/a.py:f", "raft/a.py:g"])
    right = table.Reach("raft", 9, ["raft/a.py:f"])
    (told,) = floors.fallen([low], seed_count=floors.SEEDS_MIN)
    assert "raft 80.0 %, and its floor is 90 %" in told
    assert floors.fallen([low], seed_count=floors.SEEDS_MIN - 1) == []
    assert floors.fallen([right], seed_count=floors.SEEDS_MIN) == []
