"""Fetch requests and answers by hand, against kio's schemas."""

import random
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plain import kio_bytes, plain_fields
from penstock.base.ids import LeaderEpoch
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.fetch import (
    TOPIC_ID_VERSION,
    FetchAnswer,
    FetchPartition,
    encode_fetch_response,
    parse_fetch_request,
)
from penstock.protocol.messages import encode_request
from penstock.protocol.primitives import LeaderEndpoint
from penstock.protocol.schema import request_schema, response_schema

VERSIONS = range(4, 19)


def topic_key(topic: dict[str, Any], version: int) -> bytes:
    if version < TOPIC_ID_VERSION:
        return str(topic.get("topic", "")).encode()
    topic_id = topic.get("topic_id")
    raw = topic_id.bytes if isinstance(topic_id, uuid.UUID) else topic_id
    return bytes(16) if raw is None else bytes(raw)


def wanted(fields: dict[str, Any], version: int) -> list[FetchPartition]:
    names = {field.name for field in _partition_schema(version)}
    return [
        FetchPartition(
            topic_key(topic, version),
            part.get("partition", 0),
            LeaderEpoch(
                part.get("current_leader_epoch", -1) if "current_leader_epoch" in names else -1
            ),
            part.get("fetch_offset", 0),
            LeaderEpoch(
                part.get("last_fetched_epoch", -1) if "last_fetched_epoch" in names else -1
            ),
            part.get("log_start_offset", -1) if "log_start_offset" in names else -1,
            part.get("partition_max_bytes", 0),
        )
        for topic in fields.get("topics", ())
        for part in topic.get("partitions", ())
    ]


def _partition_schema(version: int) -> Any:
    topics = next(f for f in request_schema(ApiKey.FETCH, version).fields if f.name == "topics")
    assert topics.entity is not None
    parts = next(f for f in topics.entity.fields if f.name == "partitions")
    assert parts.entity is not None
    return parts.entity.fields


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=st.integers(0, 1 << 32))
def test_a_request_reads_as_its_schema_says(version: int, seed: int) -> None:
    fields = plain_fields(request_schema(ApiKey.FETCH, version), random.Random(seed))
    frame = memoryview(b"header" + encode_request(ApiKey.FETCH, version, fields))
    request = parse_fetch_request(frame, 6, version)
    assert request.partitions == wanted(fields, version)
    assert request.max_wait_ms == fields.get("max_wait", 0)
    assert request.min_bytes == fields.get("min_bytes", 0)
    assert request.max_bytes == fields.get("max_bytes", (1 << 31) - 1)
    assert request.isolation_level == fields.get("isolation_level", 0)
    assert request.session_id == (fields.get("session_id", 0) if version >= 7 else 0)
    assert request.session_epoch == (fields.get("session_epoch", -1) if version >= 7 else -1)
    assert request.rack_id == (fields.get("rack_id", "") if version >= 11 else "")
    assert request.cluster_id == (fields.get("cluster_id") if version >= 12 else None)
    state = fields.get("replica_state", {}) if version >= 15 else fields
    assert request.replica_id == state.get("replica_id", -1)
    forgotten = fields.get("forgotten_topics_data", ()) if version >= 7 else ()
    assert request.forgotten == [
        (topic_key(topic, version), partition)
        for topic in forgotten
        for partition in topic.get("partitions", ())
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_short_or_too_long_is_malformed(version: int) -> None:
    fields = plain_fields(request_schema(ApiKey.FETCH, version), random.Random(2))
    frame = memoryview(encode_request(ApiKey.FETCH, version, fields) + b"\0")
    for end in (*range(len(frame) - 1), len(frame)):
        with pytest.raises(MalformedRequest):
            parse_fetch_request(frame[:end], 0, version)


def random_answers(rng: random.Random, version: int) -> list[FetchAnswer]:
    return [
        FetchAnswer(
            rng.randbytes(16) if version >= TOPIC_ID_VERSION else b"t" * rng.choice((1, 200)),
            partition,
            rng.choice((0, 0, 3)),
            rng.randrange(-1, 1 << 60),
            rng.randrange(-1, 1 << 60),
            rng.randrange(-1, 1 << 60),
            [memoryview(rng.randbytes(rng.choice((1, 130, 20_000)))) for _ in range(rng.choice(N))],
            rng.choice((None, (), ((5, 7), (6, 8)))),
            rng.choice((-1, 3)),
            rng.choice((None, (4, 99))),
            rng.choice((None, (1, 7))),
        )
        for _ in range(rng.choice((0, 1, 2)))
        for partition in range(rng.choice((1, 1, 3)))
    ]


N = (0, 1, 2)


def answer_fields(answer: FetchAnswer) -> dict[str, Any]:
    diverging = answer.diverging or (-1, -1)
    leader = answer.current_leader or (-1, -1)
    aborted = answer.aborted
    return {
        "partition_index": answer.partition,
        "error_code": answer.error_code,
        "high_watermark": answer.high_watermark,
        "last_stable_offset": answer.last_stable_offset,
        "log_start_offset": answer.log_start_offset,
        "records": b"".join(answer.buffers),
        "preferred_read_replica": answer.preferred_read_replica,
        "diverging_epoch": {"epoch": diverging[0], "end_offset": diverging[1]},
        "current_leader": {"leader_id": leader[0], "leader_epoch": leader[1]},
        "aborted_transactions": None
        if aborted is None
        else [{"producer_id": pid, "first_offset": first} for pid, first in aborted],
    }


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=st.integers(0, 1 << 32))
def test_an_answer_is_written_as_kio_does(version: int, seed: int) -> None:
    rng = random.Random(seed)
    answers = random_answers(rng, version)
    topics: list[dict[str, Any]] = []
    for answer in answers:
        if not topics or topics[-1]["raw"] != answer.topic:
            name = (
                {"topic_id": uuid.UUID(bytes=answer.topic)}
                if version >= TOPIC_ID_VERSION
                else {"topic": answer.topic.decode()}
            )
            topics.append({"raw": answer.topic, "partitions": [], **name})
        topics[-1]["partitions"].append(answer_fields(answer))
    endpoints = rng.choice(((), (LeaderEndpoint(1, "host", 9092), LeaderEndpoint(2, "h", 1, "r"))))
    fields = {
        "throttle_time": 3,
        "error_code": 70,
        "session_id": 12,
        "responses": topics,
        "node_endpoints": [
            {"node_id": e.broker_id, "host": e.host, "port": e.port, "rack": e.rack}
            for e in endpoints
        ],
    }
    buffers = encode_fetch_response(
        version, answers, session_id=12, error_code=70, throttle_ms=3, endpoints=endpoints
    )
    assert b"".join(buffers) == kio_bytes(response_schema(ApiKey.FETCH, version), fields)


def test_records_are_handed_on_and_not_copied() -> None:
    records = memoryview(bytes(100))
    buffers = encode_fetch_response(12, [FetchAnswer(b"t", 0, buffers=[records])])
    assert any(buffer is records for buffer in buffers)
