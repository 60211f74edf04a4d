"""Slips are made where they belong, and those that no test sees are told."""

import ast
from pathlib import Path

import pytest

from tests.tools.small_repository import commit, make_repository
from tools.mutants import edges
from tools.mutants.slips import Kind, Slip, slips_in

BODY = "class Box:\n    def f(self, a, b):\n        {}\n"


def changes(step: str) -> list[tuple[Kind, str, str]]:
    """Return what is made of one step of a method: (kind, text, text in its place)."""
    return [(slip.kind, slip.was, slip.now) for slip in slips_in(BODY.format(step))]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("return a < b", [(Kind.BOUND, "a < b", "(a <= b)")]),
        ("return a >= b", [(Kind.BOUND, "a >= b", "(a > b)")]),
        (
            "return a < b <= 3",
            [
                (Kind.BOUND, "a < b <= 3", "(a <= b <= 3)"),
                (Kind.BOUND, "a < b <= 3", "(a < b < 3)"),
            ],
        ),
        ("return a + 1", [(Kind.ONE_OFF, "a + 1", "(a)")]),
        ("self.n += b", [(Kind.COUNT, "self.n += b", "pass")]),
        ("self.n = b", [(Kind.KEPT, "self.n = b", "pass")]),
        ("self.held.discard(b)", [(Kind.CLEARED, "self.held.discard(b)", "pass")]),
        ("return a and b", [(Kind.HALF, "a and b", "(b)"), (Kind.HALF, "a and b", "(a)")]),
        (
            "return a or b or 1",
            [
                (Kind.HALF, "a or b or 1", "(b or 1)"),
                (Kind.HALF, "a or b or 1", "(a or 1)"),
                (Kind.HALF, "a or b or 1", "(a or b)"),
            ],
        ),
        ("a.write(); b.sync()", [(Kind.ORDER, "a.write(); b.sync()", "b.sync(); a.write()")]),
        ("local = a; local = b", []),
        ("self.n: int; return a == b", []),
    ],
)
def test_each_sort_of_slip_is_made(step: str, expected: list[tuple[Kind, str, str]]) -> None:
    assert changes(step) == expected


@pytest.mark.parametrize("step", ["assert a < b", "log.info(a + 1)", '"""a < b and c"""'])
def test_what_only_tells_something_is_left_alone(step: str) -> None:
    assert changes(step) == []


def test_constructors_and_constants_are_left_alone() -> None:
    source = "LIMIT = 4 + 1\n\n\nclass Box:\n    def __init__(self, a):\n        self.a = a\n"
    assert list(slips_in(source)) == []


def test_a_slip_changes_its_place_only_and_names_the_outermost_function() -> None:
    source = (
        "def f(a):\n    # größer\n    def g():\n        return 'ä' if a < 2 else a\n    return g\n"
    )
    (slip,) = slips_in(source)
    text = source.replace("a < 2", "(a <= 2)")
    assert slip == Slip(Kind.BOUND, 4, 1, 5, "a < 2", "(a <= 2)", text, source)


def test_steps_of_several_lines_are_swapped_whole() -> None:
    source = BODY.format("self.write(\n            a,\n        )\n        self.sync(b)")
    (slip,) = slips_in(source)
    body = ast.parse(slip.text).body[0]
    assert ast.unparse(body).splitlines()[-2:] == [
        "        self.sync(b)",
        "        self.write(a)",
    ]


CODE = """
class Door:
    limit = 2

    def __init__(self):
        self.inside = 0

    def enter(self):
        if self.inside >= self.limit:
            return False
        self.inside += 1
        return True

    def refuse(self, why):
        return why or self.inside
"""
TESTS = """
import pytest

from penstock.base.door import Door


@pytest.fixture(scope="module")
def door():
    return Door()


def test_who_enters_is_let_in(door):
    assert door.enter()


@pytest.mark.process
def test_that_starts_processes():
    door = Door()
    assert [door.enter() for _ in range(3)] == [True, True, False]
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a class whose tests see little of it."""
    make_repository(tmp_path, CODE, TESTS)
    monkeypatch.setattr(edges, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.timeout(600)
def test_slips_that_no_test_sees_are_told_and_the_source_stays(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert edges.main(["base"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1:5] == [
        "base/door.py:9 bound: self.inside >= self.limit -> (self.inside > self.limit)",
        "base/door.py:11 count: self.inside += 1 -> pass",
        "base/door.py:15 half: why or self.inside -> (self.inside)   (no test calls it)",
        "base/door.py:15 half: why or self.inside -> (why)   (no test calls it)",
    ]
    assert told[5:] == [
        "bound       0 of    1 seen",
        "count       0 of    1 seen",
        "half        0 of    2 seen",
    ]
    assert (root / "src/penstock/base/door.py").read_text() == CODE


@pytest.mark.timeout(600)
def test_a_slip_that_a_test_sees_is_not_told(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = root / "tests/base/test_door.py"
    tests.write_text(TESTS.replace("@pytest.mark.process\n", ""))
    commit(root)
    assert edges.main(["base/door.py", "--kind", "bound", "count"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1:] == ["bound       1 of    1 seen", "count       1 of    1 seen"]


@pytest.mark.timeout(600)
def test_tests_that_are_red_without_a_slip_say_so(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "tests/base/test_door.py").write_text("def test_red():\n    assert False\n")
    commit(root)
    assert edges.main(["base"]) == 2
    assert "not green without a slip" in capsys.readouterr().err


def test_a_room_that_is_not_there_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert edges.main(["basement"]) == 2
    assert "src/penstock/basement is not there" in capsys.readouterr().err
