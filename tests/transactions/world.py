"""A coordinator of transactions with a journal, markers, ids and a clock in the test's hand."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from penstock.base.ids import CoordinatorEpoch, ProducerId
from penstock.coordinator.outbox import Later
from penstock.coordinator.records import JournalRecord
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.config import TransactionConfig
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.messages import MarkerDuty, Producer, ProducerReply, ToldId
from penstock.transactions.state import TopicPartitionName, Transaction
from tests.coordinator.held_journal import HeldJournal
from tests.groups.world import HandClock

ONE: TopicPartitionName = ("t", 0)
OTHER: TopicPartitionName = ("t", 1)


class HandMarkers:
    """Keeps the duties that nobody has done yet."""

    def __init__(self) -> None:
        self.duties: list[MarkerDuty] = []
        self.cancelled: list[int] = []
        self.beside: set[TopicPartitionName] = set()
        """Partitions that are in the log of the internal partition."""
        self.written_beside: list[MarkerDuty] = []
        self.is_behind = False
        """Whether markers wait until the producer has its answer."""

    def write_beside(self, partition: int, duty: MarkerDuty) -> frozenset[TopicPartitionName]:
        assert partition == 0
        told = duty.partitions & self.beside
        if told:
            self.written_beside.append(duty._replace(partitions=told))
        return told

    def come_behind(self, partition: int) -> bool:
        assert partition == 0
        return self.is_behind

    def send(self, partition: int, duty: MarkerDuty) -> None:
        assert partition == 0
        self.duties.append(duty)

    def cancel(self, partition: int) -> None:
        self.cancelled.append(partition)
        self.duties.clear()


class HandIds:
    """Ids from 1000 on, or none."""

    def __init__(self) -> None:
        self.count = count(1000)
        self.has_some = True
        self.waiting: list[ToldId] | None = None

    def next_id(self, told: ToldId) -> None:
        if self.waiting is not None:
            self.waiting.append(told)
        else:
            told(ProducerId(next(self.count)) if self.has_some else None)


class World:
    """One coordinator of partition 0, which is confirmed at once unless `is_prompt` is False."""

    def __init__(
        self,
        journal: HeldJournal | None = None,
        later: Later | None = None,
        ids: HandIds | None = None,
        **settings: Any,
    ) -> None:
        self.clock = HandClock()
        self.journal = journal or HeldJournal()
        self.markers, self.ids = HandMarkers(), ids or HandIds()
        self.is_prompt = True
        self.epoch = 7
        self.has_lease = True
        self.coordinator = TransactionCoordinator(
            self.clock,
            self.journal,
            config=TransactionConfig(partition_count=1, **settings),
            ids=self.ids,
            markers=self.markers,
            masterships=self,
            later=later,
        )

    def epoch_of(self, partition: int) -> CoordinatorEpoch:
        assert partition == 0
        return CoordinatorEpoch(self.epoch)

    def is_certain(self, partition: int) -> bool:
        assert partition == 0
        return self.has_lease

    def load(self, records: Iterable[JournalRecord] = ()) -> "World":
        runtime = self.coordinator.runtime
        runtime.begin_loading(0)
        for record in records:
            runtime.load(0, record)
        runtime.finish_loading(0)
        return self

    def elsewhere(self, epoch: int) -> "World":
        """Return the coordinator that takes over what is confirmed."""
        other = World(self.journal, ids=self.ids)
        other.clock.now_ms = self.clock.now_ms
        other.epoch = epoch
        return other.load(self.journal.records())

    def settle(self) -> None:
        if self.is_prompt:
            while self.journal.under_way:
                self.journal.confirm()

    def ask(self, begin: Any) -> ProducerReply:
        told: list[ProducerReply] = []
        begin(told.append)
        self.settle()
        (reply,) = told
        return reply

    def init(
        self, name: str = "x", known: Producer | None = None, timeout_ms: int = 60_000
    ) -> ProducerReply:
        ask = self.coordinator.init_producer_id
        return self.ask(lambda told: ask(name, timeout_ms, known, told))

    def add(
        self, producer: Producer, *partitions: TopicPartitionName, name: str = "x", version: int = 1
    ) -> ErrorCode:
        ask = self.coordinator.add_partitions
        return self.ask(lambda told: ask(name, producer, partitions or [ONE], version, told)).error

    def add_code(self, producer: Producer) -> ErrorCode:
        """Return what is told at once."""
        told: list[ErrorCode] = []
        self.coordinator.add_partitions("x", producer, [OTHER], 1, lambda one: told.append(one[0]))
        (code,) = told
        return code

    def end(
        self, producer: Producer, *, commits: bool, version: int = 1, name: str = "x"
    ) -> ProducerReply:
        ask = self.coordinator.end
        return self.ask(lambda told: ask(name, producer, version, told, is_commit=commits))

    def mark(self) -> list[MarkerDuty]:
        """Have all partitions told; returns what they were told."""
        duties, self.markers.duties = self.markers.duties, []
        for duty in duties:
            self.coordinator.markers_written(duty, duty.partitions)
        self.settle()
        return duties

    def begun(self, name: str = "x") -> Producer:
        """Return a producer that may begin a transaction."""
        reply = self.init(name)
        assert reply.error is ErrorCode.NONE
        return reply.producer

    def state(self, name: str = "x") -> Transaction:
        found = self.coordinator.describe(name).transaction
        assert found is not None
        return found

    def later(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds
        self.coordinator.runtime.tick(self.clock.now_ms)
        self.settle()
