"""Produce requests of transactions whose first batches are many, or take long to prepare."""

from random import Random

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Producer
from tests.kafka.transacting import add, batch_of, begin, create, produce
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import CALLS_MAX, Turns

PARTITIONS = 150
"""More than are appended in one turn of the loop."""
GZIP = 1
MANY = 2_000


def has_guards(node: LiveNode, topic: str) -> bool:
    """Whether guards stay, after an answer that may have come before the last has gone."""
    hosted = node.broker.partitions.by_name[topic.encode()]
    return not node.until(lambda: not any(one.guards for one in hosted.partitions if one))


def test_first_batches_in_many_partitions_are_appended(node: LiveNode, client: RawClient) -> None:
    create(client, "wide", PARTITIONS)
    producer = begin(node, client)
    assert add(client, producer, {"wide": range(PARTITIONS)}) == {ErrorCode.NONE}
    batches = [(one, batch_of(producer)) for one in range(PARTITIONS)]
    told = produce(client, "wide", batches)
    assert [one.error_code for one in told] == [ErrorCode.NONE] * PARTITIONS
    assert not has_guards(node, "wide")


def test_first_batch_that_a_worker_prepares_is_appended(node: LiveNode, client: RawClient) -> None:
    create(client, "packed", 1, **{"compression.type": "zstd"})
    producer = begin(node, client)
    assert add(client, producer, {"packed": [0]}) == {ErrorCode.NONE}
    large = batch_of(producer, Random(1).randbytes(100_000), GZIP)
    (told,) = produce(client, "packed", [(0, large)])
    assert (told.error_code, told.base_offset) == (ErrorCode.NONE, 0)
    assert not has_guards(node, "packed")


def test_no_turn_is_long_for_many_batches_that_are_refused(
    node: LiveNode, client: RawClient
) -> None:
    create(client, "refused", 1)
    begin(node, client)
    for producers in (1, MANY):
        batches = [
            (0, batch_of(Producer(ProducerId(10_000 + one % producers), ProducerEpoch(0))))
            for one in range(MANY)
        ]
        turns = Turns()
        node.call(turns.begin)
        try:
            told = produce(client, "refused", batches)
        finally:
            node.call(turns.end)
        assert {one.error_code for one in told} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert 0 < turns.longest < CALLS_MAX, turns.begun_in
        assert not has_guards(node, "refused")
