"""Limits concurrent TLS handshakes at a peer port, since each costs the loop a signature.

    accepted ─► first record received? ─► a place is free, fair by address ─► TLS ─► PeerLink

Answering the first record of an unauthenticated client takes a signature, a millisecond or more,
whatever the client sends. A hundred first records read in one turn would hold the loop for longer
than leases permit. So connections with a first record wait for a place. A handshake that has held a
place for a second loses it to any that waits, and at once to one of an address with fewer places.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.net.peer_link import PeerLink

HANDSHAKES_MAX = 4
"""Most signatures in one turn of the loop."""
PLACE_SECONDS = 1.0
"""Time limit; a handshake takes two round trips."""

_LOOK_SECONDS = 0.02
"""Pause before checking again for a first record that was received in part."""
_RECORD_HEAD_BYTES = 5
_HANDSHAKE = b"\x16"
"""Type of a first record."""
_RECORD_BYTES_MAX = 16 << 10


class _Waiting(NamedTuple):
    link: PeerLink
    place: asyncio.Future[None]


class TlsGate:
    """The gate of one port."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, end: Callable[[PeerLink, str], None]
    ) -> None:
        """`end(link, reason)` closes the connection and ends the task that has called `enter`."""
        self._loop = loop
        self._end = end
        self._began: dict[PeerLink, float] = {}
        """Handshakes that have a place, oldest first."""
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, link: PeerLink, opened: socket.socket) -> None:
        """Wait for the connection's first record and for a place; `leave` releases it."""
        await self._first_record(opened)
        waiting = _Waiting(link, self._loop.create_future())
        self._waiting.append(waiting)
        self._give()
        try:
            await waiting.place
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            self.leave(link)
            raise

    def leave(self, link: PeerLink) -> None:
        """Release the place, so that another connection gets it."""
        if self._began.pop(link, None) is not None:
            self._give()

    async def _first_record(self, opened: socket.socket) -> None:
        readable = self._loop.create_future()

        def note() -> None:
            self._loop.remove_reader(opened)
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(opened, note)
        try:
            await readable
        finally:
            self._loop.remove_reader(opened)
        while not _has_record(opened):  # noqa: ASYNC110  a part of it is readable all the time
            await asyncio.sleep(_LOOK_SECONDS)

    def _give(self) -> None:
        """Assign free places: first to the addresses that have fewest, then in order."""
        while self._waiting:
            counts = Counter(link.host for link in self._began)
            waiting = min(self._waiting, key=lambda one: counts[one.link.host])
            if len(self._began) >= HANDSHAKES_MAX:
                loser = self._loser(counts, waiting.link.host)
                if loser is None:
                    self._look_later()
                    return
                del self._began[loser]
                self._end(loser, "others wait to shake hands")
            self._waiting.remove(waiting)
            if not waiting.place.done():  # else the waiting task was cancelled
                self._began[waiting.link] = self._loop.time()
                waiting.place.set_result(None)

    def _loser(self, counts: Counter[str], host: str) -> PeerLink | None:
        """Return the handshake that loses its place to an address, if any."""
        oldest = next(iter(self._began))
        if self._loop.time() - self._began[oldest] >= PLACE_SECONDS:
            return oldest
        greediest, most = counts.most_common(1)[0]
        if most <= counts[host] + 1:
            return None
        return next(link for link in self._began if link.host == greediest)

    def _look_later(self) -> None:
        if self._timer is None:
            oldest = next(iter(self._began.values()))
            wait = max(oldest + PLACE_SECONDS - self._loop.time(), _LOOK_SECONDS)
            self._timer = self._loop.call_later(wait, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._give()

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _has_record(opened: socket.socket) -> bool:
    """Whether a first TLS record is complete; True if it is not TLS, or the peer has closed.

    Reading it shows which.
    """
    try:
        head = opened.recv(_RECORD_HEAD_BYTES, socket.MSG_PEEK)
        if not head.startswith(_HANDSHAKE):
            return True
        if len(head) < _RECORD_HEAD_BYTES:
            return False
        size = _RECORD_HEAD_BYTES + min(int.from_bytes(head[3:], "big"), _RECORD_BYTES_MAX)
        return len(opened.recv(size, socket.MSG_PEEK)) == size
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
