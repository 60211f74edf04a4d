"""Which client of a group consumes a queue alone: for consumers that keep the order of messages.

    lock ─► the client's, for 60 s; it locks again every 20 s
    unlock, or 60 s without it ─► nobody's

In memory of the queue's master, as in RocketMQ. A new master knows none: the first who asks there
has the queue, and a client stops by itself 30 s after it was last told that it has one.

Source: RocketMQ `RebalanceLockManager` (60 s), `ProcessQueue.isLockExpired` (30 s).
"""

from typing import Final, NamedTuple

from penstock.base.ids import TopicId
from penstock.remoting.operating.seats import Seats

LOCK_MS: Final = 60_000
LOCKS_MAX: Final = 10_000
"""On a node. With more, clients that have none wait until others end. A user leaves a quarter."""
LOCK_BYTES: Final = 1 << 10
"""Memory of a lock, with names of the greatest length."""


class LockedQueue(NamedTuple):
    """What is locked."""

    group: str
    topic_id: TopicId
    partition: int


class _Lock(NamedTuple):
    client_id: str
    until_ms: int
    user: str


class QueueLocks:
    """See the module; one for each node. Times are monotonic."""

    def __init__(self, locks_max: int = LOCKS_MAX) -> None:
        self._locks: dict[LockedQueue, _Lock] = {}
        self._seats = Seats(locks_max)

    @property
    def count(self) -> int:
        """Locks that are there, those included that are over and not looked at yet."""
        return len(self._locks)

    def lock(self, queue: LockedQueue, client_id: str, now_ms: int, user: str = "") -> bool:
        """Lock a queue for a user's client, or for longer; return whether it has it."""
        known = self._locks.get(queue)
        if known is not None and known.client_id != client_id and now_ms < known.until_ms:
            return False
        is_more = known is None or known.user != user
        if is_more and not self._seats.has_free(user, 1):
            return False
        if known is not None:
            self._forget(queue)
        self._locks[queue] = _Lock(client_id, now_ms + LOCK_MS, user)
        self._seats.change(user, 1)
        return True

    def unlock(self, queue: LockedQueue, client_id: str) -> None:
        """Give a queue back, if the client has it."""
        known = self._locks.get(queue)
        if known is not None and known.client_id == client_id:
            self._forget(queue)

    def expire(self, now_ms: int) -> None:
        """Forget the locks that are over."""
        over = [queue for queue, lock in self._locks.items() if lock.until_ms <= now_ms]
        for queue in over:
            self._forget(queue)

    def _forget(self, queue: LockedQueue) -> None:
        self._seats.change(self._locks.pop(queue).user, -1)
