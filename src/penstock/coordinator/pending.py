"""Values that wait for the end of the transactions in which they were written.

    put      a writer's newest value of a key        by order: where it is in the log
    take     a marker: all values of a writer
    drop     something later was written to a key    what came before it has lost

A value that was written behind another of its key has won, whatever becomes of the transaction of
the other one. So what has lost is dropped at once, and nothing needs to remember where in the log
a value came from once it is no longer pending.

Source: Kafka, OffsetMetadataManager (pendingTransactionalOffsets, openTransactions).
"""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from penstock.base.ids import ProducerEpoch, ProducerId

K = TypeVar("K")
V = TypeVar("V")


class Writer(NamedTuple):
    """A producer in whose transaction something is written."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class Pending(Generic[K, V]):
    """Pending values by key and by the id of their producer; one for each pair."""

    __slots__ = ("_by_producer", "_on")

    def __init__(self) -> None:
        self._on: dict[K, dict[ProducerId, tuple[int, V]]] = {}
        self._by_producer: dict[ProducerId, dict[K, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._on)

    def __contains__(self, key: K) -> bool:
        return key in self._on

    def put(self, producer_id: ProducerId, key: K, order: int, value: V) -> V | None:
        """Keep a value, unless a later one of this producer is there; return the other of both."""
        on = self._on.setdefault(key, {})
        before = on.get(producer_id)
        if before is not None and before[0] > order:
            return value
        on[producer_id] = (order, value)
        self._by_producer.setdefault(producer_id, {})[key] = None
        return None if before is None else before[1]

    def take(self, producer_id: ProducerId) -> list[tuple[K, int, V]]:
        """Remove all of a producer and return them: key, order, value."""
        taken: list[tuple[K, int, V]] = []
        for key in self._by_producer.pop(producer_id, ()):
            on = self._on[key]
            taken.append((key, *on.pop(producer_id)))
            if not on:
                del self._on[key]
        return taken

    def drop(self, key: K, before: int) -> list[V]:
        """Remove what was written to a key before this place in the log, and return it."""
        on = self._on.get(key)
        if on is None:
            return []
        lost = [producer_id for producer_id, (order, _) in on.items() if order < before]
        gone = [on.pop(producer_id)[1] for producer_id in lost]
        for producer_id in lost:
            keys = self._by_producer[producer_id]
            del keys[key]
            if not keys:
                del self._by_producer[producer_id]
        if not on:
            del self._on[key]
        return gone

    def all_keys(self) -> list[K]:
        """Return the keys that have some."""
        return [*self._on]

    def on(self, key: K) -> dict[ProducerId, tuple[int, V]]:
        """Return what is pending on a key: producer id -> (order, value)."""
        return {**self._on.get(key, {})}

    def count_of(self, producer_id: ProducerId) -> int:
        """Return how many keys have a value of this producer."""
        return len(self._by_producer.get(producer_id, ()))

    def of(self, producer_id: ProducerId, key: K) -> V | None:
        """Return the value that a producer has for a key."""
        found = self._on.get(key, {}).get(producer_id)
        return None if found is None else found[1]

    def __iter__(self) -> Iterator[tuple[K, ProducerId, int, V]]:
        """Yield key, producer id, order and value of each, in no order."""
        for key, on in self._on.items():
            for producer_id, (order, value) in on.items():
                yield key, producer_id, order, value
