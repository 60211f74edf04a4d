"""Long answers to those who operate a cluster: a few at a time, in turns, once there is memory.

    ask ─► room for the answer ─► its turn ─► work, in slices of a turn of the loop ─► reply
            ▲                      │  └─► the client has gone: nothing is done
            └── it takes no answers┘

A list of 10,000 topics takes a hundred turns and a few MiB. Requests that wait are counted with
what is unanswered (held.py), so a connection that asks for thousands is not read. Addresses and
their connections take turns (broker/look_ups.py), and who takes no answers waits before his turn:
he keeps nobody waiting, and however many he asks for are not made.

Source: ours; RocketMQ has threads of their own for these (`adminBrokerThreadPool`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.broker.awaited import awaited
from penstock.broker.turns import Pace
from penstock.remoting.errors import RemotingError
from penstock.remoting.pop.serving import serve

if TYPE_CHECKING:
    from penstock.remoting.request import RemotingContext, Reply

BYTES_MAX: Final = 8 << 20
"""Of one answer; the clients of Java take 16 MiB."""
_ROOM_BYTES: Final = 512 << 10
"""That is asked for; what an answer needs is known when it is written."""

Work = Callable[[Pace], Awaitable[bytes]]
"""Returns the body. It calls `step` for each item, and raises what is told to the client."""
Over = Callable[[], None]


class AnswerTooLarge(RemotingError):
    """What is asked for does not fit into an answer."""


def answer_long(context: RemotingContext, name: str, reply: Reply, work: Work) -> None:
    """Reply with what `work` returns, as soon as it is its turn."""

    async def answer() -> None:
        body = await work(Pace(context.broker.turns))
        if len(body) > BYTES_MAX:
            raise AnswerTooLarge(f"an answer of {len(body)} bytes, at most {BYTES_MAX} are told")
        reply(body=body)

    answer_in_turn(context, name, reply, answer)


def answer_in_turn(
    context: RemotingContext, name: str, reply: Reply, answer: Callable[[], Awaitable[None]]
) -> None:
    """Let `answer` reply, with BYTES_MAX at most, as soon as it is its turn."""
    serve(context, name, reply, _in_turn(context, reply, answer))


async def _in_turn(
    context: RemotingContext, reply: Reply, answer: Callable[[], Awaitable[None]]
) -> None:
    connection = context.connection
    while await _room(context):
        over = await _turn(context)
        if over is None:
            break
        try:
            if connection.is_choked:
                continue
            if connection.is_closed:
                break
            await answer()
            return
        finally:
            over()
    reply.end()


async def _turn(context: RemotingContext) -> Over | None:
    """Wait for the client's turn; returns what ends it, None if the client has gone."""
    told: asyncio.Future[Over | None]
    told, tell = awaited()

    def begin(over: Over) -> None:
        if told.done():
            over()  # its task was ended
        else:
            tell(over)

    context.front.long_answers.ask(context.connection, begin, lambda: tell(None))
    try:
        return await told
    except asyncio.CancelledError:
        if told.done() and not told.cancelled() and (over := told.result()) is not None:
            over()
        raise


async def _room(context: RemotingContext) -> bool:
    """Wait for memory; returns whether the client is still there."""
    granted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def begin(most: int) -> int:
        if not granted.done():
            granted.set_result(most > 0)
        return most

    context.connection.ask_room(_ROOM_BYTES, begin)
    return await granted
