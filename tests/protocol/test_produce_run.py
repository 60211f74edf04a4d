"""Which frames belong together, and which end a run."""

from typing import Any

import pytest

from penstock.protocol import compiled, produce_run
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_request
from penstock.protocol.produce_run import RUN_FRAME_BYTES_MAX, ProduceRun

TWINS = [produce_run.parse_produce_run, compiled.parse_produce_run]


def frame(
    number: int,
    *,
    version: int = 9,
    key: int = ApiKey.PRODUCE,
    client_id: str | None = "me",
    records: bytes = b"r",
    acks: int = 1,
    timeout_ms: int = 5,
    **fields: Any,
) -> bytes:
    parts = [{"index": number % 3, "records": records}]
    topics = [{"name": "events", "topic_id": bytes(range(16)), "partition_data": parts}]
    body = {"transactional_id": None, "acks": acks, "timeout_ms": timeout_ms, "topic_data": topics}
    head = request_header(key, version, correlation_id=number, client_id=client_id)
    payload = head + bytes(encode_request(ApiKey.PRODUCE, version, body | fields))
    return len(payload).to_bytes(4, "big") + payload


def read(twin: Any, *frames: bytes, count_max: int = 64) -> ProduceRun | None:
    memory = memoryview(b"skipped" + b"".join(frames))
    found: ProduceRun | None = twin(memory, 7, len(memory), count_max)
    return found


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("version", produce_run.VERSIONS)
def test_a_run_says_where_the_records_of_each_request_lie(twin: Any, version: int) -> None:
    frames = [frame(number, version=version, records=b"%d" % number) for number in range(4)]
    memory = memoryview(b"skipped" + b"".join(frames))
    run = twin(memory, 7, len(memory), 64)
    assert (run.header.api_version, run.header.client_id) == (version, "me")
    assert (run.acks, run.timeout_ms) == (1, 5)
    assert [request.correlation_id for request in run.requests] == [0, 1, 2, 3]
    assert [request.part.partition for request in run.requests] == [0, 1, 2, 0]
    assert [
        bytes(memory[request.part.records_at : request.part.records_end])
        for request in run.requests
    ] == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]
    ends = [7 + sum(map(len, frames[: count + 1])) for count in range(4)]
    assert [request.end for request in run.requests] == ends


ENDS_A_RUN = {
    "another API": frame(2, key=ApiKey.METADATA),
    "another version": frame(2, version=10),
    "another client": frame(2, client_id="you"),
    "no client id": frame(2, client_id=None),
    "other acks": frame(2, acks=-1),
    "another time-out": frame(2, timeout_ms=6),
    "a transaction": frame(2, transactional_id="t"),
    "no topic": frame(2, topic_data=[]),
    "large": frame(2, records=bytes(RUN_FRAME_BYTES_MAX)),
    "part of a frame": frame(2)[:-1],
    "part of a size": frame(2)[:3],
    "a negative size": b"\xff" * 40,
    "a size too small for a header": b"\0\0\0\x09" + bytes(40),
}


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("other", ENDS_A_RUN.values(), ids=ENDS_A_RUN)
def test_a_run_ends_before_what_does_not_belong_to_it(twin: Any, other: bytes) -> None:
    run = read(twin, frame(0), frame(1), other)
    assert run is not None
    assert len(run.requests) == 2
    assert read(twin, frame(0), other) is None, "one alone is none"


@pytest.mark.parametrize("twin", TWINS)
def test_requests_that_want_no_answer_are_no_run(twin: Any) -> None:
    assert read(twin, frame(0, acks=0), frame(1, acks=0)) is None


@pytest.mark.parametrize("twin", TWINS)
def test_no_more_are_taken_than_asked_for(twin: Any) -> None:
    frames = [frame(number) for number in range(5)]
    run = read(twin, *frames, count_max=3)
    assert run is not None
    assert len(run.requests) == 3
    assert read(twin, *frames, count_max=1) is None
