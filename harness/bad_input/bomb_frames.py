"""Produce requests around one batch, for a topic whose batches the broker has to take apart."""

from harness.bad_input.frame import framed
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_request

BOMB_TOPIC = "bombed"
BOMB_TOPIC_CONFIG = {"compression.type": "uncompressed", "max.message.bytes": str(5 << 20)}
"""Whatever comes is decompressed, and room for the largest bomb (lz4, 4.4 MB)."""

BOMB_VERSION = 7


def bomb_frame(batch: bytes, topic: str = BOMB_TOPIC) -> bytes:
    """Return a produce request (acks=1) for partition 0."""
    partition = {"index": 0, "records": batch}
    fields = {
        "transactional_id": None,
        "acks": 1,
        "timeout": 1_000,
        "topic_data": [{"name": topic, "partition_data": [partition]}],
    }
    head = request_header(ApiKey.PRODUCE, BOMB_VERSION, correlation_id=9, client_id="bomb")
    return framed(head + encode_request(ApiKey.PRODUCE, BOMB_VERSION, fields))
