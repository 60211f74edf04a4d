"""The kernel's side of a connection: bytes taken from one program and not yet given to another.

    program ─ send ─► segments on their way ─► arrived ─ receive ─► program
              │       (each with a time)        │
              └── at most WINDOW_BYTES in both, that the sender knows of ──┘

A socket belongs to the kernel of its host: it receives and acknowledges bytes while its process is
paused, and sent bytes still leave when its process is killed. Bytes that the other program does not
read fill the window, and then `send` takes nothing.

If either direction is cut, the sender retries at growing intervals (`_stall`), and drops the
connection after `give_up_s`. A packet for a socket that its kernel does not know is answered with a
reset.

Source: RFC 9293, sections 3.5 to 3.10; tcp(7) for TCP_USER_TIMEOUT and keepalive. Departures: one
window stands for both kernels' buffers; a zero window is no reason to give up.
Congestion control, Nagle's algorithm and urgent data are not simulated.
"""

import errno
import os
import socket
from collections import deque
from typing import NamedTuple, Protocol

from penstock.base.ports import Buffer
from penstock.net.sockets import TCP_ESTABLISHED
from simulator.kernel.ports import Wire
from simulator.kernel.process import Process

WINDOW_BYTES = 256 << 10
"""Bytes that are under way or unread at most, of one direction of a connection."""
SEGMENT_BYTES = 64 << 10
"""Bytes that arrive together at most."""
GIVE_UP_S = 15.0
"""Silence that ends a connection whose program has set nothing; Linux takes about 15 minutes."""

_RESEND_LEAST_S = 0.2
_RESEND_MOST_S = 2.0
_KEEPALIVE_S = 7_200.0
_TCP_CLOSE_WAIT = 8
FIRST_DESCRIPTOR = 1_000_000
"""Above all real descriptors."""


class Address(NamedTuple):
    """A port of a host."""

    host: str
    port: int


class Watcher(Protocol):
    """The program's side of a socket: told in its own process that there is something to do."""

    def on_readable(self) -> None:
        """There are bytes, the end, or an error. Called again while there are, if still wanted."""

    def on_writable(self) -> None:
        """There is room, or an error. Called once after `want_write`."""


