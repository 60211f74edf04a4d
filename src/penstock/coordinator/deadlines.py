"""Deadlines of a coordinator: buckets by time, one live deadline per key.

    times (a heap)   ─► 1005 ─► {key, key, ...}   in the order in which they were set
                        1007 ─► {key}

Heartbeats move a deadline back many times before it is due. Moving back leaves the buckets alone:
only `_due` changes, and the key goes to a later bucket when its own one is reached. Cancelling
removes the key. An empty bucket is removed; its time stays in the heap until it comes to the top,
or until such leftovers are the majority and the heap is rebuilt, which is fast even with a hundred
thousand numbers. Thousands of sessions that begin at one time end at one time and share a bucket.

Source: the usual lazy heap; Kafka uses a hierarchical timing wheel for the same purpose
(kafka.server.DelayedOperationPurgatory). Times are monotonic milliseconds.
"""

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_LEFTOVERS_MIN = 64


class Deadlines(Generic[K]):
    """Deadlines with cheap moving and cancelling."""

    __slots__ = ("_buckets", "_due", "_queued", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._buckets: dict[int, OrderedDict[K, None]] = {}
        """OrderedDict, since a plain dict finds its first key slowly after many deletions."""
        self._due: dict[K, int] = {}
        self._queued: dict[K, int] = {}

    def set(self, key: K, at_ms: int) -> None:
        """Set or move a deadline."""
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None:
            self._put(key, at_ms)
        elif at_ms < queued:
            self._take(key, queued)
            self._put(key, at_ms)

    def cancel(self, key: K) -> None:
        """Forget a deadline; an unknown one is fine."""
        if self._due.pop(key, None) is not None:
            self._take(key, self._queued[key])

    def at(self, key: K) -> int | None:
        """Return when a deadline is due; None if it is not set."""
        return self._due.get(key)

    def next_ms(self) -> int | None:
        """Return a time not after the earliest deadline; None if there is none."""
        while self._times and self._times[0] not in self._buckets:
            heapq.heappop(self._times)
        return self._times[0] if self._times else None

    def pop_due(self, now_ms: int) -> Iterator[K]:
        """Yield and remove the keys due at `now_ms`; callers may set and cancel meanwhile."""
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            key = next(iter(self._buckets[at_ms]))
            self._take(key, at_ms)
            due = self._due[key]
            if due > now_ms:
                self._put(key, due)
                continue
            del self._due[key]
            yield key

    def __len__(self) -> int:
        return len(self._due)

    def _put(self, key: K, at_ms: int) -> None:
        self._queued[key] = at_ms
        bucket = self._buckets.get(at_ms)
        if bucket is not None:
            bucket[key] = None
            return
        self._buckets[at_ms] = OrderedDict({key: None})
        heapq.heappush(self._times, at_ms)
        if len(self._times) > 2 * len(self._buckets) + _LEFTOVERS_MIN:
            self._times = list(self._buckets)
            heapq.heapify(self._times)

    def _take(self, key: K, at_ms: int) -> None:
        del self._queued[key]
        bucket = self._buckets[at_ms]
        del bucket[key]
        if not bucket:
            del self._buckets[at_ms]
