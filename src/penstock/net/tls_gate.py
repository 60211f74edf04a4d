"""Who may be in a TLS handshake at a port for peers: a few at a time, since each costs the loop.

    accepted ─► first record is there? ─► a place is free, fair by address ─► TLS ─► PeerLink

Answering a stranger's first words takes a signature, a millisecond or more, and whoever sends
nothing that is right can ask for it. A hundred that are read in one turn of the loop would hold it
beyond leases. So those who have said their first words wait for a place. One who holds a place for
a second loses it to whoever waits, and at once to an address that has fewer.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.net.peer_link import PeerLink

HANDSHAKES_MAX = 4
"""Signatures that can fall into one turn of the loop."""
PLACE_SECONDS = 1.0
"""A handshake takes two round trips."""

_LOOK_SECONDS = 0.02
"""Between two looks at a first record that has come in part."""
_RECORD_HEAD_BYTES = 5
_HANDSHAKE = b"\x16"
"""Type of a first record."""
_RECORD_BYTES_MAX = 16 << 10


class _Waiting(NamedTuple):
    link: PeerLink
    place: asyncio.Future[None]


class TlsGate:
    """Of one port."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, end: Callable[[PeerLink, str], None]
    ) -> None:
        """`end(link, reason)` ends a stranger, and the task that has entered for it."""
        self._loop = loop
        self._end = end
        self._began: dict[PeerLink, float] = {}
        """Of those who have a place, the oldest first."""
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, link: PeerLink, opened: socket.socket) -> None:
        """Wait for the stranger's first words and for a place; `leave` gives it back."""
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
        """Let another one in."""
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
        """Give places away: first to the addresses that have fewest, and in order."""
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
            if not waiting.place.done():  # else who waited was cancelled
                self._began[waiting.link] = self._loop.time()
                waiting.place.set_result(None)

    def _loser(self, counts: Counter[str], host: str) -> PeerLink | None:
        """Return whose place an address gets, if any."""
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
        """Look at no times any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _has_record(opened: socket.socket) -> bool:
    """Whether a first TLS record has come whole; also where it is none, or the other end has gone.

    Whoever reads it finds out.
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
