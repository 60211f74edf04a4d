"""The next transaction of a producer begins while partitions still wait for the marker of the last.

In version 2 a producer goes on with its next epoch once the end is decided.
"""

from types import SimpleNamespace

import pytest

from penstock.broker.append.verification import Verification, Verified
from penstock.kafka.produce import transactional
from penstock.kafka.transactions import entering, verified
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions import ends
from penstock.transactions.messages import Producer
from tests.broker.cluster import Asked, produced
from tests.kafka.transaction_cluster import COORDINATOR_SET, NAME, TransactionCluster, run

STEPS = 5
"""Of a request that has a marker written between: each settles what the one before has begun."""
ADDING = 12
"""The version of Produce whose first batch adds its partition."""


async def committed(cluster: TransactionCluster, producer: Producer) -> Producer:
    """Write a transaction and commit it; the marker is held. Returns the producer's next epoch."""
    assert await cluster.produce(producer, 0, version=ADDING) is Code.NONE
    cluster.holds = True
    end = cluster.coordinator.end
    reply = await cluster._told(lambda told: end(NAME, producer, 2, told, is_commit=True))
    assert reply.error is Code.NONE
    assert reply.producer.epoch == producer.epoch + 1
    return reply.producer


async def code_of(cluster: TransactionCluster, asked: Asked) -> Code | None:
    await cluster.settle()
    found = produced(asked)
    return None if found is None else Code(found.error_code)


def test_it_waits_for_the_marker_of_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on when that is noted, and not when a pause is over."""
    monkeypatch.setattr(entering, "WAIT_MS", 3_600_000)
    monkeypatch.setattr(verified, "ASKED_AGAIN_MS", 3_600_000)

    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        asked = cluster.send(following, 0, version=ADDING)
        assert await code_of(cluster, asked) is None
        (marker,) = cluster.held
        await cluster.answer(marker)
        for _ in range(STEPS):
            await cluster.settle()
        assert await code_of(cluster, asked) is Code.NONE
        assert cluster.is_open(following)
        assert not cluster.hosted(cluster.master).guards

    run(story)


def test_it_is_told_to_come_again_when_the_marker_does_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for room in (entering, verified):
        monkeypatch.setattr(room, "WAIT_MS", 0)

    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        asked = cluster.send(following, 0, version=ADDING)
        assert await code_of(cluster, asked) is Code.CONCURRENT_TRANSACTIONS
        assert not cluster.hosted(cluster.master).guards

    run(story)


def test_a_marker_that_comes_while_the_coordinator_is_asked_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has removed the guard: the coordinator is asked once more, with a new one."""

    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        broker, questions = cluster.master.broker, 0
        verifier = broker.verifier

        async def verify(asked: Verification) -> Verified:
            nonlocal questions
            questions += 1
            if questions == 1:
                await cluster.answer(cluster.held[0])
            return await verifier.verify(asked)

        monkeypatch.setattr(
            broker, "verifier", SimpleNamespace(verify=verify, verify_here=lambda _: None)
        )
        asked = cluster.send(following, 0, version=ADDING)
        for _ in range(STEPS):
            await cluster.settle()
        assert await code_of(cluster, asked) is Code.NONE
        assert questions == 2
        assert cluster.is_open(following)

    run(story)


def test_a_marker_that_comes_while_the_coordinator_is_asked_for_the_last_time_has_it_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """INVALID_TXN_STATE would end the transaction: franz-go's TestTxnEtl on a busy machine."""

    monkeypatch.setattr(transactional, "ASKED_MAX", 1)

    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        broker = cluster.master.broker

        async def verify(asked: Verification) -> Verified:
            await cluster.answer(cluster.held[0])
            return Verified(dict.fromkeys(asked.partitions, Code.NONE))

        monkeypatch.setattr(
            broker, "verifier", SimpleNamespace(verify=verify, verify_here=lambda _: None)
        )
        asked = cluster.send(following, 0, version=ADDING)
        for _ in range(STEPS):
            await cluster.settle()
        assert await code_of(cluster, asked) is Code.CONCURRENT_TRANSACTIONS
        assert not cluster.hosted(cluster.master).guards

    run(story)


def test_it_is_asked_again_where_too_many_wait_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their waits take up places of the link on which the marker comes."""
    monkeypatch.setattr(ends, "CALLS_MAX", 0)
    monkeypatch.setattr(verified, "WAIT_MS", 3_600_000)
    monkeypatch.setattr(verified, "ASKED_AGAIN_MS", 0)

    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        broker, (marker,) = cluster.master.broker, cluster.held
        verifier, told = broker.verifier, list[Code]()

        async def verify(asked: Verification) -> Verified:
            if len(told) == 1:
                await cluster.answer(marker)
            answer = await verifier.verify(asked)
            told.extend(map(Code, answer.codes.values()))
            return answer

        monkeypatch.setattr(
            broker, "verifier", SimpleNamespace(verify=verify, verify_here=lambda _: None)
        )
        asked = cluster.send(following, 0, version=ADDING)
        for _ in range(2 * STEPS):
            await cluster.settle()
        assert await code_of(cluster, asked) is Code.NONE
        assert told[0] is Code.CONCURRENT_TRANSACTIONS
        assert cluster.is_open(following)

    run(story)


def test_who_waits_is_told_that_the_coordinator_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entering, "WAIT_MS", 3_600_000)

    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        asked = cluster.send(following, 0, version=ADDING)
        assert await code_of(cluster, asked) is None
        before = cluster.coordinator
        assert len(before.ends) == 1
        cluster.lead(1, set_id=COORDINATOR_SET)
        for _ in range(STEPS):
            await cluster.settle()
        assert not len(before.ends)
        assert await code_of(cluster, asked) is Code.NOT_ENOUGH_REPLICAS

    run(story)
