"""Limits the partitions of a connection's fetches that wait for records or for room.

A waiting fetch holds its partitions as objects, and a connection may have 64 of them: 20 of those
with 480 partitions each took 255 MiB. Clients have one in flight per broker, so they lose nothing
if the next requests are read after the first are answered:

    more than OF_ONE_MAX on a connection    it is not read for a while
    more than ALL_MAX in total              further fetches are answered at once, with what there is

Fetches of few partitions do not count: they hold little more than their answers. Those of very many
are long ones (long_fetch.py), of which a connection has one.

Source: ours; Kafka reads no further request of a connection before it has answered the last.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.base.ports import Scheduler
from penstock.net.connection import Connection

FEW = 20
OF_ONE_MAX = 1_000
"""Partitions; a single fetch may have half of it."""
ALL_MAX = 200_000


class Waiting(Protocol):
    """A fetch that may wait."""

    is_done: bool
    on_end: Callable[[], None] | None


class ShortFetches:
    """Counts the partitions. One for each broker."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.waiting = 0
        """Partitions of all waiting fetches."""
        self._of: Counter[Connection] = Counter()
        self._held: dict[Connection, None] = {}

    def may_wait(self, count: int) -> bool:
        """Whether a fetch of so many partitions may wait for records."""
        return count <= FEW or self.waiting < ALL_MAX

    def watch(self, operation: Waiting, connection: Connection, count: int) -> None:
        """Count a fetch if it waits; called while its request is being handled."""
        if count <= FEW or operation.is_done:
            return
        operation.on_end = partial(self._ended, connection, count)
        self.waiting += count
        self._of[connection] += count
        if self._of[connection] > OF_ONE_MAX and connection not in self._held:
            self._held[connection] = None
            connection.hold(0)

    def _ended(self, connection: Connection, count: int) -> None:
        """Resume reading in a later iteration: the caller may be in the middle of an append."""
        self.waiting -= count
        self._of[connection] -= count
        if self._of[connection] <= OF_ONE_MAX and connection in self._held:
            del self._held[connection]
            self._scheduler.call_soon(partial(connection.go_on, 0))
        if not self._of[connection]:
            del self._of[connection]
