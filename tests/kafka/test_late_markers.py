"""A marker that was asked for twice and is written late ends no later transaction (ADR 0091)."""

from typing import Any

import pytest

from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.messages import Producer
from tests.kafka.transaction_cluster import (
    COORDINATOR_SET,
    DATA_SET,
    Question,
    TransactionCluster,
    run,
)


async def begun(cluster: TransactionCluster, producer: Producer, sequence: int) -> None:
    assert await cluster.add(producer) is Code.NONE
    assert await cluster.produce(producer, sequence) is Code.NONE
    assert cluster.is_open(producer)


async def ended_by_the_second_question(cluster: TransactionCluster) -> tuple[Producer, Question]:
    """Return who had a transaction, and the first question for its marker, which comes late."""
    producer = await cluster.init()
    await begun(cluster, producer, 0)
    cluster.holds = True
    assert await cluster.end(producer) is Code.NONE
    (late,) = cluster.held
    cluster.lose(late)
    await cluster.settle()
    await cluster.ask_again()
    await cluster.answer(cluster.held[1])
    return producer, late


async def ended(cluster: TransactionCluster, producer: Producer) -> bool:
    """End what is open, if that is possible, and tell whether it is over."""
    assert await cluster.end(producer) is Code.NONE
    await cluster.answer(cluster.held[-1])
    return not cluster.is_open(producer)


def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer, late = await ended_by_the_second_question(cluster)
        await begun(cluster, producer, 1)
        assert (await cluster.deliver(late)).codes == ((Code.NONE,),), "it was written before"
        assert cluster.is_open(producer)
        assert await ended(cluster, producer)

    run(story)


def test_a_late_marker_that_meets_nothing_open_does_no_harm() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer, late = await ended_by_the_second_question(cluster)
        assert (await cluster.deliver(late)).codes == ((Code.NONE,),)
        await begun(cluster, producer, 1)
        assert await ended(cluster, producer)

    run(story)


def test_a_late_marker_of_an_earlier_mastership_of_the_same_broker_ends_nothing() -> None:
    """It has lost what it knew of the transactions of others, and so takes no old question."""

    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        await begun(cluster, producer, 0)
        cluster.holds = True
        assert await cluster.end(producer) is Code.NONE
        (late,) = cluster.held
        cluster.lose(late)
        cluster.lead(1, set_id=DATA_SET)
        await cluster.settle()
        await cluster.ask_again()
        await cluster.answer(cluster.held[1])
        await begun(cluster, producer, 1)
        cluster.lead(0, set_id=DATA_SET)
        await cluster.settle()
        assert cluster.is_open(producer)
        assert (await cluster.deliver(late)).codes == ((Code.FENCED_LEADER_EPOCH,),)
        assert cluster.is_open(producer)
        assert await ended(cluster, producer), "by who does not know its number"

    run(story)


def test_a_number_that_an_earlier_mastership_has_noted_says_nothing() -> None:
    async def story(cluster: TransactionCluster) -> None:
        cluster.holds = True
        producer = await cluster.init()
        await begun(cluster, producer, 0)
        for leader in (1, 0):
            cluster.lead(leader, set_id=DATA_SET)
            await cluster.settle()
        assert cluster.hosted(cluster.master).open_numbers
        assert await ended(cluster, producer)
        await begun(cluster, producer, 1)
        assert len(cluster.hosted(cluster.master).open_numbers) == 1
        assert await ended(cluster, producer)
        assert cluster.hosted(cluster.master).open_numbers == {}

    run(story)


def test_the_number_of_a_transaction_that_was_cut_off_holds_up_no_marker() -> None:
    """Its records were cut off with the earlier mastership; what is open now has to end."""

    async def story(cluster: TransactionCluster) -> None:
        cluster.holds = True
        producer = await cluster.init()
        await begun(cluster, producer, 0)
        noted = cluster.hosted(cluster.master).open_numbers
        ((producer_id, (leader_epoch, number)),) = noted.items()
        for leader in (1, 0):
            cluster.lead(leader, set_id=DATA_SET)
            await cluster.settle()
        cluster.hosted(cluster.master).open_numbers[producer_id] = (leader_epoch, number + 1)
        assert await ended(cluster, producer)

    run(story)


def test_a_late_marker_of_the_coordinator_before_ends_nothing() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        await begun(cluster, producer, 0)
        cluster.holds = True
        assert await cluster.end(producer) is Code.NONE
        (late,) = cluster.held
        cluster.lead(1, set_id=COORDINATOR_SET)
        await cluster.settle()
        await cluster.answer(cluster.held[1])
        await begun(cluster, producer, 1)
        await cluster.deliver(late)
        assert cluster.is_open(producer)
        assert await ended(cluster, producer)

    run(story)


@pytest.mark.parametrize("moves", [0, 1])
def test_numbers_rise_also_where_the_coordinator_moves(moves: int) -> None:
    async def story(cluster: TransactionCluster) -> None:
        cluster.holds = True
        producer = await cluster.init()
        for number in range(3):
            await begun(cluster, producer, number)
            assert await ended(cluster, producer)
            if moves:
                cluster.lead(1 + number % 2, set_id=COORDINATOR_SET)
                await cluster.settle()
        told = [one.asked.entries[0] for one in cluster.held]
        assert [one.number for one in told] == [1, 2, 3]
        leader_epoch = cluster.leader_epoch(DATA_SET)
        assert {one.partitions[0].leader_epoch for one in told} == {leader_epoch}

    run(story)


def test_who_is_named_as_coordinator_no_more_asks_nobody() -> None:
    """Its successor may not have heard yet of the masterships that it would ask."""

    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        await begun(cluster, producer, 0)
        cluster.holds = True
        sender: Any = cluster.coordinator._duties._markers
        duty = cluster.duty_of(producer)
        cluster.unnamed(cluster.nodes[0])
        sender.send(0, duty)
        await cluster.settle()
        assert cluster.held == []
        assert sender.waiting == 1
        sender.cancel(0)

    run(story)
