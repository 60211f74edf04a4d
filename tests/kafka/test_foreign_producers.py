"""A client with a transactional id of its own that names the producer of somebody else's.

Each id has a transaction open. Coordinators know the producer of an id, and refuse another one with
INVALID_PRODUCER_ID_MAPPING. A partition asks them where a transaction begins in it, and not for
what follows: there whoever may write to the topic writes into the transaction, as with Kafka
(docs/operations/access.md).

Source: KIP-890; Kafka `TransactionCoordinator`, `Partition.maybeStartTransactionVerification`.
"""

from typing import Any, NamedTuple

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.batch import TRANSACTIONAL
from penstock.record.build import Record, build_batch
from penstock.transactions.messages import Producer
from tests.kafka.transacting import add, batch_of, begin, create, produce
from tests.live_node import LiveNode, RawClient

TOPIC = "t"
MINE, THEIRS = "mine", "theirs"


class Pair(NamedTuple):
    """Both producers; their transactions are open, without a batch yet."""

    mine: Producer
    theirs: Producer


@pytest.fixture
def pair(node: LiveNode, client: RawClient) -> Pair:
    create(client, TOPIC, 1)
    both = Pair(begin(node, client, MINE), begin(node, client, THEIRS))
    assert add(client, both.mine, {TOPIC: [0]}, MINE) == {Code.NONE}
    assert add(client, both.theirs, {TOPIC: [0]}, THEIRS) == {Code.NONE}
    return both


def told(client: RawClient, batch: bytes, name: str) -> tuple[Code, int]:
    (answer,) = produce(client, TOPIC, [(0, batch)], name)
    return Code(answer.error_code), answer.base_offset


def later_batch_of(producer: Producer) -> bytes:
    return build_batch(
        [Record(None, b"foreign")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=1,
        attributes=TRANSACTIONAL,
    )


def end(client: RawClient, producer: Producer, name: str) -> Code:
    fields: dict[str, Any] = {"transactional_id": name, "committed": True}
    fields |= {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    return Code(client.ask(ApiKey.END_TXN, 3, fields).error_code)


def test_another_ids_producer_begins_nothing_in_a_partition(client: RawClient, pair: Pair) -> None:
    assert told(client, batch_of(pair.theirs), MINE) == (Code.INVALID_PRODUCER_ID_MAPPING, -1)
    # The producer itself has noticed nothing, and its batch is the first.
    assert told(client, batch_of(pair.theirs), THEIRS) == (Code.NONE, 0)
    assert told(client, batch_of(pair.mine), MINE) == (Code.NONE, 1)


def test_another_ids_transaction_is_neither_widened_nor_ended(
    client: RawClient, pair: Pair
) -> None:
    assert told(client, batch_of(pair.theirs), THEIRS) == (Code.NONE, 0)
    mapping = Code.INVALID_PRODUCER_ID_MAPPING
    assert add(client, pair.theirs, {TOPIC: [0]}, MINE) == {mapping}
    named: dict[str, Any] = {"transactional_id": MINE, "group_id": "g"}
    named |= {"producer_id": pair.theirs.producer_id, "producer_epoch": pair.theirs.epoch}
    assert client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, named).error_code == mapping
    assert end(client, pair.theirs, MINE) is mapping
    open_ones = client.ask(ApiKey.LIST_TRANSACTIONS, 0, {"state_filters": ["Ongoing"]})
    named_open = {one.transactional_id for one in open_ones.transaction_states}
    assert named_open == {MINE, THEIRS}
    assert end(client, pair.theirs, THEIRS) is Code.NONE


def test_where_it_is_open_in_a_partition_who_may_write_there_writes_into_it(
    client: RawClient, pair: Pair
) -> None:
    # As Kafka: the partition asks no coordinator for what follows a transaction's first batch.
    assert told(client, batch_of(pair.theirs), THEIRS) == (Code.NONE, 0)
    assert told(client, later_batch_of(pair.theirs), MINE) == (Code.NONE, 1)
    # No batch of it is taken without a name, or once the transaction has ended.
    (unnamed,) = produce(client, TOPIC, [(0, later_batch_of(pair.theirs))], None)
    assert unnamed.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
