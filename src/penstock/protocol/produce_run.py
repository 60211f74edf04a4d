"""Produce requests that a client has pipelined: parsed, and answered, together.

    memory   | size | header | body with one partition | size | header | body with ... | ...
              └─ correlation id, topic, partition, [start, end) of the records: a RunRequest ┘

A run has only usual requests: one partition each, no transaction, an answer wanted, all with the
client id, version, acks and time-out of the first. The first frame that differs, a damaged one
included, ends the run and is handled by itself.

Source: ours, ADR 0023; the frames are Kafka's (produce.py).
"""

from struct import Struct
from typing import NamedTuple

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import WireError
from penstock.protocol.header import RequestHeader, parse_request_header
from penstock.protocol.produce import (
    FLEXIBLE_VERSION,
    PartitionData,
    ProduceRequest,
    parse_usual_request,
)

RUN_FRAME_BYTES_MAX = 64 << 10
"""Larger requests gain nothing from a run. No listener's limit for one request is below this."""
VERSIONS = range(3, 14)
_SIZE = Struct(">i")
_HEADER_BYTES = 10


class RunRequest(NamedTuple):
    """One request of a run; `end` is the position in the memory after its frame."""

    correlation_id: int
    part: PartitionData
    end: int


class ProduceRun(NamedTuple):
    """At least two requests; `header` is that of the first, others differ in correlation id only.

    Positions in their parts count from the start of the memory that they were read from.
    """

    header: RequestHeader
    acks: int
    timeout_ms: int
    requests: list[RunRequest]


def parse_produce_run(memory: memoryview, at: int, end: int, count_max: int) -> ProduceRun | None:
    """Return the run that begins at `at`, of complete frames within [at, end).

    At most `count_max` requests; None if there are not two. Never raises, whatever the bytes are.
    """
    first: tuple[RequestHeader, ProduceRequest] | None = None
    requests: list[RunRequest] = []
    while len(requests) < count_max and end - at >= _SIZE.size:
        start = at + _SIZE.size
        (size,) = _SIZE.unpack_from(memory, at)
        if not _HEADER_BYTES <= size <= RUN_FRAME_BYTES_MAX or start + size > end:
            break
        usual = _parse_usual(memory[start : start + size])
        if usual is None or not _goes_with(first or usual, usual):
            break
        first = first or usual
        header, body = usual
        topic, partition, records_at, records_end = body.partitions[0]
        part = PartitionData(topic, partition, start + records_at, start + records_end)
        at = start + size
        requests.append(RunRequest(header.correlation_id, part, at))
    if first is None or len(requests) < 2:
        return None
    header, body = first
    return ProduceRun(header, body.acks, body.timeout_ms, requests)


def _parse_usual(frame: memoryview) -> tuple[RequestHeader, ProduceRequest] | None:
    try:
        header = parse_request_header(frame)
    except WireError:
        return None
    key, version, _, client_id, body_at = header
    head_bytes = _HEADER_BYTES + len((client_id or "").encode())
    if key != ApiKey.PRODUCE or version not in VERSIONS:
        return None
    if body_at != head_bytes + (version >= FLEXIBLE_VERSION):
        return None  # tagged fields in the header
    body = parse_usual_request(frame, body_at, version)
    return None if body is None else (header, body)


def _goes_with(
    first: tuple[RequestHeader, ProduceRequest], other: tuple[RequestHeader, ProduceRequest]
) -> bool:
    header, body = other
    return (
        body.acks in {1, -1}
        and (body.acks, body.timeout_ms) == (first[1].acks, first[1].timeout_ms)
        and (header.api_version, header.client_id) == (first[0].api_version, first[0].client_id)
    )
