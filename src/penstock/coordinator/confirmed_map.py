"""A map whose changes take effect once the journal has confirmed them.

    begin(changes) -> ticket      appended to the journal, not yet durable
    confirm(ticket)               durable: `values` shows the changes
    refuse(ticket)                not written: the changes are dropped

Tickets are in the order of the journal, and that order decides: of two changes of one key under
way, the one appended later wins, whichever is confirmed first. `latest_of` is the map as the
journal has it, unconfirmed changes included. A rewrite of the journal must use it: an older value
written behind a newer one would undo the newer one at the next start.

Source: redpanda#31483 (live state and replay disagree when the last writer is decided on any other
order than the log's).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ConfirmedMap(Generic[K, V]):
    """`values` is what is confirmed; None in a change removes the key."""

    __slots__ = ("_changed_by", "_in_flight", "_ticket", "_under_way", "values")

    def __init__(self) -> None:
        self.values: dict[K, V] = {}
        self._in_flight: dict[int, Mapping[K, V | None]] = {}
        self._under_way: dict[K, int] = {}
        """How many changes of each key are in flight: there may be thousands of tickets."""
        self._changed_by: dict[K, int] = {}
        self._ticket = 0

    def restore(self, values: Mapping[K, V]) -> None:
        """Set values that were read from the log."""
        for key, value in values.items():
            self._change(key, value)

    def begin(self, changes: Mapping[K, V | None]) -> int:
        """Note changes in the order in which they are appended, and return their ticket."""
        self._ticket += 1
        self._in_flight[self._ticket] = changes
        for key in changes:
            self._under_way[key] = self._under_way.get(key, 0) + 1
        return self._ticket

    def confirm(self, ticket: int) -> None:
        """Show the changes of a ticket, except where a later one was confirmed already."""
        changes = self._end(ticket)
        self._apply(ticket, changes)
        self._ended(changes)
        self._forget_order_when_idle()

    def refuse(self, ticket: int) -> None:
        """Drop the changes of a ticket."""
        self._ended(self._end(ticket))
        self._forget_order_when_idle()

    def is_in_flight(self, key: K) -> bool:
        """Return whether a change of `key` waits for its confirmation."""
        return key in self._under_way

    @property
    def change_count(self) -> int:
        """How many changes have begun so far."""
        return self._ticket

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def keys(self) -> Iterator[K]:
        """Iterate over a snapshot of the keys, those of changes under way included.

        The map may change meanwhile.
        """
        return iter([*self.values, *(key for key in self._under_way if key not in self.values)])

    def latest_of(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the values of some keys as the journal has them; absent ones are left out."""
        wanted = dict.fromkeys(keys)
        merged = {key: self.values[key] for key in wanted if key in self.values}
        for ticket, changes in self._in_flight.items():
            for key in changes.keys() & wanted.keys():
                if self._changed_by.get(key, 0) < ticket:
                    _change(merged, key, changes[key])
        return {key: merged[key] for key in wanted if key in merged}

    def _apply(self, ticket: int, changes: Mapping[K, V | None]) -> None:
        for key, value in changes.items():
            self._take(key, value, ticket)

    def _take(self, key: K, value: V | None, ticket: int) -> None:
        """Change one key, unless something later has changed it already."""
        if self._changed_by.get(key, 0) <= ticket:
            self._changed_by[key] = ticket
            self._change(key, value)

    def _change(self, key: K, value: V | None) -> None:
        _change(self.values, key, value)

    def _ended(self, changes: Mapping[K, V | None]) -> None:
        """Hook for subclasses: these changes are no longer under way."""

    def _end(self, ticket: int) -> Mapping[K, V | None]:
        changes = self._in_flight.pop(ticket)
        for key in changes:
            count = self._under_way[key] - 1
            if count:
                self._under_way[key] = count
            else:
                del self._under_way[key]
        return changes

    def _forget_order_when_idle(self) -> None:
        if not self._in_flight:
            self._changed_by.clear()


def _change(values: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
