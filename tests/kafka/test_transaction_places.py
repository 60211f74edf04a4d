"""Only what the coordinator's metadata has enters a transaction, or counts as being in one."""

import asyncio

import pytest

from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.coordinator.calls.transactions import AskedPartition, VerifyRequest, VerifyResponse
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.messages import Producer
from penstock.transactions.state import TransactionState
from tests.kafka.transaction_cluster import EVENTS, NAME, TransactionCluster, run

ADDING, VERIFYING = 12, 11
ADD_VERSION = 3


def make_anew(cluster: TransactionCluster) -> None:
    """Delete the topic and make it again: it has another id, in the set that had it."""
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name=EVENTS),)))
    cluster.create(EVENTS)
    cluster.world.run()


async def ask(
    cluster: TransactionCluster,
    producer: Producer,
    *places: AskedPartition,
    adds: bool,
    topic_ids: tuple[bytes, ...] = (),
) -> VerifyResponse:
    """Ask the coordinator as another broker does."""
    question = VerifyRequest(
        transactional_id=NAME,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        is_verify_only=not adds,
        partitions=places,
        topic_ids=topic_ids,
    )
    work = asyncio.ensure_future(cluster.calls[0].handlers[VerifyRequest](question))
    await cluster.settle()
    found = work.result()
    assert isinstance(found, VerifyResponse)
    return found


@pytest.mark.parametrize("version", [VERIFYING, ADDING])
def test_a_topic_that_the_coordinator_has_not_heard_of_is_tried_again(version: int) -> None:
    async def story(cluster: TransactionCluster) -> None:
        metadata = cluster.metadata.image
        producer = await cluster.init()
        if version == VERIFYING:
            assert await cluster.add(producer) is Code.NONE
        del cluster.lagging(cluster.nodes[0]).topics_by_name[EVENTS]
        assert await cluster.produce(producer, 0, version=version) is Code.NOT_ENOUGH_REPLICAS
        assert not cluster.is_open(producer)
        cluster.nodes[0].broker.metadata = metadata
        assert await cluster.produce(producer, 0, version=version) is Code.NONE

    run(story)


@pytest.mark.parametrize("version", [VERIFYING, ADDING])
def test_a_topic_that_was_made_anew_is_tried_again_until_the_coordinator_has_heard(
    version: int,
) -> None:
    """It would hear of the deletion first, and take the partition for one that needs no marker."""

    async def story(cluster: TransactionCluster) -> None:
        metadata = cluster.metadata.image
        producer = await cluster.init()
        cluster.lagging(cluster.nodes[0])
        make_anew(cluster)
        await cluster.settle()
        if version == VERIFYING:
            assert await cluster.add(producer) is Code.NONE
        assert await cluster.produce(producer, 0, version=version) is Code.NOT_ENOUGH_REPLICAS
        assert not cluster.is_open(producer)
        cluster.nodes[0].broker.metadata = metadata
        assert await cluster.produce(producer, 0, version=version) is Code.NONE

    run(story)


def test_what_is_known_is_added_beside_what_is_not() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        unknown = (
            AskedPartition("other", 0),
            AskedPartition(EVENTS, 1),
            AskedPartition(EVENTS, -1),
        )
        answer = await ask(cluster, producer, *unknown, adds=True)
        assert set(answer.codes) == {Code.UNKNOWN_TOPIC_OR_PARTITION}
        assert cluster.state().state is TransactionState.EMPTY
        answer = await ask(cluster, producer, *unknown, AskedPartition(EVENTS, 0), adds=True)
        assert answer.codes == (*[Code.UNKNOWN_TOPIC_OR_PARTITION] * 3, Code.NONE)
        assert cluster.state().partitions == {(EVENTS, 0)}

    run(story)


@pytest.mark.parametrize("adds", [True, False])
def test_ids_stand_in_the_order_of_the_topics(adds: bool) -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        assert await cluster.add(producer) is Code.NONE
        topic_id = cluster.metadata.image.topics_by_name[EVENTS].topic_id
        places = (AskedPartition("other", 0), AskedPartition(EVENTS, 0), AskedPartition("other", 1))
        unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
        for ids, told in (((b"o" * 16, topic_id), Code.NONE), ((topic_id, b"o" * 16), unknown)):
            answer = await ask(cluster, producer, *places, adds=adds, topic_ids=ids)
            assert answer.codes == (unknown, told, unknown)

    run(story)


def test_who_verifies_is_told_the_number_and_who_adds_is_not() -> None:
    """Their epochs tell transactions of version 2 apart."""

    async def story(cluster: TransactionCluster) -> None:
        producer, place = await cluster.init(), AskedPartition(EVENTS, 0)
        added = await ask(cluster, producer, place, adds=True)
        verified = await ask(cluster, producer, place, adds=False)
        assert (added.codes, added.number) == ((Code.NONE,), 0)
        assert (verified.codes, verified.number) == ((Code.NONE,), 1)

    run(story)


def test_a_client_may_not_add_what_the_coordinator_has_not_heard_of() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        topics = [{"name": EVENTS, "partitions": [0, 1]}, {"name": "other", "partitions": [0]}]
        fields = {
            "v3_and_below_transactional_id": NAME,
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.epoch,
            "v3_and_below_topics": topics,
        }
        asked = cluster.nodes[0].send(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, fields)
        await cluster.settle()
        told = [
            each.partition_error_code
            for one in asked.answer.results_by_topic_v3_and_below
            for each in one.results_by_partition
        ]
        unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
        assert told == [Code.OPERATION_NOT_ATTEMPTED, unknown, unknown]
        assert cluster.state().state is TransactionState.EMPTY

    run(story)


def test_a_coordinator_whose_metadata_names_its_successor_admits_nothing() -> None:
    """What it admits, its successor has heard of: so it must not know more than that one."""

    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        assert await cluster.add(producer) is Code.NONE
        cluster.unnamed(cluster.nodes[0])
        place = AskedPartition(EVENTS, 0)
        for adds in (True, False):
            answer = await ask(cluster, producer, place, adds=adds)
            assert answer.codes == (Code.NOT_COORDINATOR,)

    run(story)


def test_a_deleted_topic_has_heard_and_one_that_was_made_anew_is_told() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        for is_made_anew in (True, False):
            assert await cluster.add(producer) is Code.NONE
            assert await cluster.produce(producer, 0) is Code.NONE
            if is_made_anew:
                make_anew(cluster)
            else:
                cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name=EVENTS),)))
            cluster.world.run()
            assert await cluster.end(producer) is Code.NONE
            assert cluster.state().state is TransactionState.COMPLETE_COMMIT

    run(story)
