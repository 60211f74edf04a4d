"""Transactions as a shard of the coordinator runtime: loading, unloading, rewrites.

Source: Kafka, TransactionStateManager.loadTransactionMetadata; docs/adding.md.
"""

from collections.abc import Callable, Generator, Iterator, Sequence

from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.pending import Writer
from penstock.coordinator.plain_loader import PlainLoader
from penstock.coordinator.portions import Steps
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.writes import Change, NoChange
from penstock.transactions.messages import Filter
from penstock.transactions.records import UnknownVersion, decode_key, decode_value
from penstock.transactions.state import Transaction
from penstock.transactions.table import IdTable, record_of

LISTED_TOGETHER = 100
TOGETHER = 20
"""Ids that are made, begun or written in one step: 10 us each."""
PLACES_TOGETHER = 1_000
"""Partitions of transactions that are written in one step, unless one has more: 1 us each."""


class TransactionLoader(PlainLoader):
    """Builds the ids of one partition from its records."""

    __slots__ = ("_found", "_partition", "_unread_values")

    def __init__(self, partition: int, unread: UnreadRecords) -> None:
        self._partition = partition
        super().__init__(unread)
        self._found: dict[str, Transaction] = {}
        self._unread_values: dict[str, UnreadRecord] = {}

    def load(self, record: UnreadRecord) -> None:
        """As in Loader."""
        try:
            transactional_id = decode_key(record.key or b"")
        except MalformedRecord:
            self._unread.put(record)
            return
        self._found.pop(transactional_id, None)
        before = self._unread_values.pop(transactional_id, None)
        if before is not None:
            self._unread.drop(before)
        if record.value is None:
            return
        try:
            self._found[transactional_id] = decode_value(transactional_id, record.value)
        except (UnknownVersion, MalformedRecord):
            self._unread_values[transactional_id] = self._unread.keep(record)

    def make(self) -> Generator[int, None, IdTable]:
        """As in Loader."""
        states = IdTable(self._partition)
        states.unread = self._unread_values
        for number, one in enumerate(self._found.values()):
            states.restore({one.transactional_id: one})
            if number % TOGETHER == 0:
                yield 1
        return states

    def discard(self) -> Steps:
        """As in Loader."""
        self._found.clear()
        self._unread_values.clear()
        yield 1


class TransactionShard:
    """The transactions of one coordinator; `begun` and `ended` are told of each shown id."""

    __slots__ = ("_begun", "_due", "_ended", "by_partition")

    def __init__(
        self,
        *,
        begun: Callable[[IdTable, Transaction], None],
        ended: Callable[[IdTable], Steps],
        due: Callable[[tuple[str, str]], None],
    ) -> None:
        self._begun = begun
        self._ended = ended
        self._due = due
        self.by_partition: dict[int, IdTable] = {}

    def new_loader(self, partition: int, unread: UnreadRecords) -> TransactionLoader:
        """As in Shard."""
        return TransactionLoader(partition, unread)

    def show(self, partition: int, state: IdTable) -> None:
        """As in Shard."""
        self.by_partition[partition] = state

    def begin(self, partition: int, state: IdTable) -> Steps:
        """Go on with what was decided, and watch what is open."""
        for number, one in enumerate([*state.values.values()]):
            if self.by_partition.get(partition) is not state:
                return
            if state.values.get(one.transactional_id) is one:
                self._begun(state, one)
            if number % TOGETHER == 0:
                yield 1

    def listed(self, wanted: Filter, now_ms: int) -> Iterator[list[Transaction]]:
        """Yield what `wanted` admits of each LISTED_TOGETHER ids."""
        for states in [*self.by_partition.values()]:
            every = [*states.values.values()]
            for at in range(0, len(every), LISTED_TOGETHER):
                some = every[at : at + LISTED_TOGETHER]
                yield [one for one in some if wanted.admits(one, now_ms)]

    def hide(self, partition: int) -> IdTable | None:
        """As in Shard."""
        return self.by_partition.pop(partition, None)

    def let_go(self, state: IdTable) -> Steps:
        """As in Shard."""
        yield from self._ended(state)

    def live_records(self, partition: int) -> Iterator[list[JournalRecord]]:
        """As in Shard."""
        states = self.by_partition[partition]
        names = [*states.keys()]
        for at in range(0, len(names), TOGETHER):
            for some in _portions_of(states, names[at : at + TOGETHER]):
                latest = states.latest_of(some)
                yield [record_of(name, one) for name, one in latest.items()]
        unread = [*states.unread.items()]
        for at in range(0, len(unread), TOGETHER):
            yield [
                record
                for name, record in unread[at : at + TOGETHER]
                if states.unread.get(name) is record
            ]

    def ending(self, partition: int, writer: Writer, *, is_commit: bool) -> Change:
        """As in Shard: it ends nothing here."""
        return NoChange()

    def on_due(self, key: tuple[str, str]) -> None:
        """As in Shard."""
        self._due(key)


def _portions_of(states: IdTable, names: Sequence[str]) -> Iterator[list[str]]:
    """Cut names so that the records of each list have few partitions, or are one record."""
    some: list[str] = []
    places = 0
    for name in names:
        one = states.values.get(name)
        more = 0 if one is None else len(one.partitions)
        if some and places + more > PLACES_TOGETHER:
            yield some
            some, places = [], 0
        some.append(name)
        places += more
    yield some
