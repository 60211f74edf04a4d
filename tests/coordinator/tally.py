"""A small kind of coordinator: named counts, and whoever waits for one to change."""

from collections.abc import Callable, Generator, Iterator

from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.portions import TO_TELL, Steps
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.runtime import CoordinatorConfig, CoordinatorRuntime, Foundation
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.unwritten import Unwritten

KEY = b"count/"
TOGETHER = 2
"""Records of one batch of a rewrite, and counts that are made in one step."""


class Counts(ConfirmedMap[str, int]):
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


class TallyLoader:
    def __init__(self, unread: UnreadRecords) -> None:
        self._unread = unread
        self._found: dict[str, int | None] = {}
        self.counts = Counts()

    def load(self, record: UnreadRecord) -> None:
        if record.key is None or not record.key.startswith(KEY):
            self._unread.put(record)
            return
        name = record.key.removeprefix(KEY).decode()
        self._found[name] = None if record.value is None else int(record.value)

    def leave_in_log(self, reason: str) -> None:
        self._unread.leave_in_log(reason)

    def make(self) -> Generator[int, None, Counts]:
        for number, (name, value) in enumerate(self._found.items()):
            if value is not None:
                self.counts.restore({name: value})
            if number % TOGETHER == 0:
                yield 1
        return self.counts

    def discard(self) -> Steps:
        self.counts.values.clear()
        yield 1


class Tally:
    """The shard, and what its clients ask."""

    def __init__(self, journal: Journal, later: Later | None = None, **bounds: int) -> None:
        defaults = {
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
        names = [*counts.latest()]
        for at in range(0, len(names), TOGETHER):
            latest = counts.latest_of(names[at : at + TOGETHER])
            yield [record_of(name, value) for name, value in latest.items()]

    def on_due(self, key: str) -> None:
        self.due.append(key)


def record_of(name: str, value: int | None) -> JournalRecord:
    return KEY + name.encode(), None if value is None else b"%d" % value
