"""Checks whether a node answers Kafka clients: sends ApiVersions, then Metadata without topics.

The two requests are encoded by hand so that the launcher does not import the broker's code:

    request     int32 length | int16 key | int16 version | int32 correlation id | string client id
    ApiVersions v0   no body               -> int16 error code, ...
    Metadata v1      int32 0 (no topics)   -> int32 count, then per broker
                                              int32 id | string host | int32 port | string rack

Source: the Kafka protocol guide, ApiVersions v0 and Metadata v1.
"""

import asyncio
import struct

CLIENT_ID = b"penstock-up"
API_VERSIONS, METADATA = 18, 3
ANSWER_BYTES_MAX = 1 << 20
PROBE_SECONDS_MAX = 5.0


async def brokers_seen(host: str, port: int) -> set[int]:
    """Return the broker ids that a node reports; empty if it does not answer correctly."""
    try:
        async with asyncio.timeout(PROBE_SECONDS_MAX):
            return await _ask(host, port)
    except (OSError, TimeoutError, EOFError, ValueError, struct.error):
        return set()


async def _ask(host: str, port: int) -> set[int]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        versions = await _exchange(reader, writer, _request(API_VERSIONS, 0, b""))
        if struct.unpack_from(">h", versions, 4)[0] != 0:
            return set()
        return _broker_ids(
            await _exchange(reader, writer, _request(METADATA, 1, struct.pack(">i", 0)))
        )
    finally:
        writer.close()


def _request(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", key, version, 1, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> bytes:
    writer.write(request)
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    if not 4 <= length <= ANSWER_BYTES_MAX:
        raise ValueError(length)
    return await reader.readexactly(length)


def _broker_ids(answer: bytes) -> set[int]:
    (count,) = struct.unpack_from(">i", answer, 4)
    at = 8
    found = set()
    for _ in range(count):
        (broker_id,) = struct.unpack_from(">i", answer, at)
        at = _after_string(answer, at + 4) + 4
        at = _after_string(answer, at)
        found.add(broker_id)
    return found


def _after_string(answer: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", answer, at)
    return int(at + 2 + max(length, 0))
