"""Work that is cut up leaves turns between its pieces, in which short chains of steps go on."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.broker.turns import Turns as Slices
from penstock.net import quiet_turns
from penstock.net.answers.answer_room import TURN_BYTES
from penstock.net.quiet_turns import QUIET_TURNS, QuietTurns
from penstock.net.turn_share import TURN_SECONDS, Sent, TurnShare
from penstock.net.workers_turn import WorkersTurn
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from tests.net.serving import run
from tests.net.test_answer_room import Turns, World

QUIET = "." * QUIET_TURNS


class Work:
    """Work that says in which turns it was done, and asks again while there is more."""

    def __init__(self, pieces: int, count: int = QUIET_TURNS) -> None:
        self.loop = Turns()
        self.left = pieces
        self.told = ""
        self.quiet = QuietTurns(self.loop.call_soon, self.work, count)

    def work(self) -> None:
        if self.left:
            self.quiet.rest()
            self.left -= 1
            self.told += "w"
            self.quiet.ask()

    def turns(self, count: int) -> str:
        """Run so many turns; tell which of them had work."""
        self.told = ""
        for _ in range(count):
            before = self.told
            self.loop.turn()
            if self.told == before:
                self.told += "."
        return self.told


def test_quiet_turns_follow_each_piece_and_the_first_one_waits_for_none() -> None:
    work = Work(3)
    work.quiet.ask()
    work.quiet.ask()
    assert work.turns(2 * QUIET_TURNS + 4) == f"w{QUIET}w{QUIET}w."


def test_threads_are_let_run_before_each_piece_and_one_turn_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(2)
    came: list[str] = []
    stands_in = SimpleNamespace(come=lambda: came.append(work.told))
    monkeypatch.setattr(quiet_turns, "WORKERS_TURN", stands_in)
    work.quiet.ask()
    work.turns(2 * QUIET_TURNS + 2)
    begun = ["", "w.", f"w{QUIET}", f"w{QUIET}w."]
    assert came == begun, "what was read has begun its sync by then"


def test_nothing_is_scheduled_once_the_quiet_turns_are_over() -> None:
    work = Work(1)
    work.quiet.ask()
    work.turns(QUIET_TURNS + 2)
    assert not work.loop.due
    work.left = 1
    work.quiet.ask()
    assert work.turns(1) == "w", "what comes seldom waits for no quiet turn"


def test_work_that_did_nothing_leaves_no_quiet_turns() -> None:
    work = Work(0)
    work.quiet.ask()
    work.turns(1)
    assert not work.loop.due


def test_without_quiet_turns_the_next_turn_has_work() -> None:
    work = Work(3, count=0)
    work.quiet.ask()
    assert work.turns(4) == "www."


def test_a_chain_of_steps_is_over_before_the_next_piece() -> None:
    work = Work(2)
    steps: list[int] = []

    def step() -> None:
        steps.append(work.left)
        if len(steps) < QUIET_TURNS:
            work.loop.call_soon(step)

    work.quiet.ask()
    work.turns(1)
    work.loop.call_soon(step)  # what was read behind the first piece
    work.turns(QUIET_TURNS)
    assert steps == [1] * QUIET_TURNS
    assert work.turns(1) == "w"


def test_threads_are_let_run_in_a_quiet_turn_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    come: list[int] = []

    class Counted(WorkersTurn):
        def come(self) -> None:
            come.append(work.left)

    monkeypatch.setattr(quiet_turns, "WORKERS_TURN", Counted())
    work = Work(2)
    work.quiet.ask()
    work.turns(QUIET_TURNS + 2)
    assert come == [2, 1, 1], "before each piece, and once between them"


def test_who_waits_for_a_share_comes_behind_quiet_turns() -> None:
    loop = Turns()
    turn = TurnShare(cast("asyncio.AbstractEventLoop", loop))
    told: list[str] = []

    def waits(name: str) -> Callable[[], None]:
        def go_on() -> None:
            told.append(name)
            turn.spend(TURN_SECONDS)

        return go_on

    for name in "abc":
        turn.wait(waits(name), Sent.SEVERAL)
    by_turn = []
    for _ in range(2 * QUIET_TURNS + 3):
        told.clear()
        loop.turn()
        by_turn.append("".join(told) or ".")
    assert "".join(by_turn) == f"a{QUIET}b{QUIET}c"


def test_a_share_begins_anew_at_once_where_nobody_waits() -> None:
    loop = Turns()
    turn = TurnShare(cast("asyncio.AbstractEventLoop", loop))
    for _ in range(3):
        turn.spend(TURN_SECONDS)
        loop.turn()
        assert turn.left == TURN_SECONDS
    assert not loop.due


def test_answers_for_those_who_wait_are_begun_behind_quiet_turns() -> None:
    world = World()
    for connection in world.connections(4):
        connection.ask(takes=TURN_BYTES)
    begun = []
    for _ in range(QUIET_TURNS + 2):
        before = len(world.order)
        world.loop.turn()
        begun.append(len(world.order) - before)
    assert begun == [1, *[0] * QUIET_TURNS, 1]


def test_one_slice_has_a_turn_and_quiet_turns_follow() -> None:
    at: list[int] = []

    async def scenario() -> None:
        slices = Slices(LoopScheduler(asyncio.get_running_loop()), SystemClock())
        turn = 0

        async def count() -> None:
            nonlocal turn
            while len(at) < 4:
                turn += 1
                await asyncio.sleep(0)

        async def work() -> None:
            for _ in range(2):
                await slices.next()
                at.append(turn)

        await asyncio.gather(count(), work(), work())

    run(scenario())
    assert [later - earlier for earlier, later in pairwise(at)] == [QUIET_TURNS + 1] * 3
