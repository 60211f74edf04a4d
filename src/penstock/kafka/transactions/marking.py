"""Has markers written to all partitions of transactions, for as long as it takes.

    decided ─► partitions in the log of the decision: appended behind it, in the same turn,
               or once the producer has its answer where nothing but a write is waited for
    duty ─► partitions by their masters ─► asked together ─► written, or deleted: told
                     ▲                          └─► another master, too few replicas, no answer
                     └───────────── pause ◄──────────────────────┘

A marker that may have been written is asked for again: writing it twice does no harm, since nothing
is open in the partition after the first, and the number tells the next transaction from this one
(docs/adr/0091). Transactions that end at once share one question for each
broker.

Source: Kafka `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch
from penstock.broker.append.append import partition_to_mark
from penstock.broker.append.markers import append_marker
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition
from penstock.broker.turns import SLICE, Pace
from penstock.controller.metadata.image import NO_EPOCH, TopicImage
from penstock.coordinator.calls.asking import NO_TOPIC_ID, Caller, CallError
from penstock.coordinator.calls.transactions import MarkedPartition, MarkerEntry, MarkersRequest
from penstock.kafka.gate import find_hosted_topic, find_topic
from penstock.kafka.transactions.asking import coordinating_set
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.storage.index.transactions import TransactionEnd
from penstock.transactions.messages import MarkerDuty
from penstock.transactions.partitioning import INTERNAL_TOPIC
from penstock.transactions.state import TopicPartitionName

log = logging.getLogger(__name__)

ANSWER_MS = 40_000
"""Longer than a broker waits for its replicas."""
PAUSE_MS = 50
PAUSE_MS_MAX = 1_000
ENTRIES_MAX = 200
"""Transactions of one question to a broker."""
PARTITIONS_MAX = 500
"""Partitions of one question: some 2 ms to make and encode it."""
_FINAL = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""A newer transaction of the producer is in the partition: this one has ended there."""


class Spawn(Protocol):
    """Runs a coroutine under supervision."""

    def __call__(self, name: str, work: Coroutine[Any, Any, None], /) -> object: ...


Place: TypeAlias = tuple[MarkerDuty, TopicPartitionName]
"""A partition that has to hear of a duty."""


class _Left(NamedTuple):
    """One duty, and the partitions that have not heard."""

    of_partition: int
    duty: MarkerDuty
    partitions: set[TopicPartitionName]


