"""Topics with batches of one size, and the fetches that tests of the Fetch handler send."""

from typing import Any

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from penstock.record.read import iter_batches
from tests.live_node import LiveNode, RawClient

BATCH = build_batch([Record(None, b"x" * 939, (), 1000)])
SIZE = len(BATCH)


def create(node: LiveNode, name: str = "events", partitions: int = 3) -> bytes:
    new = NewTopic(name=name, partition_count=partitions)
    (outcome,) = node.submit(CreateTopics(topics=(new,)))
    assert outcome.error is None
    return bytes(outcome.topic_id)


def fill(client: RawClient, *counts: int, topic: str = "events") -> None:
    """Append that many batches of 1000 bytes and a bit to partition 0, 1, ..."""
    for partition, count in enumerate(counts):
        for _ in range(count):
            data = [{"name": topic, "partition_data": [{"index": partition, "records": BATCH}]}]
            fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            client.ask(ApiKey.PRODUCE, 9, fields)


def request(partitions: int = 3, topic: str = "events", **fields: Any) -> dict[str, Any]:
    each = {"current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1}
    each |= {"log_start_offset": -1, "partition_max_bytes": fields.pop("partition_max", 1 << 20)}
    wanted = [{"partition": number} | each for number in range(partitions)]
    base: dict[str, Any] = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
    }
    base |= {"isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    named = {"topic": topic, "topic_id": fields.pop("topic_id", bytes(16)), "partitions": wanted}
    return base | {"forgotten_topics_data": [], "topics": [named]} | fields


def counts(answer: Any) -> dict[int, int]:
    """Batches by partition."""
    return {
        partition.partition_index: len(list(iter_batches(memoryview(partition.records or b""))))
        for topic in answer.responses
        for partition in topic.partitions
    }


def fetch_from(offset: int, **fields: Any) -> dict[str, Any]:
    wanted = request(1, **fields)
    wanted["topics"][0]["partitions"][0]["fetch_offset"] = offset
    return wanted


def offsets(answer: Any) -> list[int]:
    (partition,) = answer.responses[0].partitions
    return [header.base_offset for header, _ in iter_batches(memoryview(partition.records))]
