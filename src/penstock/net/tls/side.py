"""The end of a TLS connection at a listener: shakes hands, then decrypts for a Connection.

    socket ─► shared window ─► OpenSSL ─► the connection's receive memory ─► frames

    waiting for the first record ─► asked (Handshakes) ─► half open ─► open
    whoever sends something else than TLS is ended at its first byte, or, where the door takes it,
    served without: the socket is then the connection's, and this end is out of the way

All sides of a listener read into the same window, as connections do (net/receive.py); what can not
be decrypted yet, because the connection reads nothing, is kept and counts in the budget. Nothing
more is read from the socket before all of that is decrypted, so it is one window at most. asyncio's
own TLS has a buffer of 256 KiB for each connection, which is 2.5 GB for ten thousand idle ones.

A client may send two records for each kilobyte, and OpenSSL returns one at a time. The connection
gets what comes of many of them at once, its share, so that requests which come together are handled
together, as without TLS. The share grows as long as all of it is taken, and shrinks when the
connection stops reading: what it can not handle then lies in its own memory. ADR 0185.

Source: RFC 8446, RFC 5246; OpenSSL's memory BIOs. Renegotiation is off, so after the handshake
reading never has to wait for writing.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from penstock.base.ports import Buffer
from penstock.net.errors import CloseKind
from penstock.net.receive import FrameBudget
from penstock.net.sockets import has_hung_up
from penstock.net.tls.addresses import Addresses
from penstock.net.tls.doors import Door
from penstock.net.tls.handshakes import Handshakes
from penstock.net.tls.transport import PIECE_BYTES, TlsTransport

if TYPE_CHECKING:
    from penstock.net.admission.other_ports import OtherConnection
    from penstock.net.connection import Connection

WINDOW_BYTES = 256 << 10
SHARE_BYTES_MIN, SHARE_BYTES_MAX = 32 << 10, 128 << 10
"""Handed over at once: at least, so that little is left with a connection that stops after each
request; at most, eight batches of 16 KiB, so that a turn is short."""
_HEAD_BYTES = 5
_FIRST_BYTES_MAX = _HEAD_BYTES + (16 << 10)
_HANDSHAKE = b"\x16"
"""Type of a first record."""


class TlsPorts:
    """What the TLS connections of one listener share."""

    __slots__ = (
        "_window",
        "addresses",
        "begun",
        "budget",
        "closed",
        "handshakes",
        "loop",
        "protected_handshakes",
        "protected_listener",
        "ticks",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        budget: FrameBudget,
        ticks: Callable[[], int],
        closed: Callable[[CloseKind, str, str], None],
        begun: Callable[["TlsSide"], None],
    ) -> None:
        """`closed(kind, host, reason)` counts a client that is ended before it is served.

        `begun` hears that the turn of a handshake has come.
        """
        self.begun = begun
        self.loop = loop
        self.budget = budget
        self.addresses = Addresses()
        self.handshakes = Handshakes(loop.call_soon, ticks, self.addresses)
        self.protected_handshakes = Handshakes(loop.call_soon, ticks, self.addresses)
        """Those at the protected listener, which wait for no others."""
        self.protected_listener = ""
        self.ticks = ticks
        self.closed = closed
        self._window = memoryview(b"")

    def handshakes_of(self, listener: str) -> Handshakes:
        """Return those among which a new one of a listener has its turn."""
        if listener == self.protected_listener:
            return self.protected_handshakes
        return self.handshakes

    def sweep(self) -> None:
        """End what has taken too long; called once a tick."""
        self.handshakes.sweep()
        self.protected_handshakes.sweep()

    def give_up(self, reason: str) -> None:
        """End all handshakes."""
        for handshake in [*self.handshakes.all, *self.protected_handshakes.all]:
            handshake.give_up(reason)

    @property
    def window(self) -> memoryview:
        """What all read into; made for the first of them."""
        if not self._window:
            self._window = memoryview(bytearray(WINDOW_BYTES))
        return self._window


class TlsSide(asyncio.BufferedProtocol):
    """See the module."""

    def __init__(
        self,
        ports: TlsPorts,
        host: str,
        door: Door,
        *,
        listener_name: str,
        on_open: Callable[["TlsSide", asyncio.Transport], "Connection | OtherConnection"],
        on_gone: Callable[["TlsSide"], None],
    ) -> None:
        """`on_open` makes the connection over a transport; `on_gone` if it came to none."""
        self.host = self.client_host = host
        self.listener_name = listener_name
        self.began_tick = ports.ticks()
        self._ports = ports
        self._handshakes = ports.handshakes_of(listener_name)
        assert door.context is not None, "a door with TLS"
        self._context = door.context
        self._application = door.application
        self._takes_plain = door.takes_plain
        self._on_open = on_open
        self._on_gone = on_gone
        self._raw = cast("asyncio.Transport", None)
        self._is_ended = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._kept: bytes | memoryview = b""
        """Bytes from the socket that OpenSSL has not got."""
        self._kept_memory = 0
        """What they take: the memory of a part is that of the whole."""
        self._share_bytes = SHARE_BYTES_MIN
        self._is_over = False
        """Whether the client sends no more, or nothing that can be read."""
        self._connection: Connection | OtherConnection | None = None
        self.transport: TlsTransport | None = None

    @property
    def is_unproven(self) -> bool:
        """Whether the handshake is not over, and the client there."""
        return self._connection is None and not self._is_ended

    @property
    def received_bytes(self) -> int:
        """Memory for what OpenSSL has not got."""
        return self._kept_memory

    @property
    def has_begun(self) -> bool:
        """Whether its first record was answered."""
        return self._tls is not None

    @property
    def certificate(self) -> bytes:
        """The client's certificate (DER), which has been checked; empty if it has sent none."""
        return (self._tls and self._tls.getpeercert(binary_form=True)) or b""

    # --- the transport's side ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's first record."""
        self._raw = cast("asyncio.Transport", transport)
        self._handshakes.all[self] = None
        if self._is_ended:
            self._raw.abort()  # others have got its place before it was open

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection, or count a client that came to none."""
        self._is_ended = True
        self._keep(b"")
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)
        else:
            self._handshakes.leave(self)
            self._on_gone(self)
        if self.transport is not None:
            self.transport.lost()
        self.transport = self._tls = None

    def eof_received(self) -> bool:
        """Close when the peer has sent its last byte."""
        return False

    def pause_writing(self) -> None:
        """Called by the socket's transport."""
        if self.transport is not None:
            self.transport.socket_takes(False)

    def resume_writing(self) -> None:
        """Called by the socket's transport."""
        if self.transport is not None:
            self.transport.socket_takes(True)

    def get_buffer(self, sizehint: int) -> Buffer:
        """Lend the window; little of it to a client that has not shaken hands."""
        del sizehint
        window = self._ports.window
        return window if self._connection is not None else window[:_FIRST_BYTES_MAX]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come."""
        received = self._ports.window[:nbytes]
        if self._connection is not None:
            self._feed(received)
        elif self._tls is not None:
            self._incoming.write(received)
            self._shake()
        else:
            self._take_first(bytes(received))

    # --- the handshake -------------------------------------------------------------------------

    def _take_first(self, received: bytes) -> None:
        if self._raw.is_closing():
            return
        first = bytes(self._kept) + received
        self._keep(first)
        if not first.startswith(_HANDSHAKE):
            if self._takes_plain:
                self._open_plain(first)
            else:
                self._end(CloseKind.NOT_TLS, "no TLS")
            return
        size = _HEAD_BYTES + int.from_bytes(first[3:_HEAD_BYTES], "big")
        if len(first) >= min(size, _FIRST_BYTES_MAX) and len(first) >= _HEAD_BYTES:
            self._raw.pause_reading()
            self._handshakes.ask(self)

    def _open_plain(self, first: bytes) -> None:
        """Leave the socket to a connection, with what has come."""
        self._handshakes.leave(self)
        self._keep(b"")
        connection = self._on_open(self, self._raw)
        left = memoryview(first)
        while left and not self._raw.is_closing():
            lent = memoryview(connection.get_buffer(-1))
            count = min(len(lent), len(left))
            lent[:count] = left[:count]
            left = left[count:]
            connection.buffer_updated(count)

    def begin(self) -> bool:
        """Answer the first record, which costs a signature; False if the client has gone.

        It was not read while it waited, so nobody has noticed.
        """
        if has_hung_up(self._raw.get_extra_info("socket")):
            self._give_up(CloseKind.TLS_FAILED, "its client has gone")
            return False
        self._tls = self._context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._incoming.write(self._kept)
        self._keep(b"")
        self._raw.resume_reading()
        self._ports.begun(self)
        self._shake()
        return True

    def _shake(self) -> None:
        assert self._tls is not None, "a handshake has begun"
        if self._raw.is_closing():
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return
        except ssl.SSLError as error:
            self._send()  # why, as an alert
            self._end(CloseKind.TLS_FAILED, error.reason or "no handshake")
            return
        self._send()
        if self._application and self._tls.selected_alpn_protocol() != self._application:
            self._say_goodbye()
            self._end(CloseKind.TLS_FAILED, f"the client does not speak {self._application}")
            return
        self._handshakes.leave(self, is_open=True)
        self._open()

    def _say_goodbye(self) -> None:
        assert self._tls is not None, "a handshake is over"
        with contextlib.suppress(ssl.SSLError):  # the other side's word is not waited for
            self._tls.unwrap()
        self._send()

    def _open(self) -> None:
        assert self._tls is not None, "a handshake is over"
        self.transport = TlsTransport(self._ports.loop, self._raw, self._tls, self._outgoing)
        self.transport.on_resume = self._read_on
        self._connection = self.transport.protocol = self._on_open(self, self.transport)
        self._left_of(memoryview(b""))

    def give_up(self, reason: str) -> None:
        """End a handshake that takes too long."""
        self._give_up(CloseKind.TLS_FAILED, reason)

    def abort(self, kind: CloseKind) -> None:
        """End a handshake at once, for another client or for want of time."""
        self._give_up(kind, "its place is wanted" if kind is CloseKind.GAVE_WAY else "too slow")

    def _give_up(self, kind: CloseKind, reason: str) -> None:
        self._end(kind, reason)
        self._handshakes.leave(self)
        if self._raw is not None:
            self._raw.abort()

    def _end(self, kind: CloseKind, reason: str) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._ports.closed(kind, self.host, reason)
            if self._raw is not None:
                self._raw.close()
        self._keep(b"")

    def _send(self) -> None:
        data = self._outgoing.read()
        if data:
            self._raw.write(data)

    # --- records -------------------------------------------------------------------------------

    def _feed(self, received: memoryview) -> None:
        """Decrypt what has come; keep what the connection does not take."""
        if self.transport is None or self.transport.is_closing():
            return
        assert not self._kept, "the socket is not read from while bytes wait"
        left = self._left_of(received)
        if left:
            self._keep(bytes(left))

    def _is_reading(self) -> bool:
        transport = self.transport
        return transport is not None and not transport.is_paused and not transport.is_closing()

    def _read_on(self) -> None:
        """Go on with what came before the connection stopped reading, then with the socket.

        What is left is a part of the same memory: copied at each pause, a client that sends many
        requests at once would cost their square.
        """
        if self._is_reading():
            self._keep_part(self._left_of(memoryview(self._kept)))
        if not self._kept and self._is_reading():
            self._raw.resume_reading()

    def _left_of(self, received: memoryview) -> memoryview:
        """Decrypt into the connection's memory until it stops reading, or nothing is left.

        Returns what OpenSSL has not got.
        """
        has_more = True
        while has_more and self._is_reading():
            assert self._connection is not None, "records come when the handshake is over"
            view = memoryview(self._connection.get_buffer(-1))[: self._share_bytes]
            filled, received, has_more = self._fill(view, received)
            if filled:
                self._connection.buffer_updated(filled)
                self._suit_share(filled)
        if self.transport is not None:
            self.transport.flush()
        return memoryview(b"") if self._is_over else received

    def _suit_share(self, filled: int) -> None:
        """Hand over more at once next time, or less to a connection that has stopped reading."""
        if not self._is_reading():
            self._share_bytes = max(self._share_bytes // 2, SHARE_BYTES_MIN)
        elif filled == self._share_bytes:
            self._share_bytes = min(self._share_bytes * 2, SHARE_BYTES_MAX)

    def _fill(self, view: memoryview, received: memoryview) -> tuple[int, memoryview, bool]:
        """Fill memory with what comes of the received bytes, which OpenSSL gets in pieces.

        Returns how much that was, what OpenSSL has not got, and whether it may have more.
        """
        assert len(view), "who reads lends memory"
        filled, is_full = self._decrypt(view)
        while received and not is_full and not self._is_over:
            self._incoming.write(received[:PIECE_BYTES])
            received = received[PIECE_BYTES:]
            count, is_full = self._decrypt(view[filled:])
            filled += count
        return filled, received, is_full

    def _decrypt(self, view: memoryview) -> tuple[int, bool]:
        """Return how much was decrypted, and whether the memory is full.

        A client may send records of a few bytes, each of which is a call: little stands beside it.
        """
        assert self._tls is not None, "records come when the handshake is over"
        read: Callable[[int, memoryview], int] = self._tls.read  # type: ignore[assignment]
        filled, size = 0, len(view)
        try:
            while filled < size:
                count = read(size - filled, view[filled:])
                if not count:
                    self._over()
                    return filled, False
                filled += count
        except ssl.SSLWantReadError:
            return filled, False
        except ssl.SSLError:
            self._over()
            return filled, False
        return filled, True

    def _over(self) -> None:
        """The client has said that it sends no more, or what it sends can not be read."""
        self._is_over = True
        self._ports.loop.call_soon(self._close)

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _keep(self, data: bytes) -> None:
        before, self._kept = self._kept_memory, data
        self._kept_memory = len(data)
        self._ports.budget.change(before, len(data))

    def _keep_part(self, left: memoryview) -> None:
        """Keep the end of what is kept."""
        if left:
            self._kept = left
        else:
            self._keep(b"")
