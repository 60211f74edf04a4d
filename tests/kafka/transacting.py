"""Requests of transactions to a live node."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import TRANSACTIONAL
from penstock.record.build import Record, build_batch
from penstock.transactions.messages import Producer
from tests.live_node import LiveNode, RawClient

ID = "x"
MINUTE_MS = 60_000
PRODUCE_VERSION = 7


def create(client: RawClient, topic: str, partitions: int, **configs: str) -> None:
    fields = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in configs.items()],
    }
    asked = {"topics": [fields], "timeout": 30_000, "validate_only": False}
    (made,) = client.ask(ApiKey.CREATE_TOPICS, 5, asked).topics
    assert made.error_code == ErrorCode.NONE


def begin(node: LiveNode, client: RawClient, name: str = ID) -> Producer:
    """Return a producer of the id, once transactions are there."""
    find = {"key": name, "key_type": 1}
    client.ask(ApiKey.FIND_COORDINATOR, 1, find)
    assert node.until(lambda: node.broker.transactions.here.partition_of(name) >= 0)
    assert node.until(lambda: not node.broker.transactions.is_loading)
    fields = {"transactional_id": name, "transaction_timeout": MINUTE_MS}
    told = client.ask(ApiKey.INIT_PRODUCER_ID, 1, fields)
    assert told.error_code == ErrorCode.NONE
    return Producer(told.producer_id, told.producer_epoch)


def add(
    client: RawClient, producer: Producer, topics: Mapping[str, Sequence[int]], name: str = ID
) -> set[int]:
    """Return the codes of all partitions."""
    fields = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.epoch,
        "v3_and_below_topics": [
            {"name": topic, "partitions": partitions} for topic, partitions in topics.items()
        ],
    }
    told = client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 1, fields)
    return {
        int(one.partition_error_code)
        for topic in told.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    }


def batch_of(producer: Producer, value: bytes = b"v", codec: int = 0) -> bytes:
    return build_batch(
        [Record(None, value)],
        codec=codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )


def produce(
    client: RawClient, topic: str, batches: Sequence[tuple[int, bytes]], name: str | None = ID
) -> Any:
    """Send batches of partitions in one request; returns the answers."""
    parts = [{"index": index, "records": records} for index, records in batches]
    data = [{"name": topic, "partition_data": parts}]
    fields = {"transactional_id": name, "acks": -1, "timeout": 30_000, "topic_data": data}
    (told,) = client.ask(ApiKey.PRODUCE, PRODUCE_VERSION, fields).responses
    return told.partition_responses
