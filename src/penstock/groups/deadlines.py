"""The coordinator's deadlines: one heap, one live deadline per key.

A heartbeat moves a deadline back many times before it is due. So the heap is not touched then:
only `_due` changes, and the entry is pushed again when it surfaces too early. A cancelled
deadline's entry stays until it surfaces; the heap is rebuilt when such leftovers are in the
majority, which bounds it to about twice the live deadlines. Equal times come out in the order in
which they were set, so that a run can be replayed.

Source: the usual lazy heap; Kafka uses a hierarchical timing wheel for the same purpose
(kafka.server.DelayedOperationPurgatory). Times are monotonic milliseconds.
"""

import heapq
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

_LEFTOVERS_MIN = 64


class DeadlineKind(IntEnum):
    """What falls due."""

    SESSION = 1
    PENDING_MEMBER = 2
    JOIN = 3
    SYNC = 4
    EXPIRY = 5
    GONE = 6


class DeadlineKey(NamedTuple):
    """Names a deadline; `member_id` is empty for those of a whole group."""

    kind: DeadlineKind
    group_id: str = ""
    member_id: str = ""


class Deadlines:
    """A heap of deadlines with cheap moving and cancelling."""

    __slots__ = ("_due", "_heap", "_order", "_queued")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, DeadlineKey]] = []
        self._due: dict[DeadlineKey, int] = {}
        self._queued: dict[DeadlineKey, int] = {}
        self._order = 0

    def set(self, key: DeadlineKey, at_ms: int) -> None:
        """Set or move a deadline."""
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._push(key, at_ms)

    def cancel(self, key: DeadlineKey) -> None:
        """Forget a deadline; an unknown one is fine."""
        self._due.pop(key, None)
        if len(self._heap) > 2 * len(self._due) + _LEFTOVERS_MIN:
            self._rebuild()

    def at(self, key: DeadlineKey) -> int | None:
        """Return when a deadline is due, or None."""
        return self._due.get(key)

    def next_ms(self) -> int | None:
        """Return a time not after the earliest deadline, or None when there is none."""
        while self._heap and self._queued.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Iterator[DeadlineKey]:
        """Yield, and forget, what is due at `now_ms`; handlers may set and cancel meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != at_ms:
                continue
            del self._queued[key]
            due = self._due.get(key)
            if due is None:
                continue
            if due > now_ms:
                self._push(key, due)
                continue
            del self._due[key]
            yield key

    def __len__(self) -> int:
        return len(self._due)

    def _push(self, key: DeadlineKey, at_ms: int) -> None:
        self._order += 1
        self._queued[key] = at_ms
        heapq.heappush(self._heap, (at_ms, self._order, key))

    def _rebuild(self) -> None:
        self._heap.clear()
        self._queued.clear()
        for key, at_ms in self._due.items():
            self._push(key, at_ms)
