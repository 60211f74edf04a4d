"""TLS of the HTTP port: clients pass a gate of handshakes as at listeners, then have streams.

    accepted ─► waits, one of HANDSHAKES_MAX ─► its turn (net/tls/handshakes.py) ─► streams, serve

Clients that have not shaken hands have places of their own, so they take none of those that are
served. At the limit one of the address that has the most is closed, the oldest.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from penstock.base.endpoints import PAGES_LISTENER
from penstock.base.ports import Buffer
from penstock.net.errors import CloseKind
from penstock.net.receive import FrameBudget
from penstock.net.sockets import host_of
from penstock.net.tls.doors import Door, TlsContext
from penstock.net.tls.side import TlsPorts, TlsSide

if TYPE_CHECKING:
    from penstock.net.connection import Connection

HANDSHAKES_MAX = 64
"""Clients that have not shaken hands yet."""
TICK_SECONDS = 1.0
_READ_BYTES = 16 << 10
_KEPT_BYTES = HANDSHAKES_MAX * 2 * _READ_BYTES
"""Bytes of clients that OpenSSL has not got yet."""


class Serve(Protocol):
    """What serves a client that has shaken hands."""

    def __call__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, certificate: bytes
    ) -> Awaitable[None]:
        """`certificate` is the client's (DER), which has been checked; empty if it sent none."""


log = logging.getLogger(__name__)


class HttpTls:
    """The TLS of one port. `protocol` makes what accepted connections begin with."""

    def __init__(self, context: TlsContext, serve: Serve) -> None:
        """`serve` gets the streams of each client that has shaken hands."""
        self._loop = asyncio.get_running_loop()
        self._context = context
        self._serve = serve
        self._tick = 0
        self.failed: Counter[CloseKind] = Counter()
        """Clients that were closed before they were served."""
        budget = FrameBudget(_KEPT_BYTES)
        self._ports = TlsPorts(self._loop, budget, lambda: self._tick, self._ended, _nobody_hears)
        self._timer = self._loop.call_later(TICK_SECONDS, self._on_timer)

    def protocol(self) -> TlsSide:
        """Return the protocol of a connection that is about to be accepted."""
        return _Side(self._ports, self._context, self._open, self._make_room)

    def stop(self) -> None:
        """End all handshakes."""
        self._timer.cancel()
        self._ports.give_up("the port is closed")

    def sweep(self) -> None:
        """Count one second and end handshakes that take too long."""
        self._tick += 1
        self._ports.sweep()

    def _on_timer(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._on_timer)
        self.sweep()

    def _make_room(self) -> None:
        """Close one of those that have not shaken hands, if there is no place for one more."""
        waiting = self._ports.handshakes.all
        if len(waiting) < HANDSHAKES_MAX:
            return
        count = Counter(one.host for one in waiting)
        ended = max(waiting, key=lambda one: count[one.host])  # the first of equals
        cast("TlsSide", ended).abort(CloseKind.GAVE_WAY)

    def _open(self, side: TlsSide, transport: asyncio.Transport) -> "Connection":
        streams = _Streams(partial(self._serve, certificate=side.certificate), self._loop)
        streams.connection_made(transport)
        return cast("Connection", streams)

    def _ended(self, kind: CloseKind, host: str, reason: str) -> None:
        self.failed[kind] += 1
        log.debug("http client=%s not served: %s (%s)", host, kind, reason)


class _Side(TlsSide):
    """A TlsSide that learns its client's address when it is connected."""

    def __init__(
        self,
        ports: TlsPorts,
        context: TlsContext,
        on_open: Callable[[TlsSide, asyncio.Transport], "Connection"],
        make_room: Callable[[], None],
    ) -> None:
        super().__init__(
            ports,
            "",
            Door(context, _nobody_asks),
            listener_name=PAGES_LISTENER,
            on_open=on_open,
            on_gone=_nobody_counts,
        )
        self._make_room = make_room

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place among those that shake hands."""
        peer = transport.get_extra_info("peername")
        self.host = self.client_host = host_of(peer) if peer else ""
        self._make_room()
        super().connection_made(transport)


class _Streams(asyncio.StreamReaderProtocol):
    """What a TlsSide hands decrypted bytes to: the reader of a pair of streams."""

    def __init__(
        self,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(asyncio.StreamReader(_READ_BYTES, loop), serve, loop)
        self._received = memoryview(bytearray(_READ_BYTES))

    def get_buffer(self, sizehint: int) -> Buffer:
        """Lend the buffer to be filled."""
        del sizehint
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on what was filled."""
        self.data_received(bytes(self._received[:nbytes]))


def _nobody_asks(streams: _Streams) -> None:
    """Who reads which page is asked by the pages."""


def _nobody_hears(side: TlsSide) -> None:
    """The gate of this port counts those that shake hands by itself."""
    del side


def _nobody_counts(side: TlsSide) -> None:
    """A client that came to nothing has left the gate already."""
    del side
