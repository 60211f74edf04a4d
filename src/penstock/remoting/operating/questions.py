"""What the node asks its clients for somebody else, and their answers.

    ask ─► sent with a number of its own ─► its answer, on the same connection ─► returned
                                        ├─► 10 s are over          ClientSilent
                                        └─► the connection closes  ClientGone

A few are under way at a time, of one who asks a part of them, and an answer has a bound, so that
clients that answer at length, or never, hold little. An answer that nobody waits for is dropped.

Source: RocketMQ 5.3.3 `Broker2Client.callClient`; bounds are ours.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.remoting.errors import RemotingError
from penstock.remoting.operating.seats import Seats
from penstock.remoting.wire.frame import encode_frame

if TYPE_CHECKING:
    from penstock.net.connection import Connection
    from penstock.remoting.wire.command import Command

AT_ONCE: Final = 8
"""Questions under way, of a node."""
ANSWER_BYTES_MAX: Final = 4 << 20
"""Stacks of a thousand threads have 2 MiB."""
ANSWER_MS: Final = 10_000
_NUMBERS: Final = 1 << 31
"""The number of a command is a signed integer of 32 bits."""


class TooManyQuestions(RemotingError):
    """So many clients are asked that no other one can be."""


class ClientSilent(RemotingError):
    """A client has not answered in its time."""


class ClientGone(RemotingError):
    """The connection of a client has ended, or its answer can not be passed on."""


class Questions:
    """See the module; one for each front."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Connection, int], asyncio.Future[Command]] = {}
        self._seats = Seats(AT_ONCE)
        self._last = 0

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._waiting)

    async def ask(self, connection: Connection, question: Command, user: str = "") -> Command:
        """Return the answer of a client, for a user: whoever he asks may never answer.

        Raises TooManyQuestions, ClientSilent, ClientGone.
        """
        if not self._seats.has_free(user, 1):
            raise TooManyQuestions(f"{len(self._waiting)} clients are being asked: try again")
        if connection.is_closed:
            raise ClientGone("the client has gone")
        self._last = self._last % (_NUMBERS - 1) + 1
        key = connection, self._last
        told: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[key] = told
        self._seats.change(user, 1)
        try:
            connection.reserve().send(encode_frame(question._replace(opaque=self._last)))
            async with asyncio.timeout(ANSWER_MS / 1_000):
                return await told
        except TimeoutError:
            raise ClientSilent(f"no answer of the client in {ANSWER_MS} ms") from None
        finally:
            self._seats.change(user, -1)
            del self._waiting[key]

    def answered(self, connection: Connection, answer: Command) -> None:
        """Take an answer; the body may be a view of the receive buffer."""
        told = self._waiting.get((connection, answer.opaque))
        if told is None or told.done():
            return
        size = len(answer.body)
        if size > ANSWER_BYTES_MAX:
            error = f"the client answers with {size} bytes, at most {ANSWER_BYTES_MAX} are told"
            told.set_exception(ClientGone(error))
        else:
            told.set_result(answer._replace(body=bytes(answer.body)))

    def closed(self, connection: Connection) -> None:
        """Wait for a client no more whose connection has ended."""
        for (asked, _), told in self._waiting.items():
            if asked is connection and not told.done():
                told.set_exception(ClientGone("the client has gone"))
