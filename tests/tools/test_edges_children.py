"""A slip that must be seen is seen by a process that forks, and nothing outlives its children."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.small_repository import make_repository
from tools.mutants import children, edges
from tools.mutants.forking import GREEN, LATE, REFUSED
from tools.mutants.tree import copy_of

FORMS = """
import functools


def at_import(a):
    return a < 1


TABLE = [at_import(1), at_import(0)]


@functools.cache
def cached(a):
    return a < 2


cached(2)


def by_default(a=3 < 3):
    return a


def twice(function):
    @functools.wraps(function)
    def inner(a):
        return function(a), a < 5

    return inner


@twice
def decorated(a):
    return a < 4


class Box:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a

    @property
    def small(self):
        return self.a < 6

    async def waited(self):
        return self.a < 7

    def through(self):
        return super().__eq__(self) is True and self.a < 8

    def yielded(self):
        yield self.a < 9


def begun():
    yield 12 < 12


BEGUN = begun()


def in_a_class():
    class Inner:
        kind = 10 < 10

        def told(self, a):
            return a < 11

    return Inner
"""
SEES_ALL = """
import asyncio

from penstock.base import door
from penstock.base.door import Box, at_import, by_default, cached, decorated, in_a_class


def test_forms():
    assert door.TABLE == [False, True]
    assert not cached(2)
    assert not by_default()
    assert decorated(4) == (False, True)
    assert decorated(5) == (False, False)
    assert not Box(6).small
    assert not asyncio.run(Box(7).waited())
    assert Box(7).through()
    assert not Box(8).through()
    assert list(Box(9).yielded()) == [False]
    assert not in_a_class().kind
    assert not in_a_class()().told(11)
    assert not at_import(1)
    assert list(door.BEGUN) == [False]
"""


def told_of(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert edges.main(["base", *options]) == 0
    return capsys.readouterr().out.splitlines()[1:]


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(edges, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.timeout(600)
def test_a_slip_is_in_effect_in_every_form_of_a_function(
    at: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_repository(at, FORMS, SEES_ALL)
    assert told_of(at, capsys, "--kind", "bound") == ["bound      12 of   12 seen"]


LOOP = """
def filled(a):
    got = 0
    while got < a:
        got += 1
    return got
"""


USES = """
import signal

from penstock.base.door import filled


def test_it():
    if filled(2) == 3:
        signal.pause()
    assert filled(2) == 2
"""


@pytest.mark.timeout(600)
def test_a_slip_that_loops_is_ended_and_told(
    at: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "BUSY_SECONDS", 2)
    make_repository(at, LOOP, USES)
    assert told_of(at, capsys, "--kind", "count") == [
        "base/door.py:5 count: got += 1 -> pass   (seen by the time that it takes)",
        "count       1 of    1 seen",
    ]


@pytest.mark.timeout(600)
def test_the_processor_ends_what_loops_and_the_clock_what_waits(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(at, LOOP, USES)
    plugin = ("-m", "pytest", "-p", "tools.mutants.forking", "tests/base")
    with copy_of(at) as tree, children.children(tree, plugin) as asked:
        (test,) = asked.tests(600)
        file = str(tree.path / "src/penstock/base/door.py")
        loops, waits = LOOP.replace("got += 1", "pass"), LOOP.replace("got < a", "got <= a")
        monkeypatch.setattr(children, "BUSY_SECONDS", 1)
        monkeypatch.setattr(children, "WAITING_SECONDS", 300)
        assert asked.tried(file, LOOP, loops, [test]) == (LATE, "")
        monkeypatch.setattr(children, "WAITING_SECONDS", 1)
        assert asked.tried(file, LOOP, waits, [test]) == (LATE, test.name)
        monkeypatch.setattr(children, "WAITING_SECONDS", 300)
        assert asked.tried(file, LOOP, LOOP, [test]) == (GREEN, "")
        assert asked.tried(file, LOOP, LOOP + "LIMIT = 1\n", [test]) == (REFUSED, "")


LEAVES = """
import fcntl
import subprocess

from penstock.base.door import filled


def test_it():
    file = open({held!r}, "w")
    fcntl.flock(file, fcntl.LOCK_SH)
    subprocess.Popen(["sleep", "3600"], pass_fds=[file.fileno()])
    {then}
"""


def is_let_go(held: Path) -> bool:
    """Wait until no process holds the file."""
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    return True


@pytest.mark.timeout(600)
def test_what_a_child_has_started_ends_with_it(
    at: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    held = tmp_path / "held"
    make_repository(at, LOOP, LEAVES.format(held=str(held), then="assert filled(2) == 2"))
    assert told_of(at, capsys, "--kind", "bound") == ["bound       1 of    1 seen"]
    assert is_let_go(held)


@pytest.mark.timeout(600)
def test_a_run_that_is_told_to_end_leaves_no_process(tmp_path: Path) -> None:
    held, begun = tmp_path / "held", tmp_path / "begun"
    os.mkfifo(begun)
    then = f"open({str(begun)!r}, 'w').close()\n    import signal; signal.pause()"
    root = tmp_path / "root"
    make_repository(root, LOOP, LEAVES.format(held=str(held), then=then))
    main = (
        "import pathlib, sys; from tools.mutants import edges; "
        f"edges.ROOT = pathlib.Path({str(root)!r}); sys.exit(edges.main(['base']))"
    )
    with subprocess.Popen([sys.executable, "-c", main], cwd=Path(edges.__file__).parents[2]) as run:
        begun.open().close()
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 2
    assert is_let_go(held)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("tests", "why"),
    [
        ("import threading, time\nthreading.Thread(target=input, daemon=True).start()\n", "thread"),
        ("import nowhere\n", "nowhere"),
        ("", "have no tests"),
    ],
    ids=["thread", "import", "none"],
)
def test_tests_that_can_not_be_run_say_why(
    at: Path, capsys: pytest.CaptureFixture[str], tests: str, why: str
) -> None:
    make_repository(at, LOOP, tests)
    assert edges.main(["base"]) == 2
    assert why in capsys.readouterr().err
