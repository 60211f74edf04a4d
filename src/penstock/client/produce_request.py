"""Bodies of Produce requests, batches not copied.

Source: Kafka's ProduceRequest.json; KIP-482 (compact lengths and tagged fields, from version 9 on).
"""

import struct
from collections.abc import Mapping
from itertools import groupby

from penstock.client.connection import Buffer
from penstock.protocol.varint import uvarint

_ALL_REPLICAS = -1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PREFIX = struct.Struct(">hhi")
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_NO_TAGS = b"\0"


def encode_produce(batches: Mapping[tuple[str, int], Buffer], timeout_ms: int) -> list[Buffer]:
    """Encode the body of a Produce request, version 3 to 8, batches not copied.

    transactional id string16 (null) | acks i16 | timeout i32 | topic count i32,
    { name string16, partition count i32, { number i32, length i32, batch } }
    """
    topics: dict[str, list[tuple[int, Buffer]]] = {}
    for (topic, number), data in batches.items():
        topics.setdefault(topic, []).append((number, data))
    out: list[Buffer] = [_PREFIX.pack(-1, _ALL_REPLICAS, timeout_ms) + _INT32.pack(len(topics))]
    for topic, parts in topics.items():
        name = topic.encode()
        out.append(_INT16.pack(len(name)) + name + _INT32.pack(len(parts)))
        for number, data in parts:
            out += [_INT32.pack(number) + _INT32.pack(len(data)), data]
    return out


def encode_transactional(
    transactional_id: str, batches: Mapping[tuple[str, int], Buffer], timeout_ms: int
) -> list[Buffer]:
    """Encode the body of a Produce request of a transaction, version 9 to 12, batches not copied.

    transactional id, compact | acks i16 | timeout i32 | topics { name, compact,
    partitions { number i32, batch with its length, compact, tags }, tags }, tags
    """
    topics = [(topic, list(rows)) for topic, rows in groupby(sorted(batches), lambda at: at[0])]
    head = _compact(transactional_id.encode()) + _ACKS_AND_TIMEOUT.pack(_ALL_REPLICAS, timeout_ms)
    out: list[Buffer] = [head + uvarint(len(topics) + 1)]
    for topic, rows in topics:
        out.append(_compact(topic.encode()) + uvarint(len(rows) + 1))
        for row in rows:
            data = batches[row]
            out += [_INT32.pack(row[1]) + uvarint(len(data) + 1), data, _NO_TAGS]
        out.append(_NO_TAGS)
    return [*out, _NO_TAGS]


def _compact(text: bytes) -> bytes:
    return uvarint(len(text) + 1) + text
