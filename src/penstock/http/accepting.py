"""Connections from their acceptance on: counted before a handshake begins, ended if it takes long.

    accepted ─► handshake, HANDSHAKE_S, where there is TLS ─► BoundedProtocol
                └─► one too many: the one that has lasted longest is ended

uvicorn counts connections once they can speak HTTP, so those that never end their handshake would
be without bound. An honest one takes some milliseconds, so it is not the one that lasts longest.

Source: RFC 8446; asyncio `loop.connect_accepted_socket`.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from penstock.http.front import Front
from penstock.http.protocol import MakeProtocol

HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 200
"""At a time; without TLS they last for a turn of the loop."""
PAUSE_S: Final = 0.1
"""After a connection that could not be accepted, as without free descriptors."""
BACKLOG: Final = 512
log = logging.getLogger(__name__)


class Accepting:
    """Accepts connections until it is closed; to uvicorn it is a server of asyncio."""

    def __init__(
        self,
        front: Front,
        listening: socket.socket,
        make: MakeProtocol,
        context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """`context` may return another one at any time."""
        self._front = front
        self._listening = listening
        self._make = make
        self._context = context
        self._opening: dict[asyncio.Task[None], None] = {}
        """Handshakes, the longest there first."""
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more; who is in a handshake is ended."""
        self._accepting.cancel()
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing is left of what was begun."""
        await asyncio.gather(self._accepting, *self._opening, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                log.error("a connection is not accepted: %s", error)  # noqa: TRY400  no bug
                await asyncio.sleep(PAUSE_S)
                continue
            if len(self._opening) >= HANDSHAKES_MAX:
                self._front.stats.refused_connections += 1
                self._end_one()
            task = asyncio.create_task(self._open(accepted))
            self._opening[task] = None
            task.add_done_callback(self._over)

    def _end_one(self) -> None:
        longest = next(iter(self._opening))
        del self._opening[longest]
        longest.cancel()

    def _over(self, task: asyncio.Task[None]) -> None:
        self._opening.pop(task, None)

    async def _open(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        context = None if self._context is None else self._context()
        try:
            await loop.connect_accepted_socket(
                self._make,
                accepted,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_S if context else None,
            )
        except (OSError, ssl.SSLError, asyncio.CancelledError) as error:
            with contextlib.suppress(OSError):
                accepted.close()
            if isinstance(error, asyncio.CancelledError):
                raise
