"""First batches of transactions: how often their coordinator is asked, and what stays of guards."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from penstock.broker.append.transactional import guard_for, let_go
from penstock.broker.append.verification import Verification, Verified
from penstock.kafka.handlers.records import produce as handler
from penstock.kafka.produce.transactional import before_transactional
from penstock.kafka.transactions import verified
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.protocol.produce import PartitionData
from penstock.record.batch import ATTRIBUTES_AT, BATCH_HEADER_BYTES, TRANSACTIONAL
from tests.broker.cluster import produced
from tests.kafka.test_next_transactions import ADDING, STEPS, code_of, committed
from tests.kafka.transaction_cluster import EVENTS, NAME, TransactionCluster, produce_fields, run

BY_ID = 13
"""The version of Produce from which on topics have ids in the place of names."""


class Refused(Exception):
    """An append that can not be."""


def verifying(
    cluster: TransactionCluster,
    monkeypatch: pytest.MonkeyPatch,
    verify: Callable[[Verification], Awaitable[Verified]],
) -> None:
    verifier = SimpleNamespace(verify=verify, verify_here=lambda _: None)
    monkeypatch.setattr(cluster.master.broker, "verifier", verifier)


def all_are(asked: Verification, code: Code) -> Verified:
    return Verified(dict.fromkeys(asked.partitions, code))


def test_a_guard_does_not_outlive_an_append_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        assert await cluster.add(producer) is Code.NONE

        def refuse(*_: object, **__: object) -> None:
            raise Refused

        guards = cluster.hosted(cluster.master).guards
        with monkeypatch.context() as patch:
            patch.setattr(handler, "_append_all", refuse)
            cluster.send(producer, 0)
            assert not guards
        assert await cluster.produce(producer, 0) is Code.NONE

    run(story)


def test_a_marker_that_comes_with_the_answer_that_it_is_missing_costs_one_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verified, "ASKED_AGAIN_MS", 0)
    monkeypatch.setattr(verified, "WAIT_MS", 3_600_000)

    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        verifier, asked = cluster.master.broker.verifier, list[Verification]()

        async def verify(question: Verification) -> Verified:
            asked.append(question)
            if len(asked) == 1:
                await cluster.answer(cluster.held[0])
                return all_are(question, Code.CONCURRENT_TRANSACTIONS)
            return await verifier.verify(question)

        verifying(cluster, monkeypatch, verify)
        sent = cluster.send(following, 0, version=ADDING)
        for _ in range(STEPS):
            await cluster.settle()
        assert await code_of(cluster, sent) is Code.NONE
        assert len(asked) == 2

    run(story)


def test_a_guard_that_another_request_has_made_meanwhile_is_not_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: TransactionCluster) -> None:
        following = await committed(cluster, await cluster.init())
        verifier, asked = cluster.master.broker.verifier, list[Verification]()
        hosted = cluster.hosted(cluster.master)

        async def verify(question: Verification) -> Verified:
            asked.append(question)
            if len(asked) == 1:
                await cluster.answer(cluster.held[0])
                other = guard_for(hosted, following.producer_id, following.epoch, 1)
                answer = await verifier.verify(question)
                let_go(hosted, following.producer_id, other)
                guard_for(hosted, following.producer_id, following.epoch, 1)
                return answer
            return await verifier.verify(question)

        verifying(cluster, monkeypatch, verify)
        sent = cluster.send(following, 0, version=ADDING)
        for _ in range(STEPS):
            await cluster.settle()
        assert await code_of(cluster, sent) is Code.NONE
        assert len(asked) == 2

    run(story)


def test_a_coordinator_that_is_still_ending_is_asked_so_often_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verified, "ASKED_AGAIN_MS", 0)
    monkeypatch.setattr(verified, "WAIT_MS", 3_600_000)

    async def story(cluster: TransactionCluster) -> None:
        producer, asked = await cluster.init(), list[Verification]()

        async def verify(question: Verification) -> Verified:
            asked.append(question)
            return all_are(question, Code.CONCURRENT_TRANSACTIONS)

        verifying(cluster, monkeypatch, verify)
        sent = cluster.send(producer, 0, version=ADDING)
        for _ in range(STEPS):
            await cluster.settle()
        assert await code_of(cluster, sent) is Code.CONCURRENT_TRANSACTIONS
        assert len(asked) == verified.ASKED_MAX
        assert not cluster.hosted(cluster.master).guards

    run(story)


@pytest.mark.parametrize(
    ("version", "told"),
    [(10, Code.INVALID_TXN_STATE), (11, Code.TRANSACTION_ABORTABLE)],
)
def test_a_partition_outside_of_the_transaction_ends_it_for_who_knows_the_code(
    version: int, told: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()

        async def verify(question: Verification) -> Verified:
            return all_are(question, Code.INVALID_TXN_STATE)

        verifying(cluster, monkeypatch, verify)
        assert await cluster.produce(producer, 0, version=version) is told

    run(story)


def test_a_topic_by_its_id_is_guarded_like_one_by_its_name() -> None:
    async def story(cluster: TransactionCluster) -> None:
        producer = await cluster.init()
        fields = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "base_sequence": 0,
            "attributes": TRANSACTIONAL,
        }
        wanted = produce_fields(EVENTS, (b"v",), -1, fields) | {"transactional_id": NAME}
        topic_id = cluster.hosted(cluster.master).topic.topic_id
        for topic in wanted["topic_data"]:
            topic["topic_id"] = topic_id
        asked = cluster.master.send(ApiKey.PRODUCE, BY_ID, wanted)
        await cluster.settle()
        assert produced(asked).error_code == Code.NONE
        assert cluster.is_open(producer)

    run(story)


@pytest.mark.parametrize(("size", "is_taken"), [(0, True), (-1, False)])
def test_a_batch_that_is_a_header_alone_may_be_of_a_transaction(size: int, is_taken: bool) -> None:
    memory = bytearray(2 * BATCH_HEADER_BYTES)
    memory[BATCH_HEADER_BYTES + ATTRIBUTES_AT] = TRANSACTIONAL
    end = 2 * BATCH_HEADER_BYTES + size
    parts: list[PartitionData] = [
        PartitionData(b"t", 0, 0, BATCH_HEADER_BYTES),
        PartitionData(b"t", 1, BATCH_HEADER_BYTES, end),
    ]
    found = before_transactional(memoryview(memory), parts)
    assert found == (parts[:1] if is_taken else parts)
