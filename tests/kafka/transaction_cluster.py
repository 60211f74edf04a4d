"""A cluster whose brokers coordinate transactions and ask each other, with the calls in hand.

Everything is real but links, disks and time: coordinators with their internal topic, verification,
markers. The coordinators are led in one set of brokers, the partition of "events" in another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.base.ids import BrokerId, CoordinatorEpoch, LeaderEpoch, ReplicaSetId
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.metadata.image import ClusterImage
from penstock.coordinator.calls.asking import LinkLost
from penstock.coordinator.calls.transactions import MarkersRequest, MarkersResponse
from penstock.kafka.transactions.marking import MarkerSender
from penstock.node.coordinators.transactions import start_transactions
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.batch import TRANSACTIONAL
from penstock.storage.config import LogConfig
from penstock.transactions.config import TransactionConfig
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.messages import MarkerDuty, Producer, ProducerReply
from penstock.transactions.partitioning import INTERNAL_TOPIC
from penstock.transactions.state import Transaction
from tests.broker.cluster import SMALL, Asked, Cluster, Node, produce_fields, produced

EVENTS = "events"
NAME = "x"
COORDINATOR_SET, DATA_SET = 0, 1
TIMEOUT_MS = 60_000
TURNS = 6
Handler = Callable[[Any], Awaitable[Any]]


class Question(NamedTuple):
    """Markers that a broker was asked for and that it has not looked at."""

    broker_id: int
    asked: MarkersRequest
    answer: "asyncio.Future[Any]"


class Calls:
    """The calls of one broker: those for markers wait in `held` if the cluster says so."""

    def __init__(self, cluster: "TransactionCluster") -> None:
        self.server = self
        self.handlers: dict[type[Any], Handler] = {}
        self._cluster = cluster

    def serve(self, kind: type[Any], handler: Handler) -> None:
        self.handlers[kind] = handler

    async def ask(self, broker_id: int, question: Any, *, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        if self._cluster.holds and isinstance(question, MarkersRequest):
            answer = asyncio.get_running_loop().create_future()
            self._cluster.held.append(Question(broker_id, question, answer))
            return await answer
        return await self._cluster.calls[broker_id].handlers[type(question)](question)


class TransactionCluster(Cluster):
    """Three brokers, or fewer. To be used within a running event loop."""

    def __init__(self, broker_count: int = 3, log_config: LogConfig = SMALL) -> None:
        super().__init__(broker_count, set_count=2, log_config=log_config)
        self.held: list[Question] = []
        self.holds = False
        self.calls = [Calls(self) for _ in self.nodes]
        self.tasks: set[asyncio.Task[None]] = set()
        for node, calls in zip(self.nodes, self.calls, strict=True):
            start_transactions(
                node.broker,
                self.world,
                TransactionConfig(partition_count=1),
                calls=calls,  # type: ignore[arg-type]
                supervisor=self,  # type: ignore[arg-type]
                on_unreadable=_unreadable,
            )
            node.front.spawn = node._dispatcher._spawn = self._spawn
            node.front.begin = node._dispatcher._begin = self._spawn
        self._create_in(INTERNAL_TOPIC, COORDINATOR_SET, is_internal=True)
        self._create_in(EVENTS, DATA_SET)
        self.copy_all()

    def _create_in(self, name: str, set_id: int, *, is_internal: bool = False) -> None:
        topic = NewTopic(name=name, partition_count=1)
        self.metadata.submit(CreateTopics(topics=(topic,), internal=is_internal))
        (placed,) = self.metadata.image.topics_by_name[name].partitions
        assert placed.replica_set_id == set_id

    def copy_all(self) -> None:
        for set_id in (COORDINATOR_SET, DATA_SET):
            self.replicate(set_id=set_id)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.run_once(name, work)

    def run_once(self, name: str, work: Coroutine[Any, Any, None]) -> object:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def settle(self) -> None:
        """Let everything happen that waits for nothing but replicas."""
        for _ in range(TURNS):
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self.copy_all()

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()

    def lagging(self, node: Node) -> ClusterImage:
        """Let a broker hear of no changes of topics and masterships from now on."""
        image = copy(node.broker.metadata)
        for table in ("topics_by_name", "topics_by_id", "replica_sets"):
            setattr(image, table, copy(getattr(image, table)))
        node.broker.metadata = image
        return image

    def unnamed(self, node: Node) -> None:
        """Let a coordinator's broker hear of its successor, and not act on that yet."""
        image = self.lagging(node)
        before = image.replica_sets[ReplicaSetId(COORDINATOR_SET)]
        epoch = LeaderEpoch(before.leader_epoch + 1)
        after = replace(before, master=BrokerId(1), leader_epoch=epoch)
        image.replica_sets[ReplicaSetId(COORDINATOR_SET)] = after

    def state(self) -> Transaction:
        """Return what is confirmed of the transactional id."""
        one = self.coordinator.describe(NAME).transaction
        assert one is not None
        return one

    def duty_of(self, producer: Producer) -> MarkerDuty:
        """Return what partitions are to be told of a transaction that is committed now."""
        one = self.state()
        return MarkerDuty(
            transactional_id=NAME,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=CoordinatorEpoch(self.leader_epoch(COORDINATOR_SET)),
            is_commit=True,
            version=1,
            number=one.number,
            partitions=one.partitions,
        )

    def leading(self, set_id: int) -> Node:
        return self.nodes[self.metadata.image.replica_sets[ReplicaSetId(set_id)].master]

    def leader_epoch(self, set_id: int) -> int:
        return self.metadata.image.replica_sets[ReplicaSetId(set_id)].leader_epoch

    # The coordinator's clients

    @property
    def coordinator(self) -> TransactionCoordinator:
        """That of the broker that leads the internal topic."""
        return self.leading(COORDINATOR_SET).broker.transactions

    async def _told(self, ask: Callable[[Callable[[ProducerReply], None]], None]) -> ProducerReply:
        told: list[ProducerReply] = []
        ask(told.append)
        await self.settle()
        (reply,) = told
        return reply

    async def init(self) -> Producer:
        ask = self.coordinator.init_producer_id
        reply = await self._told(lambda told: ask(NAME, TIMEOUT_MS, None, told))
        assert reply.error is Code.NONE
        return reply.producer

    async def add(self, producer: Producer) -> Code:
        ask = self.coordinator.add_partitions
        places = [(EVENTS, 0)]
        return (await self._told(lambda told: ask(NAME, producer, places, 1, told))).error

    async def end(self, producer: Producer, *, commits: bool = True) -> Code:
        ask = self.coordinator.end
        return (
            await self._told(lambda told: ask(NAME, producer, 1, told, is_commit=commits))
        ).error

    # Partitions

    @property
    def master(self) -> Node:
        """The broker that leads "events"."""
        return self.leading(DATA_SET)

    def hosted(self, node: Node) -> Any:
        return node.broker.partitions.find(EVENTS, 0)

    async def produce(
        self, producer: Producer, sequence: int, *, version: int = 11, value: bytes = b"v"
    ) -> Code | None:
        asked = self.send(producer, sequence, version=version, value=value)
        await self.settle()
        found = produced(asked)
        return None if found is None else Code(found.error_code)

    def send(
        self, producer: Producer, sequence: int, *, version: int = 11, value: bytes = b"v"
    ) -> Asked:
        fields = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "base_sequence": sequence,
            "attributes": TRANSACTIONAL,
        }
        wanted = produce_fields(EVENTS, (value,), -1, fields) | {"transactional_id": NAME}
        return self.master.send(ApiKey.PRODUCE, version, wanted)

    def is_open(self, producer: Producer) -> bool:
        log = self.hosted(self.master).log
        return bool(log.producers.states.transactions.is_open(log.serial, producer.producer_id))

    # Markers

    async def answer(self, question: Question) -> None:
        """Let a broker do what it was asked for, and tell."""
        self.tell(question, await self.deliver(question))
        await self.settle()

    async def deliver(self, question: Question) -> MarkersResponse:
        """Let a broker do what it was asked for; nobody is told."""
        handler = self.calls[question.broker_id].handlers[MarkersRequest]
        work = asyncio.ensure_future(handler(question.asked))
        await self.settle()
        found = work.result()
        assert isinstance(found, MarkersResponse)
        return found

    def lose(self, question: Question) -> None:
        """Let the asking broker hear that the outcome is not known."""
        if not question.answer.done():
            question.answer.set_exception(LinkLost("the link is lost"))

    def tell(self, question: Question, answer: MarkersResponse) -> None:
        if not question.answer.done():
            question.answer.set_result(answer)

    async def ask_again(self) -> None:
        """Let the coordinator's broker ask for what it has no answer to, before its time."""
        sender = self.coordinator._duties._markers
        assert isinstance(sender, MarkerSender)
        work = asyncio.ensure_future(sender._ask_for([*sender._left]))
        await self.settle()
        work.result()


def _unreadable(*_: Any) -> None:
    raise AssertionError("a partition of the internal topic can not be read")


def run(
    story: Callable[[TransactionCluster], Coroutine[Any, Any, None]],
    broker_count: int = 3,
    log_config: LogConfig = SMALL,
) -> None:
    """Tell a story in a new cluster."""

    async def told() -> None:
        cluster = TransactionCluster(broker_count, log_config)
        await cluster.settle()
        try:
            await story(cluster)
        finally:
            cluster.stop()

    asyncio.run(told())
