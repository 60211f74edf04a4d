"""A topic with a batch in it that nobody can read, as an earlier release stored them."""

from contextlib import closing
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from tests.live_node import RawClient
from tests.record.batches import batch, record

UNCHECKED = {"penstock.record.validation": "header"}
"""Configuration of a topic that takes such batches."""

NOT_GZIP = bytes(batch(record(0, b"k", b"v") + record(1, b"k", b"v"), 2, attributes=1))
"""Two records that are not compressed in a batch that says they are."""


def fill_around_a_lie(port: int, topic: str) -> None:
    """Write offset 0, a lie over 1 and 2, then offset 3."""
    with closing(RawClient(port)) as client:
        for data in (good(b"before"), NOT_GZIP, good(b"behind")):
            send_batch(client, topic, data)


def good(value: bytes) -> bytes:
    return build_batch([Record(None, value, (), 1000)])


def send_batch(client: RawClient, topic: str, data: bytes) -> None:
    part = {"index": 0, "records": data}
    fields: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout_ms": 5000}
    fields |= {"topic_data": [{"name": topic, "partition_data": [part]}]}
    (answer,) = client.ask(ApiKey.PRODUCE, 9, fields).responses
    assert answer.partition_responses[0].error_code == 0
