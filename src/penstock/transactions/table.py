"""The transactional ids of one partition of the internal topic, and changes of them.

Source: Kafka `TransactionStateManager`; redpanda#6018 (a state in memory only loses commits).
"""

from collections.abc import Callable, Mapping

from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.transactions.records import encode_key, encode_value
from penstock.transactions.state import Transaction

ID_BYTES = 800
"""Of an id without its name and partitions."""


def bytes_of(transactional_id: str) -> int:
    """Return the approximate memory of an id: beyond ASCII a character takes up to four bytes."""
    return ID_BYTES + len(transactional_id) * (1 if transactional_id.isascii() else 4)


class IdTable(ConfirmedMap[str, Transaction]):
    """Transactions by transactional id; only confirmed changes show.

    `unread` has values of later releases.
    """

    def __init__(self, partition: int) -> None:
        super().__init__()
        self.partition = partition
        self.place_count = 0
        """Partitions of the transactions together, those that changes under way add included."""
        self.id_bytes = 0
        """Approximate memory of the ids without partitions, those under way included."""
        self.new_count = 0
        """Ids that changes under way add."""
        self._growth: dict[int, tuple[int, int, int]] = {}
        """By ticket: partitions, ids and their bytes that a change adds, until it has ended."""
        self.unread: dict[str, UnreadRecord] = {}
        """Whole records whose values this version can not read: their ids can not be used here."""

    def begin(self, changes: Mapping[str, Transaction | None]) -> int:
        """As in ConfirmedMap. An id has one change under way at a time, but for tombstones."""
        ticket = super().begin(changes)
        places, ids, size = 0, 0, 0
        for name, value in changes.items():
            before = self.values.get(name)
            known = 0 if before is None else len(before.partitions)
            places += 0 if value is None else max(len(value.partitions) - known, 0)
            if before is None and value is not None:
                ids += 1
                size += bytes_of(name)
        self._grow(places, ids, size)
        self._growth[ticket] = places, ids, size
        return ticket

    def _end(self, ticket: int) -> Mapping[str, Transaction | None]:
        self._grow(*(-each for each in self._growth.pop(ticket)))
        return super()._end(ticket)

    def _grow(self, places: int, ids: int, size: int) -> None:
        self.place_count += places
        self.new_count += ids
        self.id_bytes += size

    def _change(self, key: str, value: Transaction | None) -> None:
        before = self.values.get(key)
        self.place_count -= 0 if before is None else len(before.partitions)
        self.place_count += 0 if value is None else len(value.partitions)
        self.id_bytes -= 0 if before is None else bytes_of(key)
        self.id_bytes += 0 if value is None else bytes_of(key)
        super()._change(key, value)


class Put:
    """One change of one id; None removes it. Its end is told to `confirmed` or to `refused`."""

    def __init__(
        self,
        states: IdTable,
        transactional_id: str,
        after: Transaction | None,
        *,
        confirmed: Callable[[Transaction | None], None],
        refused: Callable[[], None],
    ) -> None:
        self.records: list[JournalRecord] = [record_of(transactional_id, after)]
        self._states = states
        self._changes = {transactional_id: after}
        self._after = after
        self._confirmed = confirmed
        self._refused = refused
        self._ticket = 0

    def begin(self) -> None:
        """As in Change."""
        self._ticket = self._states.begin(self._changes)

    def confirm(self) -> None:
        """As in Change."""
        self._states.confirm(self._ticket)
        self._confirmed(self._after)

    def refuse(self) -> None:
        """As in Change."""
        self._states.refuse(self._ticket)
        self._refused()


def record_of(transactional_id: str, one: Transaction | None) -> JournalRecord:
    """Return the record of an id; a tombstone for None."""
    return encode_key(transactional_id), None if one is None else encode_value(one)
