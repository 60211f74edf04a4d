"""Partitions and positions enter a transaction by request while the last one still ends.

The request waits for the last marker, and not for longer than clients would pause.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from penstock.groups.partitioning import INTERNAL_TOPIC as POSITIONS
from penstock.kafka.transactions import entering
from penstock.kafka.transactions.entering import enter
from penstock.kafka.transactions.verified import ASKED_MAX
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions import ends
from penstock.transactions.messages import Producer
from tests.broker.cluster import Asked
from tests.kafka.transaction_cluster import COORDINATOR_SET, EVENTS, NAME, TransactionCluster, run


async def ending(cluster: TransactionCluster) -> Producer:
    """Commit a transaction of one partition, whose marker is held; returns its producer."""
    producer = await cluster.init()
    assert await cluster.add(producer) is Code.NONE
    cluster.holds = True
    assert await cluster.end(producer) is Code.NONE
    return producer


def add(cluster: TransactionCluster, producer: Producer) -> Asked:
    fields: Mapping[str, Any] = {
        "v3_and_below_transactional_id": NAME,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.epoch,
        "v3_and_below_topics": [{"name": EVENTS, "partitions": [0]}],
    }
    return cluster.leading(COORDINATOR_SET).send(ApiKey.ADD_PARTITIONS_TO_TXN, 3, fields)


def code_of(asked: Asked) -> Code:
    (topic,) = asked.answer.results_by_topic_v3_and_below
    (one,) = topic.results_by_partition
    return Code(one.partition_error_code)


def add_positions(cluster: TransactionCluster, producer: Producer) -> Asked:
    fields: Mapping[str, Any] = {
        "transactional_id": NAME,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "group_id": "g",
    }
    return cluster.leading(COORDINATOR_SET).send(ApiKey.ADD_OFFSETS_TO_TXN, 3, fields)


def positions_code_of(asked: Asked) -> Code:
    return Code(asked.answer.error_code)


def test_a_request_waits_for_the_last_marker_and_is_then_done() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await ending(cluster)
        asked = add(cluster, producer)
        await cluster.settle()
        assert asked.answer is None
        (marker,) = cluster.held
        await cluster.answer(marker)
        await cluster.settle()
        assert code_of(asked) is Code.NONE
        assert cluster.state().partitions == {(EVENTS, 0)}
        assert not len(cluster.coordinator.ends)

    run(story)


def test_positions_wait_for_the_last_marker_too() -> None:
    async def story(cluster: TransactionCluster) -> None:
        cluster._create_in(POSITIONS, COORDINATOR_SET, is_internal=True)
        cluster.copy_all()
        producer = await ending(cluster)
        asked = add_positions(cluster, producer)
        await cluster.settle()
        assert asked.answer is None
        (marker,) = cluster.held
        await cluster.answer(marker)
        await cluster.settle()
        assert positions_code_of(asked) is Code.NONE

    run(story)


def test_a_request_is_told_to_come_again_when_the_marker_does_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entering, "WAIT_MS", 0)

    async def story(cluster: TransactionCluster) -> None:
        asked = add(cluster, await ending(cluster))
        await cluster.settle()
        assert code_of(asked) is Code.CONCURRENT_TRANSACTIONS
        assert not len(cluster.coordinator.ends)

    run(story)


def test_a_request_is_told_to_come_again_when_too_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ends, "WAITING_MAX", 1)

    async def story(cluster: TransactionCluster) -> None:
        producer = await ending(cluster)
        first, second = add(cluster, producer), add(cluster, producer)
        await cluster.settle()
        assert first.answer is None
        assert code_of(second) is Code.CONCURRENT_TRANSACTIONS

    run(story)


def test_a_request_asks_a_few_times_only() -> None:
    """Other ends may come between, again and again."""

    async def story(cluster: TransactionCluster) -> None:
        producer = await ending(cluster)
        asked = add(cluster, producer)
        for _ in range(ASKED_MAX - 1):
            await cluster.settle()
            assert asked.answer is None
            cluster.coordinator.ends.tell(NAME)
        await cluster.settle()
        assert code_of(asked) is Code.CONCURRENT_TRANSACTIONS

    run(story)


def test_an_end_between_answer_and_wait_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer waits for its turn while the id becomes free: nobody would be told again."""
    monkeypatch.setattr(entering, "WAIT_MS", 3_600_000)

    async def story(cluster: TransactionCluster) -> None:
        producer = await ending(cluster)
        coordinator, (marker,) = cluster.coordinator, cluster.held
        add_partitions: Any = coordinator.add_partitions
        late: list[Callable[[], None]] = []

        def hear_late(*asked: Any) -> None:
            *others, tell = asked
            if late:
                add_partitions(*others, tell)
            else:
                add_partitions(*others, lambda reply: late.append(lambda: tell(reply)))

        monkeypatch.setattr(coordinator, "add_partitions", hear_late)
        places = [(EVENTS, 0)]
        entered = asyncio.ensure_future(enter(coordinator, NAME, producer, places))
        await cluster.settle()
        await cluster.answer(marker)
        (hear,) = late
        hear()
        await cluster.settle()
        assert entered.done()
        assert entered.result() is Code.NONE

    run(story)
