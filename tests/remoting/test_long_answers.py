"""Whose turn it is to have a long answer made."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from harness.waiting import until
from penstock.broker.look_ups import LookUps
from penstock.remoting.handlers.admin.long_answers import _in_turn


class Client:
    """A connection that takes no answers in its first turns."""

    client_host = "10.0.0.9"

    def __init__(self, choked_turns: int = 0) -> None:
        self._choked_turns = choked_turns
        self.is_closed = False
        self.rooms = 0

    @property
    def is_choked(self) -> bool:
        return self.rooms <= self._choked_turns

    def has_gone(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True

    def ask_room(self, most: int, begin: Callable[[int], int]) -> None:
        self.rooms += 1
        begin(0 if self.is_closed else most)


class Reply:
    """Knows whether it was given up."""

    is_over = False

    def end(self) -> None:
        self.is_over = True


def with_turns(then: Callable[[LookUps], Any]) -> None:
    """Run something with one place for long answers, which is free in the end."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        scheduler: Any = SimpleNamespace(
            call_soon=loop.call_soon, call_later=lambda ms, what: loop.call_later(ms / 1_000, what)
        )
        clock: Any = SimpleNamespace(monotonic_ms=lambda: 0)
        turns = LookUps(scheduler, clock, 1)
        await then(turns)
        assert (turns.in_progress, turns.waiting) == (0, 0)

    asyncio.run(run())


def context_of(client: Client, turns: LookUps) -> Any:
    return SimpleNamespace(connection=client, front=SimpleNamespace(long_answers=turns))


def test_who_has_stopped_reading_by_his_turn_waits_for_room_again() -> None:
    client, made = Client(choked_turns=2), list[int]()

    async def answer() -> None:
        made.append(client.rooms)

    async def then(turns: LookUps) -> None:
        await _in_turn(context_of(client, turns), Reply(), answer)  # type: ignore[arg-type]

    with_turns(then)
    assert made == [3]


def test_who_has_gone_by_his_turn_gets_nothing_made() -> None:
    client, made, reply = Client(), list[int](), Reply()

    async def answer() -> None:
        made.append(1)

    async def then(turns: LookUps) -> None:
        waiting = asyncio.ensure_future(_in_turn(context_of(client, turns), reply, answer))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        client.is_closed = True
        await waiting

    with_turns(then)
    assert (made, reply.is_over) == ([], True)


def test_a_task_that_is_ended_keeps_no_place() -> None:
    """Neither one that is at work nor one that waits behind it."""

    async def answer() -> None:
        await asyncio.Event().wait()

    async def then(turns: LookUps) -> None:
        context = context_of(Client(), turns)
        tasks = [
            asyncio.ensure_future(_in_turn(context, Reply(), answer))  # type: ignore[arg-type]
            for _ in range(2)
        ]
        await until(lambda: (turns.in_progress, turns.waiting) == (1, 1))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not (turns.in_progress or turns.waiting))

    with_turns(then)
