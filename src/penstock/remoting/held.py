"""What unanswered requests hold, so that no client, and not all of them, take more than their part.

A request counts from its frame until its answer, or until its client is found to have gone: its
bytes, and 1 KiB for what is kept beside. Answers overtake each other here, so a connection may have
thousands of requests open where Kafka's has 64.

    more than OF_ONE_MAX of a connection, or than all may have   the connection is not read
    half of either                                               pulls do not wait for messages

So what keeps a connection from being read is what ends soon: appends, reads, look-ups. It is read
again below half of its own bound, once all together are within theirs.

Source: ours. RocketMQ bounds one-way and asynchronous requests of its own clients alone.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.base.ports import Scheduler
    from penstock.net.connection import Connection

REQUEST_BYTES: Final = 1 << 10
OF_ONE_MAX: Final = 4 << 20
"""4 MiB, or 2,000 sends of 1 KiB; a producer's clients wait on TCP meanwhile. Half of it are the
pulls of 1,500 queues."""
ALL_MAX: Final = 8 << 20
"""Where nobody has said more."""


class HeldRequests:
    """Counts the bytes. One for each front."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.bytes_max = ALL_MAX
        self.bytes_now = 0
        self._of: Counter[Connection] = Counter()
        self._paused: dict[Connection, None] = {}

    @property
    def paused(self) -> int:
        """Connections that are not read."""
        return len(self._paused)

    def add(self, connection: Connection, size: int) -> None:
        """Count a request; its connection is read no further if that is too much."""
        self.bytes_now += size
        self._of[connection] += size
        is_much = self._of[connection] > OF_ONE_MAX or self.bytes_now > self.bytes_max
        if is_much and connection not in self._paused and not connection.is_closed:
            self._paused[connection] = None
            connection.hold(0)

    def may_wait(self, connection: Connection) -> bool:
        """Whether a request that is counted already may wait for messages."""
        is_little = self._of[connection] <= OF_ONE_MAX // 2
        return is_little and self.bytes_now <= self.bytes_max // 2

    def end(self, connection: Connection, size: int) -> None:
        """Count it no more."""
        was_much = self.bytes_now > self.bytes_max
        self.bytes_now -= size
        self._of[connection] -= size
        assert self.bytes_now >= 0, self.bytes_now
        if self._paused and self.bytes_now <= self.bytes_max:
            for one in list(self._paused) if was_much else (connection,):
                self._maybe_read(one)
        if not self._of[connection]:
            del self._of[connection]

    def _maybe_read(self, connection: Connection) -> None:
        """Read a connection again, in a turn of its own: the caller may be in an append."""
        if connection in self._paused and self._of[connection] <= OF_ONE_MAX // 2:
            del self._paused[connection]
            self._scheduler.call_soon(partial(connection.go_on, 0))
