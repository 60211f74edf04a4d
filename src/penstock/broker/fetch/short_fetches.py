"""Fetches of some partitions each that wait, for records or for room: how many of a connection.

A fetch that waits holds its partitions as objects, and a connection may have 64 of them: 20 of
those with 480 partitions each took 255 MiB. Clients have one under way at a node, so nothing is
lost where the next ones are read when the first are answered:

    of a connection more than OF_ONE_MAX    it is held: no more is read of it
    of all together ALL_MAX                 the next ones are answered at once, with what there is

Fetches of few partitions do not count: they hold little more than their answers. Those of very many
are the long ones (long_fetch.py), of which a connection has one.

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
    """Counts them. One for a broker."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.waiting = 0
        """Partitions of all of them together."""
        self._of: Counter[Connection] = Counter()
        self._held: dict[Connection, None] = {}

    def may_wait(self, count: int) -> bool:
        """Whether a fetch of so many partitions may wait for records."""
        return count <= FEW or self.waiting < ALL_MAX

    def watch(self, operation: Waiting, connection: Connection, count: int) -> None:
        """Count a fetch that was begun, if it waits; called while its connection's frame is."""
        if count <= FEW or operation.is_done:
            return
        operation.on_end = partial(self._ended, connection, count)
        self.waiting += count
        self._of[connection] += count
        if self._of[connection] > OF_ONE_MAX and connection not in self._held:
            self._held[connection] = None
            connection.hold(0)

    def _ended(self, connection: Connection, count: int) -> None:
        """It goes on in a turn of its own: this may be in the midst of somebody else's append."""
        self.waiting -= count
        self._of[connection] -= count
        if self._of[connection] <= OF_ONE_MAX and connection in self._held:
            del self._held[connection]
            self._scheduler.call_soon(partial(connection.go_on, 0))
        if not self._of[connection]:
            del self._of[connection]
