"""A first batch whose transaction is coordinated by its own broker: no task, no further turn."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.base.ids import TopicId
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.batch import TRANSACTIONAL
from penstock.transactions.messages import Producer
from tests.broker.cluster import Asked, Node, produce_fields, produced
from tests.kafka.transaction_cluster import COORDINATOR_SET, NAME, TransactionCluster, run

TOPIC = "beside"
"""Led by the coordinator's broker."""


class Beside:
    """A partition of the coordinator's broker, and a producer whose transaction has it or not."""

    def __init__(self, cluster: TransactionCluster, producer: Producer) -> None:
        self.cluster, self.producer = cluster, producer
        cluster._create_in(TOPIC, COORDINATOR_SET)
        cluster.copy_all()

    @property
    def node(self) -> Node:
        return self.cluster.leading(COORDINATOR_SET)

    @property
    def hosted(self) -> Any:
        return self.node.broker.partitions.find(TOPIC, 0)

    async def add(self) -> None:
        ask = self.cluster.coordinator.add_partitions
        places = [(TOPIC, 0)]
        reply = await self.cluster._told(lambda told: ask(NAME, self.producer, places, 1, told))
        assert reply.error is Code.NONE

    def send(self, *, epoch: int | None = None, version: int = 11) -> Asked:
        fields = {
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.epoch if epoch is None else epoch,
            "base_sequence": 0,
            "attributes": TRANSACTIONAL,
        }
        wanted = produce_fields(TOPIC, (b"v",), -1, fields) | {"transactional_id": NAME}
        return self.node.send(ApiKey.PRODUCE, version, wanted)

    @property
    def end(self) -> int:
        return int(self.hosted.log.log_end_offset)


async def code_of(beside: Beside, asked: Asked) -> Code:
    await beside.cluster.settle()
    return Code(produced(asked).error_code)


def test_it_is_appended_in_the_turn_in_which_it_comes() -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        await beside.add()
        asked = beside.send()
        assert beside.end == 1
        assert not cluster.tasks
        assert not beside.hosted.guards
        assert await code_of(beside, asked) is Code.NONE

    run(story)


def test_it_is_refused_in_that_turn_where_the_transaction_has_not_its_partition() -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        assert await code_of(beside, beside.send()) is Code.TRANSACTION_ABORTABLE
        assert beside.end == 0
        assert not beside.hosted.guards

    run(story)


def test_another_partition_of_the_transaction_does_not_let_it_in() -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        assert await cluster.add(beside.producer) is Code.NONE
        assert await code_of(beside, beside.send()) is Code.TRANSACTION_ABORTABLE
        assert beside.end == 0

    run(story)


def test_it_is_not_let_in_while_other_partitions_have_to_hear_of_the_end() -> None:
    """The decision is confirmed, and its partition has the marker."""

    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        await beside.add()
        assert await cluster.add(beside.producer) is Code.NONE
        cluster.holds = True
        assert await cluster.end(beside.producer) is Code.NONE
        assert cluster.state().is_prepared
        before = beside.end
        asked = beside.send()
        await cluster.settle()
        assert produced(asked) is None
        assert beside.end == before

    run(story)


def test_a_late_batch_behind_the_marker_is_refused() -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        await beside.add()
        assert await cluster.end(beside.producer) is Code.NONE
        before = beside.end
        assert await code_of(beside, beside.send()) is Code.TRANSACTION_ABORTABLE
        assert beside.end == before

    run(story)


def test_it_waits_while_the_decision_is_on_its_way() -> None:
    """Its partition has the marker already, and the confirmed state has the partition still."""

    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        await beside.add()
        told: list[Any] = []
        cluster.coordinator.end(NAME, beside.producer, 1, told.append, is_commit=True)
        before = beside.end
        asked = beside.send()
        assert beside.end == before
        await cluster.settle()
        assert produced(asked) is None
        assert beside.end == before

    run(story)


def test_nothing_is_let_in_from_memory_once_another_may_coordinate() -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        await beside.add()
        beside.hosted.member.may_read = lambda: False
        assert await code_of(beside, beside.send()) is Code.NOT_ENOUGH_REPLICAS
        assert beside.end == 0

    run(story)


def test_an_instance_that_was_replaced_is_refused_at_once() -> None:
    async def story(cluster: TransactionCluster) -> None:
        first = await cluster.init()
        beside = Beside(cluster, await cluster.init())
        await beside.add()
        assert beside.producer.epoch > first.epoch
        assert await code_of(beside, beside.send(epoch=first.epoch)) is Code.INVALID_PRODUCER_EPOCH
        assert beside.end == 0

    run(story)


def test_a_topic_that_the_metadata_has_under_another_id_is_not_in_the_transaction() -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        await beside.add()
        topics = cluster.lagging(beside.node).topics_by_name
        other = TopicId(bytes(reversed(topics[TOPIC].topic_id)))
        topics[TOPIC] = replace(topics[TOPIC], topic_id=other)
        assert await code_of(beside, beside.send()) is Code.NOT_ENOUGH_REPLICAS
        assert beside.end == 0

    run(story)


def test_one_that_adds_its_partition_has_that_written_first() -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        asked = beside.send(version=12)
        assert beside.end == 0
        assert await code_of(beside, asked) is Code.NONE
        assert cluster.state().partitions == {(TOPIC, 0)}

    run(story)


def test_no_guard_stays_where_an_append_ends_in_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: TransactionCluster) -> None:
        beside = Beside(cluster, await cluster.init())
        await beside.add()

        def fails(*_: Any, **__: Any) -> None:
            raise RuntimeError

        monkeypatch.setattr("penstock.kafka.handlers.records.produce._append_all", fails)
        beside.send()  # its connection is closed
        assert not beside.hosted.guards

    run(story)
