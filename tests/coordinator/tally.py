"""A small kind of coordinator: named counts, and whoever waits for one to change."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

from penstock.base.ids import ProducerId
from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.pending import Pending, Writer
from penstock.coordinator.pending_map import PendingMap
from penstock.coordinator.portions import TO_TELL, Steps
from penstock.coordinator.records import JournalRecord, UnreadRecord, as_copy
from penstock.coordinator.runtime import CoordinatorConfig, CoordinatorRuntime, Foundation
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.unwritten import Unwritten
from penstock.coordinator.writes import Change, NoChange

KEY = b"count/"
TOGETHER = 2
"""Records of one batch of a rewrite, and counts that are made in one step."""


class Counts(PendingMap[str, int]):
    """The counts of one partition, and who waits: not in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, list[Callable[[int | None], None]]] = {}


class Put:
    """One count that changes; None removes it."""

    def __init__(self, counts: Counts, name: str, value: int | None) -> None:
        self.records: list[JournalRecord] = [record_of(name, value)]
        self._counts, self._changes = counts, {name: value}

    def begin(self) -> None:
        self._ticket = self._counts.begin(self._changes)

    def confirm(self) -> None:
        self._counts.confirm(self._ticket)

    def refuse(self) -> None:
        self._counts.refuse(self._ticket)


class PutPending(Put):
    """One count that a transaction puts."""

    def __init__(self, counts: Counts, name: str, value: int, producer_id: int) -> None:
        super().__init__(counts, name, value)
        self._producer_id = producer_id

    def begin(self) -> None:
        self._ticket = self._counts.begin_pending(ProducerId(self._producer_id), self._changes)


class End(Put):
    """A marker."""

    def __init__(self, counts: Counts, producer_id: int, *, is_commit: bool) -> None:
        self.records = []
        self._counts, self._end = counts, (producer_id, is_commit)

    def begin(self) -> None:
        producer_id, is_commit = self._end
        self._ticket = self._counts.begin_ending(ProducerId(producer_id), is_commit=is_commit)


class TallyLoader:
    def __init__(self, unread: UnreadRecords) -> None:
        self._unread = unread
        self._found: dict[str, int | None] = {}
        self._pending: Pending[str, int] = Pending()
        self._order = 0
        self.counts = Counts()

    def load(self, record: UnreadRecord) -> None:
        if record.key is None or not record.key.startswith(KEY):
            self._unread.put(record)
            return
        self._order += 1
        self._pending.drop(record.key.removeprefix(KEY).decode(), self._order)
        self.load_copy(record)

    def load_copy(self, record: UnreadRecord) -> None:
        assert record.key is not None
        name = record.key.removeprefix(KEY).decode()
        self._found[name] = None if record.value is None else int(record.value)

    def load_pending(self, writer: Writer, record: UnreadRecord) -> None:
        assert record.key is not None
        assert record.value is not None
        self._order += 1
        name = record.key.removeprefix(KEY).decode()
        self._pending.put(writer.producer_id, name, self._order, int(record.value))

    def load_end(self, writer: Writer, *, is_commit: bool) -> None:
        for name, order, value in self._pending.take(writer.producer_id):
            if is_commit:
                self._found[name] = value
                self._pending.drop(name, order)

    def leave_in_log(self, reason: str) -> None:
        self._unread.leave_in_log(reason)

    def make(self) -> Generator[int, None, Counts]:
        for number, (name, value) in enumerate(self._found.items()):
            if value is not None:
                self.counts.restore({name: value})
            if number % TOGETHER == 0:
                yield 1
        for _, producer_id, name, value in sorted(
            (order, producer_id, name, value) for name, producer_id, order, value in self._pending
        ):
            self.counts.restore({name: value}, producer_id)
        return self.counts

    def discard(self) -> Steps:
        self.counts.values.clear()
        yield 1


class Tally:
    """The shard, and what its clients ask."""

    def __init__(self, journal: Journal, later: Later | None = None, **bounds: int) -> None:
        defaults: dict[str, Any] = {
            "partition_count": 2,
            "writes_in_flight_max": 100,
            "rewrite_after_bytes": 100,
            "rewrite_after_pinned_bytes": 100,
            "unread_bytes_max": 10_000,
        }
        config = CoordinatorConfig(kind="tally", **{**defaults, **bounds})
        self._base: Foundation[str] = Foundation(config, journal, later)
        self.runtime = CoordinatorRuntime(self._base, self)
        self.counts: dict[int, Counts] = {}
        self.told: list[Unwritten | None] = []
        self.due: list[str] = []

    def put(self, partition: int, name: str, value: int | None) -> None:
        """Change a count; `told` gets the outcome. Refused where the partition is not here."""
        counts = self.counts.get(partition)
        if counts is None or self._base.writes.is_full:
            self.told.append(Unwritten.NOT_HERE)
            return
        self._base.writes.append(partition, Put(counts, name, value), self.told.append)

    def put_pending(self, partition: int, name: str, value: int, writer: Writer) -> None:
        """Put a count in a transaction, which is open in the partition, or begins."""
        counts = self.counts.get(partition)
        if counts is not None:
            change = PutPending(counts, name, value, writer.producer_id)
            self._base.writes.append(partition, change, self.told.append, writer)

    def wait(self, partition: int, name: str, reply: Callable[[int | None], None]) -> None:
        """Answer when the partition goes away: with None."""
        self.counts[partition].waiting.setdefault(name, []).append(reply)
        self._base.deadlines.set(name, 1_000)

    # As a shard

    def new_loader(self, partition: int, unread: UnreadRecords) -> TallyLoader:
        return TallyLoader(unread)

    def show(self, partition: int, state: Counts) -> None:
        self.counts[partition] = state

    def begin(self, partition: int, state: Counts) -> Steps:
        yield 1

    def hide(self, partition: int) -> Counts | None:
        return self.counts.pop(partition, None)

    def let_go(self, state: Counts) -> Steps:
        for name, replies in state.waiting.items():
            self._base.deadlines.cancel(name)
            for reply in replies:
                reply(None)
                yield TO_TELL

    def live_records(self, partition: int) -> Iterator[list[JournalRecord]]:
        counts = self.counts[partition]
        names = [*counts.keys()]
        for at in range(0, len(names), TOGETHER):
            latest = counts.latest_of(names[at : at + TOGETHER])
            pending = counts.latest_pending_of(latest)
            records = ((name, record_of(name, value)) for name, value in latest.items())
            yield [as_copy(record) if name in pending else record for name, record in records]

    def ending(self, partition: int, writer: Writer, *, is_commit: bool) -> Change:
        counts = self.counts.get(partition)
        if counts is None:
            return NoChange()
        return End(counts, writer.producer_id, is_commit=is_commit)

    def on_due(self, key: str) -> None:
        self.due.append(key)


def record_of(name: str, value: int | None) -> JournalRecord:
    return KEY + name.encode(), None if value is None else b"%d" % value
