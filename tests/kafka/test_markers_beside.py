"""Markers of partitions whose log is that of the decision stand behind it, in the same turn."""

from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.messages import Producer, ProducerReply
from penstock.transactions.state import TransactionState
from tests.kafka.transaction_cluster import (
    COORDINATOR_SET,
    EVENTS,
    NAME,
    TransactionCluster,
    run,
)

BESIDE = "beside"


async def written_to_both(cluster: TransactionCluster) -> Producer:
    """Write to a partition in the coordinator's log, and to one in another."""
    cluster._create_in(BESIDE, COORDINATOR_SET)
    cluster.copy_all()
    producer = await cluster.init()
    add = cluster.coordinator.add_partitions
    places = [(BESIDE, 0), (EVENTS, 0)]
    reply = await cluster._told(lambda told: add(NAME, producer, places, 1, told))
    assert reply.error is Code.NONE
    return producer


def coordinator_epochs(cluster: TransactionCluster, producer: Producer) -> tuple[int, int]:
    """Return those of the last markers of the producer in both partitions; -1 without one."""
    found = []
    for topic, node in ((BESIDE, cluster.leading(COORDINATOR_SET)), (EVENTS, cluster.master)):
        hosted = node.broker.partitions.find(topic, 0)
        assert hosted is not None
        known = hosted.log.producers.known(producer.producer_id)
        found.append(-1 if known is None else known.coordinator_epoch)
    return found[0], found[1]


def test_only_partitions_in_the_log_of_the_decision_have_their_marker_at_once() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await written_to_both(cluster)
        cluster.holds = True
        told: list[ProducerReply] = []
        cluster.coordinator.end(NAME, producer, 1, told.append, is_commit=True)
        epoch = cluster.leader_epoch(COORDINATOR_SET)
        assert coordinator_epochs(cluster, producer) == (epoch, -1)
        assert not told
        await cluster.settle()
        assert [reply.error for reply in told] == [Code.NONE]
        assert cluster.state().state is TransactionState.PREPARE_COMMIT
        (question,) = cluster.held
        (entry,) = question.asked.entries
        assert len(entry.partitions) == 1
        await cluster.answer(question)
        assert coordinator_epochs(cluster, producer) == (epoch, epoch)
        assert cluster.state().state is TransactionState.COMPLETE_COMMIT

    run(story)


def test_one_that_refuses_its_marker_is_asked_once_the_decision_is_confirmed() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await written_to_both(cluster)
        by_name = cluster.leading(COORDINATOR_SET).broker.partitions.by_name
        topic = by_name.pop(BESIDE.encode())
        cluster.coordinator.end(NAME, producer, 1, lambda _: None, is_commit=True)
        by_name[BESIDE.encode()] = topic
        assert coordinator_epochs(cluster, producer) == (-1, -1)
        await cluster.settle()
        assert -1 not in coordinator_epochs(cluster, producer)
        assert cluster.state().state is TransactionState.COMPLETE_COMMIT

    run(story)
