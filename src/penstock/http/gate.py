"""Connections before their TLS handshake: counted, and ended if it takes long.

    accepted ─► one too many: ended ─► handshake, HANDSHAKE_S ─► BoundedProtocol

Source: RFC 8446; asyncio `loop.start_tls`.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast

from penstock.http.front import Front
from penstock.http.protocol import MakeProtocol

HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 200
"""At a time."""


class Handshakes:
    """Those under way at a listener."""

    def __init__(
        self, front: Front, context: Callable[[], ssl.SSLContext], make: MakeProtocol
    ) -> None:
        """`context` may return another one at any time."""
        self._front = front
        self._context = context
        self._make = make
        self._tasks: set[asyncio.Task[None]] = set()

    def gate(self) -> "TlsGate":
        """Return the protocol of a connection that was accepted."""
        return TlsGate(self)

    def begin(self, transport: asyncio.Transport, gate: "TlsGate") -> None:
        """Shake hands, unless too many do."""
        if len(self._tasks) >= HANDSHAKES_MAX:
            self._front.stats.refused_connections += 1
            transport.abort()
            return
        task = asyncio.create_task(self._shake(transport, gate))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake(self, transport: asyncio.Transport, gate: "TlsGate") -> None:
        protocol = self._make()
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport,
                protocol,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except (OSError, ssl.SSLError):
            transport.abort()
            return
        if secured is None:
            return  # it has gone meanwhile
        protocol.connection_made(secured)


class TlsGate(asyncio.Protocol):
    """A connection until its handshake begins, which is at once."""

    def __init__(self, handshakes: Handshakes) -> None:
        self._handshakes = handshakes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast("asyncio.Transport", transport)
        plain.pause_reading()
        self._handshakes.begin(plain, self)
