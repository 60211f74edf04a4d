"""What clients say of messages that they have: ack, release, renew, reject.

    ack        done: never again
    release    not done: comes again, at once or after a time; it counts as an attempt
    renew      not done yet: kept for longer, under another receipt
    reject     can not be done: a dead letter of the group at once

Each receipt has its own outcome. What is said is said to the master of the message, again for
RETRY_S while there is none; it is answered once that is confirmed.

Source: ours, docs/adr/0167.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.http.bodies import Receipts, Release, Renew, read_body
from penstock.http.call import Call
from penstock.http.front import Front
from penstock.http.operations.produce import status_of
from penstock.http.problems import Problem, bad_request, of_upstream
from penstock.http.upstream.errors import UpstreamError
from penstock.http.upstream.popping import Desk
from penstock.http.upstream.receipts import Handle, read_handle, write_handle
from penstock.remoting.errors import BadReceipt

AT_ONCE: Final = 32
"""Receipts of one request that are worked on beside one another."""

Outcome = dict[str, Any]
Say = Callable[[Desk, Handle], Awaitable[Handle | None]]


class Word(NamedTuple):
    """A thing that can be said of messages."""

    kind: type[Receipts]
    outcome: str
    """As it is counted."""
    frees: bool
    """Whether a stream that has sent the message may send another one."""
    say: Callable[[Any], Say]


def _ack(_: Receipts) -> Say:
    async def say(desk: Desk, handle: Handle) -> None:
        await desk.accept(handle)

    return say


def _release(wish: Release) -> Say:
    async def say(desk: Desk, handle: Handle) -> None:
        await desk.change(handle, round(wish.after_seconds * 1000))

    return say


def _renew(wish: Renew) -> Say:
    async def say(desk: Desk, handle: Handle) -> Handle:
        return await desk.change(handle, round(wish.invisible_seconds * 1000))

    return say


def _reject(_: Receipts) -> Say:
    async def say(desk: Desk, handle: Handle) -> None:
        await desk.bury(handle)

    return say


WORDS: Final[Mapping[str, Word]] = {
    "ack": Word(Receipts, "acknowledged", frees=True, say=_ack),
    "release": Word(Release, "released", frees=True, say=_release),
    "renew": Word(Renew, "renewed", frees=False, say=_renew),
    "reject": Word(Receipts, "rejected", frees=True, say=_reject),
}


async def settle(front: Front, call: Call, topic: str, group: str, *, name: str) -> None:
    """Answer with what became of each receipt. Raises Problem, UpstreamError."""
    assert call.token is not None, "the router has checked it"
    word = WORDS[name]
    wish = read_body(await call.body(), word.kind)
    with front.used(call.token) as identity:
        desk = Desk(identity.nodes, topic, group)
        settling = _Settling(front, call, desk, word, word.say(wish))
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(settling.one(text)) for text in wish.receipts]
    outcomes = [task.result() for task in running]
    await call.answer({"receipts": outcomes}, status_of(outcomes))


class _Settling:
    """The receipts of one request."""

    def __init__(self, front: Front, call: Call, desk: Desk, word: Word, say: Say) -> None:
        self._front = front
        self._call = call
        self._desk = desk
        self._word = word
        self._say = say
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def one(self, text: str) -> Outcome:
        """Say it of one receipt, and return its outcome."""
        try:
            handle = read_handle(text)
        except BadReceipt as error:
            do = "send a receipt as it was received"
            return self._refused(text, bad_request("bad-receipt", str(error), do))
        async with self._at_once:
            try:
                renewed = await self._say(self._desk, handle)
            except UpstreamError as error:
                return self._refused(text, of_upstream(error))
        self._front.stats.messages[self._word.outcome] += 1
        outcome: Outcome = {"receipt": text}
        if renewed is not None:
            outcome["renewed"] = write_handle(renewed)
            self._tell_streams(handle, renewed)
        elif self._word.frees:
            self._tell_streams(handle, None)
        return outcome

    def _tell_streams(self, handle: Handle, renewed: Handle | None) -> None:
        assert self._call.token is not None, "the router has checked it"
        key = self._call.token.name, self._desk.topic, self._desk.group
        for flight in self._front.streams.get(key, ()):
            flight.settled(handle, renewed)

    def _refused(self, text: str, problem: Problem) -> Outcome:
        self._front.stats.messages["receipts refused"] += 1
        return {"receipt": text, "problem": problem.document()}
