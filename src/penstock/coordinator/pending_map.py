"""A ConfirmedMap with changes that only count if their transaction is committed.

    begin(changes)                  as in ConfirmedMap
    begin_pending(writer, changes)  once confirmed: pending, until that writer's transaction ends
    begin_ending(writer, ...)       a marker: once confirmed, what is pending counts or is dropped

All three are in the order of the journal. A pending value becomes the value of its key only if
nothing behind it in the log did so before: neither a plain change, nor a value of another
transaction that has been committed meanwhile.

Invariant: a marker is confirmed behind what its transaction has written, as the log confirms.

Source: Kafka, OffsetMetadataManager.replay and replayEndTransactionMarker; KIP-98.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from penstock.base.ids import ProducerId
from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.pending import Pending

K = TypeVar("K")
V = TypeVar("V")


class _Step(NamedTuple):
    """A change under way that is not a plain one; `is_commit` is None if it is no marker."""

    producer_id: ProducerId
    is_commit: bool | None = None


class PendingMap(ConfirmedMap[K, V], Generic[K, V]):
    """`values` is what is confirmed and counts; `pending` what is confirmed and waits."""

    __slots__ = ("_steps", "pending")

    def __init__(self) -> None:
        super().__init__()
        self.pending: Pending[K, V] = Pending()
        self._steps: dict[int, _Step] = {}
        """By ticket."""

    def restore(self, values: Mapping[K, V], producer_id: ProducerId | None = None) -> None:
        """As in ConfirmedMap; or what is pending of a producer, in the order of the log."""
        if producer_id is None:
            super().restore(values)
            return
        self._ticket += 1
        for key, value in values.items():
            self._hold(producer_id, key, self._ticket, value)

    def begin_pending(self, producer_id: ProducerId, changes: Mapping[K, V | None]) -> int:
        """Note what a transaction writes, all of it values; return the ticket."""
        assert None not in changes.values(), "a transaction removes nothing"
        ticket = self.begin(changes)
        self._steps[ticket] = _Step(producer_id)
        return ticket

    def begin_ending(self, producer_id: ProducerId, *, is_commit: bool) -> int:
        """Note a marker, which may concern other maps, too; return the ticket."""
        ticket = self.begin({})
        self._steps[ticket] = _Step(producer_id, is_commit)
        return ticket

    def refuse(self, ticket: int) -> None:
        """As in ConfirmedMap."""
        self._steps.pop(ticket, None)
        super().refuse(ticket)

    def latest_of(self, keys: Iterable[K]) -> dict[K, V]:
        """As in ConfirmedMap: what counts, markers under way included."""
        if not self._is_transactional:
            return super().latest_of(keys)
        wanted = dict.fromkeys(keys)
        values = self._merged(wanted).values
        return {key: values[key] for key in wanted if key in values}

    def latest_pending_of(self, keys: Iterable[K]) -> dict[K, list[V]]:
        """Return what is pending on some keys as the journal has it; those with nothing left out.

        The values are in the order of the journal.
        """
        if not self._is_transactional:
            return {}
        wanted = dict.fromkeys(keys)
        pending = self._merged(wanted).pending
        return {
            key: [value for _, value in sorted(pending.on(key).values(), key=_order)]
            for key in wanted
            if key in pending
        }

    def is_in_flight(self, key: K) -> bool:
        """As in ConfirmedMap; or whether a change of `key` waits for its transaction's end."""
        return key in self.pending or super().is_in_flight(key)

    def keys(self) -> Iterator[K]:
        """As in ConfirmedMap; with those that are only pending."""
        more = (key for key in self.pending.all_keys() if key not in self.values)
        return iter([*dict.fromkeys([*super().keys(), *more])])

    # How steps become state; `_merged` uses the same for those that are not confirmed

    def _apply(self, ticket: int, changes: Mapping[K, V | None]) -> None:
        self._step(self._steps.pop(ticket, None), ticket, changes)

    def _step(self, step: _Step | None, ticket: int, changes: Mapping[K, V | None]) -> None:
        if step is None:
            super()._apply(ticket, changes)
        elif step.is_commit is None:
            for key, value in changes.items():
                if value is not None and self._changed_by.get(key, 0) < ticket:
                    self._hold(step.producer_id, key, ticket, value)
        else:
            for key, order, value in self.pending.take(step.producer_id):
                self._let_go(value)
                if step.is_commit:
                    self._take(key, value, order)

    def _take(self, key: K, value: V | None, ticket: int) -> None:
        super()._take(key, value, ticket)
        for lost in self.pending.drop(key, ticket):
            self._let_go(lost)

    def _hold(self, producer_id: ProducerId, key: K, ticket: int, value: V) -> None:
        self._held(value)
        lost = self.pending.put(producer_id, key, ticket, value)
        if lost is not None:
            self._let_go(lost)

    def _held(self, value: V) -> None:
        """Hook for subclasses: a value is pending from now on."""

    def _let_go(self, value: V) -> None:
        """Hook for subclasses: a value is no longer pending."""

    @property
    def _is_transactional(self) -> bool:
        return bool(self.pending) or bool(self._steps)

    def _merged(self, wanted: Mapping[K, None]) -> "PendingMap[K, V]":
        """Return a copy for some keys, with everything under way applied in its order."""
        merged: PendingMap[K, V] = PendingMap()
        merged.values.update({key: self.values[key] for key in wanted if key in self.values})
        changed = self._changed_by.keys() & wanted.keys()
        merged._changed_by.update({key: self._changed_by[key] for key in changed})
        for key in wanted:
            for producer_id, (order, value) in self.pending.on(key).items():
                merged.pending.put(producer_id, key, order, value)
        for ticket, changes in self._in_flight.items():
            some = {key: changes[key] for key in changes.keys() & wanted.keys()}
            merged._step(self._steps.get(ticket), ticket, some)
        return merged


def _order(one: tuple[int, object]) -> int:
    return one[0]