class SimSocket:
    """One end of a connection; what a program can do with it is named as in `socket.socket`."""

    def __init__(self, network: Wire, process: Process, address: Address) -> None:
        self._network = network
        self._loop = network.loop
        self._descriptor = FIRST_DESCRIPTOR + self._loop.next_serial()
        self.process = process
        self.host = address.host
        self.address = address
        self.peer = self
        self.is_known = True
        """Whether its kernel still has it: packets for an unknown one are answered by a reset."""
        self.is_closed = False
        """Whether the program has closed it."""
        self.give_up_s = GIVE_UP_S
        self.watcher: Watcher | None = None
        self._error: OSError | None = None
        # Sending.
        self._segments: deque[tuple[float, Buffer]] = deque()  # an empty one is the end
        self._sent = self._credited = 0
        self._is_armed = self._is_end_queued = False
        self._stalled_since: float | None = None
        self._tries = 0
        self._keepalive_s = _KEEPALIVE_S
        self._wants_write = self._is_write_due = False
        # Receiving.
        self._arrived: deque[Buffer] = deque()
        self.unread_bytes = 0
        self.taken_bytes = 0
        """Bytes that the program has read so far."""
        self._has_end = self._is_reading = self._is_read_due = False

    def join(self, peer: "SimSocket") -> None:
        """Make this and `peer` the two ends of one connection."""
        self.peer = peer
        peer.peer = self

    # --- the program's side --------------------------------------------------------------------

    def fileno(self) -> int:
        """Return a number that no other socket of the run has, and no real one."""
        return self._descriptor

    def setblocking(self, flag: bool) -> None:
        """Simulated sockets never block. Raises ValueError when they should."""
        if flag:
            raise ValueError("a simulated socket can not block")

    def getsockname(self) -> Address:
        """Return the own end's host and port."""
        return self.address

    def getpeername(self) -> Address:
        """Return the other end's host and port."""
        return self.peer.address

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Take TCP_USER_TIMEOUT and keepalive; others have no meaning here."""
        if (level, option) == (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT):
            self.give_up_s = value / 1000
        elif (level, option) == (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE):
            self._keepalive_s = float(value)
        elif (level, option) == (socket.SOL_SOCKET, socket.SO_KEEPALIVE) and value:
            self._loop.call_soon(self._probe_later, context=self._loop.kernel.context)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Return the state of the connection, the first `size` = 1 bytes of Linux's TCP_INFO."""
        assert (level, option, size) == (socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        is_open = self.is_known and self._error is None and not self._has_end
        return bytes((TCP_ESTABLISHED if is_open else _TCP_CLOSE_WAIT,))

    def send(self, data: bytes | memoryview) -> int:
        """Take what fits into the window and return how much; 0: wait for `on_writable`.

        The bytes must not change afterwards. Raises OSError when the connection is no more.
        """
        if self._error is not None:
            raise self._error
        if not self.is_known:
            return len(data)  # of a process that has ended: it goes nowhere
        part = data[: self._room()]
        for start in range(0, len(part), SEGMENT_BYTES):
            self._send_segment(part[start : start + SEGMENT_BYTES])
        self._sent += len(part)
        return len(part)

    def receive_into(self, target: memoryview) -> int | None:
        """Fill `target` as far as bytes have arrived; 0 at the end, None when there are none yet.

        Raises OSError when the connection was lost, behind what had arrived.
        """
        if not self.unread_bytes:
            return 0 if self._is_at_end() else None
        at = 0
        for part in self._take(len(target)):
            target[at : at + len(part)] = part
            at += len(part)
        return at

    def receive(self, limit: int) -> bytes | None:
        """Return bytes that have arrived; nothing at the end, None when there are none yet.

        Raises OSError when the connection was lost, behind what had arrived.
        """
        if not self.unread_bytes:
            return b"" if self._is_at_end() else None
        return b"".join(self._take(limit))

    def want_read(self, is_wanted: bool) -> None:
        """Turn on or off calling the watcher for arrived bytes."""
        self._is_reading = is_wanted
        self._wake_reader()

    def want_write(self) -> None:
        """Call the watcher once when a good part of the window is free."""
        self._wants_write = True
        self._wake_writer()

    def shutdown_write(self) -> None:
        """Send the end behind everything sent."""
        if self.is_known and not self._is_end_queued:
            self._is_end_queued = True
            self._send_segment(b"")

    def close(self, *, is_abrupt: bool = False) -> None:
        """Let go: what was sent still leaves, then the end; a reset instead if bytes are unread."""
        if self.is_closed:
            return
        self.is_closed = True
        self.watcher = None
        if not self.is_known:
            return
        if is_abrupt or self.unread_bytes:
            self._reset_peer()
        else:
            self.shutdown_write()
            self._forget_if_done()

    def _room(self) -> int:
        return WINDOW_BYTES - (self._sent - self._credited)

    def _is_at_end(self) -> bool:
        if self._error is not None:
            raise self._error
        return self._has_end

    def _take(self, limit: int) -> list[Buffer]:
        wanted = min(limit, self._network.chunk(self.unread_bytes))
        self.unread_bytes -= wanted
        self.taken_bytes += wanted
        arrived = self._arrived
        taken: list[Buffer] = []
        while wanted:
            part = arrived.popleft()
            if len(part) > wanted:
                view = memoryview(part)
                arrived.appendleft(view[wanted:])
                part = view[:wanted]
            taken.append(part)
            wanted -= len(part)
        self.peer.on_taken(self.taken_bytes)
        return taken

    # --- telling the program -------------------------------------------------------------------

    def _is_readable(self) -> bool:
        return bool(self.unread_bytes or self._has_end or self._error)

    def _wake_reader(self) -> None:
        if self._is_reading and not self._is_read_due and self.watcher and self._is_readable():
            self._is_read_due = True
            self._loop.call_soon(self._tell_readable, context=self.process.context)

    def _tell_readable(self) -> None:
        self._is_read_due = False
        if self._is_reading and self.watcher is not None:
            self.watcher.on_readable()
            self._wake_reader()

    def _wake_writer(self) -> None:
        has_room = self._room() * 3 >= WINDOW_BYTES or self._error is not None
        if self._wants_write and has_room and not self._is_write_due:
            self._is_write_due = True
            self._loop.call_soon(self._tell_writable, context=self.process.context)

    def _tell_writable(self) -> None:
        self._is_write_due = self._wants_write = False
        if self.watcher is not None:
            self.watcher.on_writable()

    # --- the kernel's side: sending ------------------------------------------------------------

    def _send_segment(self, data: Buffer) -> None:
        delay = self._network.delay_s(self.host, self.peer.host)
        due_s = self._loop.time() + delay  # or later, behind those before it
        self._segments.append((due_s, data))
        if not self._is_armed:
            self._arm(due_s)

    def _arm(self, at_s: float) -> None:
        self._is_armed = True
        self._loop.call_at(at_s, self._deliver, context=self._loop.kernel.context)

    def _deliver(self) -> None:
        """Bring what is due to the other end, if there is a way; ask for what it has read."""
        self._is_armed = False
        if not self.is_known:
            return
        network, peer, segments = self._network, self.peer, self._segments
        now = self._loop.time()
        if not network.passes(self.host, peer.host):
            self._stall(now)
            return
        if not peer.is_known:
            self._expect_reset()
            return
        while segments and segments[0][0] <= now and peer.is_known:
            peer.arrive(segments.popleft()[1])
        if network.passes(peer.host, self.host):
            self._acknowledge()
        else:
            self._stall(now)
        if segments and not self._is_armed and self.is_known:
            self._arm(max(segments[0][0], now))

    def _acknowledge(self) -> None:
        self._stalled_since = None
        self._tries = 0
        self._credited = self.peer.taken_bytes
        self._wake_writer()
        self._forget_if_done()

    def _stall(self, now: float) -> None:
        """There is no answer: ask again later, or give up."""
        if self._stalled_since is None:
            self._stalled_since = now
        left = self._stalled_since + self.give_up_s - now
        if left <= 0:
            self.fail(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))
            return
        wait = min(_RESEND_LEAST_S * 2**self._tries, _RESEND_MOST_S, left)
        self._tries = min(self._tries + 1, 10)
        self._arm(now + wait)

    def on_taken(self, total: int) -> None:
        """The other end's program has read `total` bytes so far: soon there is room for more."""
        if not self.is_known:
            return
        if not self._network.passes(self.peer.host, self.host):
            if not self._is_armed:
                self._stall(self._loop.time())
        elif self._wants_write:
            at_s = self._loop.time() + self._network.delay_s(self.peer.host, self.host)
            self._loop.call_at(at_s, self._on_room, total, context=self._loop.kernel.context)
        else:
            self._credited = total

    def _on_room(self, total: int) -> None:
        self._credited = max(self._credited, total)
        self._wake_writer()

    def _probe_later(self) -> None:
        if self.is_known and not self.is_closed:
            at_s = self._loop.time() + self._keepalive_s
            self._loop.call_at(at_s, self._probe, context=self._loop.kernel.context)

    def _probe(self) -> None:
        """Keepalive: ask whether the other end is still there."""
        if not self.is_known or self._is_armed:
            self._probe_later()
            return
        network, now = self._network, self._loop.time()
        there_and_back = ((self.host, self.peer.host), (self.peer.host, self.host))
        if not all(network.passes(*way) for way in there_and_back):
            self._stalled_since = now - self._keepalive_s  # it has been quiet for so long
        self._deliver()
        self._probe_later()

    # --- the kernel's side: receiving and ending -----------------------------------------------

    def arrive(self, data: Buffer) -> None:
        """Take a segment from the network; an empty one is the end."""
        if not len(data):
            self._has_end = True
            self._forget_if_done()
        elif self.is_closed:
            self._reset_peer()  # nobody will read it
            return
        else:
            self._arrived.append(data)
            self.unread_bytes += len(data)
        self._wake_reader()

    def fail(self, error: OSError) -> None:
        """The connection is no more; what has arrived can still be read."""
        if not self.is_known:
            return
        self._forget()
        self._error = error
        self._wake_reader()
        self._wake_writer()

    def vanish(self) -> None:
        """The kernel is no more, or the run is over: no packet says so."""
        self._forget()
        self.is_closed = True
        self.watcher = None

    def _expect_reset(self) -> None:
        """The other kernel does not know the connection, and says so."""
        at_s = self._loop.time() + self._network.delay_s(self.peer.host, self.host)
        self._is_armed = True
        self._loop.call_at(at_s, self._on_reset, context=self._loop.kernel.context)

    def _on_reset(self) -> None:
        self._is_armed = False
        if not self.is_known:
            return
        if self._network.passes(self.peer.host, self.host):
            self.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        else:
            self._stall(self._loop.time())

    def _reset_peer(self) -> None:
        """Forget the connection and tell the other end; that packet is sent once."""
        self._forget()
        at_s = self._loop.time() + self._network.delay_s(self.host, self.peer.host)
        self._loop.call_at(at_s, self._on_reset_sent, context=self._loop.kernel.context)

    def _on_reset_sent(self) -> None:
        if self._network.passes(self.host, self.peer.host):
            self.peer.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def _forget_if_done(self) -> None:
        if self.is_closed and self._has_end and not self._segments:
            self._forget()

    def _forget(self) -> None:
        self.is_known = False
        self._segments.clear()
        self._network.sockets.pop(self, None)