class MarkerSender:
    """The Markers port of this broker's coordinator of transactions."""

    def __init__(self, broker: Broker, calls: Caller, spawn: Spawn) -> None:
        self._broker = broker
        self._calls = calls
        self._spawn = spawn
        self._left: dict[str, _Left] = {}
        self._asked: set[tuple[str, TopicPartitionName]] = set()
        """Markers that a broker is being asked for."""
        self._fresh: list[str] = []
        """Transactions that nobody was asked about yet."""
        self._news = asyncio.Event()
        self._is_running = False

    @property
    def waiting(self) -> int:
        """Transactions whose partitions have not all heard how they ended."""
        return len(self._left)

    def write_beside(self, partition: int, duty: MarkerDuty) -> frozenset[TopicPartitionName]:
        """As in Markers. A partition that refuses is asked again once the decision is confirmed."""
        own = self._hosted((INTERNAL_TOPIC, partition)).member
        ended = TransactionEnd(
            duty.producer_id, duty.producer_epoch, duty.coordinator_epoch, duty.is_commit
        )
        written: list[TopicPartitionName] = []
        for each in sorted(duty.partitions):
            with contextlib.suppress(PlatformError):
                hosted = self._hosted(each)
                if hosted.member is own:
                    epoch = LeaderEpoch(duty.coordinator_epoch)  # one and the same mastership
                    append_marker(
                        hosted, ended, duty.version, number=duty.number, leader_epoch=epoch
                    )
                    written.append(each)
        return frozenset(written)

    def come_behind(self, partition: int) -> bool:
        """As in Markers."""
        try:
            own = self._hosted((INTERNAL_TOPIC, partition)).member.log
        except PlatformError:
            return False
        return own.is_durable_once_written and own.is_sole_member

    def _hosted(self, place: TopicPartitionName) -> HostedPartition:
        """Raises UnknownPartition, NotMaster."""
        return partition_to_mark(find_hosted_topic(self._broker, place[0]), place[1])

    def send(self, partition: int, duty: MarkerDuty) -> None:
        """As in Markers."""
        self._left[duty.transactional_id] = _Left(partition, duty, set(duty.partitions))
        self._fresh.append(duty.transactional_id)
        self._news.set()
        if not self._is_running:
            self._is_running = True
            self._spawn("markers", self._run())

    def cancel(self, partition: int) -> None:
        """As in Markers."""
        for name in [name for name, one in self._left.items() if one.of_partition == partition]:
            del self._left[name]

    async def _run(self) -> None:
        """Ask for what is new at once, and for the rest again and again, until nothing is left."""
        pause_ms = PAUSE_MS
        try:
            while self._left:
                self._news.clear()
                fresh, self._fresh = self._fresh, []
                await self._ask_for(fresh)
                try:
                    async with asyncio.timeout(pause_ms / 1000):
                        await self._news.wait()
                except TimeoutError:
                    before = len(self._left)
                    await self._ask_for([*self._left])
                    is_going = len(self._left) < before
                    pause_ms = PAUSE_MS if is_going else min(2 * pause_ms, PAUSE_MS_MAX)
                else:
                    pause_ms = PAUSE_MS
        finally:
            self._is_running = False

    async def _ask_for(self, names: list[str]) -> None:
        """Begin questions to the brokers that lead partitions of these transactions, in turns."""
        pace = Pace(self._broker.turns)
        wanted: dict[BrokerId, _Wanted] = {}
        for name in names:
            await pace.step()
            one = self._left.get(name)
            for each in () if one is None else sorted(one.partitions):
                await pace.step()
                self._find(one, each, wanted)
                full = [broker_id for broker_id, some in wanted.items() if some.is_full]
                for broker_id in full:
                    await self._begin(broker_id, wanted.pop(broker_id), pace)
        for broker_id, some in wanted.items():
            await self._begin(broker_id, some, pace)

    async def _begin(self, broker_id: BrokerId, some: "_Wanted", pace: Pace) -> None:
        """Ask one question; the next one begins in a later turn."""
        places = some.places
        self._asked.update((one.transactional_id, each) for one, each in places)
        self._spawn(f"markers-to-{broker_id}", self._ask(broker_id, places))
        await pace.step(SLICE)

    def _find(
        self, one: _Left | None, each: TopicPartitionName, wanted: dict[BrokerId, "_Wanted"]
    ) -> None:
        """Add a partition to what its master is asked for; one that is deleted has heard."""
        if one is None or (one.duty.transactional_id, each) in self._asked:
            return
        if not self._is_named(one.duty):
            return
        topic = find_topic(self._broker, each[0])
        if topic is None or each[1] >= len(topic.partitions):
            self._tell(one.duty, [each])
            return
        placed = topic.partitions[each[1]]
        replica_set = self._broker.metadata.replica_sets.get(placed.replica_set_id)
        if replica_set is not None and replica_set.master is not None:
            wanted.setdefault(replica_set.master, _Wanted()).add(one.duty, each)

    def _is_named(self, duty: MarkerDuty) -> bool:
        """Whether the metadata here still names this broker, in this epoch, as the coordinator.

        Only then is a topic that it lacks a deleted one (places.py), and only then has the next
        coordinator heard of the masterships that are asked here (docs/adr/0091).
        """
        named = coordinating_set(self._broker, duty.transactional_id)
        ours = (self._broker.broker_id, LeaderEpoch(duty.coordinator_epoch))
        return named is not None and (named.master, named.leader_epoch) == ours

    async def _ask(self, broker_id: BrokerId, some: list[Place]) -> None:
        by_duty: dict[MarkerDuty, list[TopicPartitionName]] = {}
        for duty, each in some:
            by_duty.setdefault(duty, []).append(each)
        by_duty = {duty: places for duty, places in by_duty.items() if self._is_named(duty)}
        try:
            if not by_duty:
                return
            question = MarkersRequest(
                entries=tuple(self._entry(duty, places) for duty, places in by_duty.items())
            )
            answer = await self._calls.ask(broker_id, question, timeout_ms=ANSWER_MS)
            for (duty, places), codes in zip(by_duty.items(), answer.codes, strict=True):
                self._heard(duty, places, codes)
        except CallError as error:
            log.info("markers to broker %d: %s", broker_id, error)
        finally:
            self._asked.difference_update((one.transactional_id, each) for one, each in some)

    def _entry(self, duty: MarkerDuty, places: list[TopicPartitionName]) -> MarkerEntry:
        topics = {name: find_topic(self._broker, name) for name, _ in places}
        return MarkerEntry(
            producer_id=duty.producer_id,
            producer_epoch=duty.producer_epoch,
            coordinator_epoch=duty.coordinator_epoch,
            is_commit=duty.is_commit,
            transaction_version=duty.version,
            number=duty.number,
            partitions=tuple(self._marked(topics[name], partition) for name, partition in places),
        )

    def _marked(self, topic: TopicImage | None, partition: int) -> MarkedPartition:
        """Name a partition and the mastership that is asked: a later one does not heed this."""
        if topic is not None and partition < len(topic.partitions):
            set_id = topic.partitions[partition].replica_set_id
            replica_set = self._broker.metadata.replica_sets.get(set_id)
            if replica_set is not None and replica_set.leader_epoch != NO_EPOCH:
                epoch = replica_set.leader_epoch
                return MarkedPartition(bytes(topic.topic_id), partition, epoch)
        return MarkedPartition(NO_TOPIC_ID, partition)  # nobody has it

    def _heard(
        self, duty: MarkerDuty, places: list[TopicPartitionName], codes: Iterable[int]
    ) -> None:
        written: list[TopicPartitionName] = []
        for each, number in zip(places, codes, strict=True):
            code = known_code(number)
            if code is ErrorCode.NONE:
                written.append(each)
            elif code in _FINAL:
                log.warning(
                    "transaction=%s topic=%s partition=%d has a newer producer",
                    duty.transactional_id, *each,
                )  # fmt: skip
                written.append(each)
        self._tell(duty, written)

    def _tell(self, duty: MarkerDuty, written: list[TopicPartitionName]) -> None:
        found = self._left.get(duty.transactional_id)
        if not written or found is None or found.duty is not duty:
            return
        found.partitions.difference_update(written)
        if not found.partitions:
            del self._left[duty.transactional_id]
        self._broker.transactions.markers_written(duty, written)


class _Wanted:
    """Markers for one broker, until they are a question."""

    __slots__ = ("_duties", "places")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._duties: set[str] = set()

    def add(self, duty: MarkerDuty, partition: TopicPartitionName) -> None:
        self.places.append((duty, partition))
        self._duties.add(duty.transactional_id)

    @property
    def is_full(self) -> bool:
        """Whether no further marker goes into the question."""
        return len(self.places) >= PARTITIONS_MAX or len(self._duties) >= ENTRIES_MAX
