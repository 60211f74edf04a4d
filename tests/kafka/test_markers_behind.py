"""Markers come behind the answer where their log waits for nothing but its own write (ADR 0183)."""

from typing import Any

import pytest

from harness.log_world import SMALL, async_config
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.storage.config import LogConfig
from penstock.transactions.messages import Producer, ProducerReply
from penstock.transactions.state import TransactionState
from tests.kafka.transaction_cluster import COORDINATOR_SET, NAME, TransactionCluster, run

TOPIC = "behind"
WRITTEN = async_config()


async def opened(cluster: TransactionCluster) -> tuple[Producer, Any]:
    """Return a producer in a transaction, and its partition in the coordinator's log."""
    cluster._create_in(TOPIC, COORDINATOR_SET)
    cluster.copy_all()
    producer = await cluster.init()
    add = cluster.coordinator.add_partitions
    reply = await cluster._told(lambda told: add(NAME, producer, [(TOPIC, 0)], 1, told))
    assert reply.error is Code.NONE
    return producer, cluster.leading(COORDINATOR_SET).broker.partitions.find(TOPIC, 0)


@pytest.mark.parametrize(
    ("brokers", "config", "behind"),
    [(1, WRITTEN, True), (1, SMALL, False), (3, WRITTEN, False), (3, SMALL, False)],
    ids=["written", "synced", "copied", "copied-and-synced"],
)
def test_the_answer_waits_for_the_markers_where_more_than_a_write_is_waited_for(
    brokers: int, config: LogConfig, behind: bool
) -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer, hosted = await opened(cluster)
        before = hosted.log.log_end_offset
        at_the_answer: list[tuple[Code, int]] = []

        def told(reply: ProducerReply) -> None:
            at_the_answer.append((reply.error, hosted.log.log_end_offset - before))

        cluster.coordinator.end(NAME, producer, 1, told, is_commit=True)
        await cluster.settle()
        assert at_the_answer == [(Code.NONE, 0 if behind else 1)]
        assert hosted.log.log_end_offset == before + 1
        assert cluster.state().state is TransactionState.COMPLETE_COMMIT

    run(story, brokers, config)


def test_the_markers_ask_no_broker() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer, _ = await opened(cluster)
        cluster.holds = True
        cluster.coordinator.end(NAME, producer, 1, lambda _: None, is_commit=True)
        await cluster.settle()
        assert not cluster.held
        assert cluster.state().state is TransactionState.COMPLETE_COMMIT

    run(story, 1, WRITTEN)


def test_a_partition_that_refuses_its_marker_is_asked_the_usual_way() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer, hosted = await opened(cluster)
        before = hosted.log.log_end_offset
        by_name = cluster.leading(COORDINATOR_SET).broker.partitions.by_name
        topic = by_name.pop(TOPIC.encode())
        cluster.holds = True
        cluster.coordinator.end(NAME, producer, 1, lambda _: None, is_commit=True)
        await cluster.settle()
        assert cluster.state().state is TransactionState.PREPARE_COMMIT
        by_name[TOPIC.encode()] = topic
        (question,) = cluster.held
        await cluster.answer(question)
        assert hosted.log.log_end_offset == before + 1
        assert cluster.state().state is TransactionState.COMPLETE_COMMIT

    run(story, 1, WRITTEN)
