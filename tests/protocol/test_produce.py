"""Produce requests and answers by hand, against kio's schemas."""

import random
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plain import kio_bytes, plain_fields
from penstock.protocol import produce
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.decode import ELEMENTS_MAX
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.messages import encode_request, encode_response
from penstock.protocol.primitives import LeaderEndpoint
from penstock.protocol.produce import (
    BATCHES_MAX,
    TOPIC_ID_VERSION,
    PartitionAnswer,
    encode_produce_response,
    parse_produce_request,
)
from penstock.protocol.schema import request_schema, response_schema

VERSIONS = range(3, 14)
ONE = range(1, 2)


def produce_fields(version: int, rng: random.Random, shape: range = range(4)) -> dict[str, Any]:
    """A request whose topics and partitions are as many as `shape` allows."""
    fields = plain_fields(request_schema(ApiKey.PRODUCE, version), rng)
    fields["topic_data"] = [
        {
            "name": f"topic-{topic}" * rng.choice((1, 1, 30)),
            "topic_id": rng.randbytes(16),
            "partition_data": [
                {"index": rng.randrange(1 << 31), "records": rng.randbytes(rng.choice(SIZES))}
                for _ in range(rng.choice(shape))
            ],
        }
        for topic in range(rng.choice(shape))
    ]
    return fields


SIZES = (0, 1, 63, 126, 127, 128, 16_382, 16_383, 16_384)


def expected_partitions(version: int, fields: dict[str, Any]) -> list[tuple[bytes, int, bytes]]:
    return [
        (
            topic["topic_id"] if version >= TOPIC_ID_VERSION else topic["name"].encode(),
            part["index"],
            part["records"],
        )
        for topic in fields["topic_data"]
        for part in topic["partition_data"]
    ]


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=st.integers(0, 1 << 32), is_single=st.booleans())
def test_a_request_reads_as_its_schema_says(version: int, seed: int, is_single: bool) -> None:
    rng = random.Random(seed)
    fields = produce_fields(version, rng, ONE if is_single else range(4))
    frame = memoryview(b"header" + encode_request(ApiKey.PRODUCE, version, fields))
    request = parse_produce_request(frame, 6, version)
    assert request.transactional_id == fields.get("transactional_id")
    assert request.acks == fields.get("acks", 0)
    assert request.timeout_ms == fields.get("timeout", 0)
    found = [
        (part.topic, part.partition, bytes(frame[part.records_at : part.records_end]))
        for part in request.partitions
    ]
    assert found == expected_partitions(version, fields)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_many_megabytes_are_found(version: int) -> None:
    fields = produce_fields(version, random.Random(1), ONE)
    fields["topic_data"][0]["partition_data"][0]["records"] = bytes(3 << 20)
    frame = memoryview(encode_request(ApiKey.PRODUCE, version, fields))
    (part,) = parse_produce_request(frame, 0, version).partitions
    assert part.records_end - part.records_at == 3 << 20


@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_are_an_empty_range(version: int) -> None:
    fields = produce_fields(version, random.Random(1), ONE)
    fields["topic_data"][0]["partition_data"][0]["records"] = None
    frame = memoryview(encode_request(ApiKey.PRODUCE, version, fields))
    (part,) = parse_produce_request(frame, 0, version).partitions
    assert part.records_at == part.records_end


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", [ONE, range(3, 4)])
def test_a_request_cut_short_or_too_long_is_malformed(version: int, shape: range) -> None:
    fields = produce_fields(version, random.Random(2), shape)
    frame = memoryview(encode_request(ApiKey.PRODUCE, version, fields) + b"\0")
    for end in (*range(0, len(frame) - 1, max(1, len(frame) // 300)), len(frame)):
        with pytest.raises(MalformedRequest):
            parse_produce_request(frame[:end], 0, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_any_byte_may_be_wrong(version: int) -> None:
    fields = produce_fields(version, random.Random(3), ONE)
    fields["topic_data"][0]["partition_data"][0]["records"] = b"records"
    body = bytearray(encode_request(ApiKey.PRODUCE, version, fields))
    for at in range(len(body)):
        for wrong in (0, 1, 2, 0x7F, 0x80, 0xFF):
            changed = bytearray(body)
            changed[at] = wrong
            try:
                request = parse_produce_request(memoryview(changed), 0, version)
            except MalformedRequest:
                continue
            assert all(0 <= p.records_at <= p.records_end <= len(body) for p in request.partitions)


def test_too_many_partitions_are_refused() -> None:
    count = ELEMENTS_MAX + 1
    body = b"\xff\xff\0\1\0\0\0\0" + b"\0\0\0\1\0\1t" + count.to_bytes(4, "big")
    with pytest.raises(MalformedRequest, match="too many"):
        parse_produce_request(memoryview(body + bytes(8 * count)), 0, 3)


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_the_batches_of_all_topics_count_together(more, is_taken) -> None:
    half = BATCHES_MAX // 2
    body = b"\xff\xff\0\1\0\0\0\0" + b"\0\0\0\2"
    for count in (half - 2, half + more):
        body += b"\0\1t" + count.to_bytes(4, "big") + bytes(8 * count)
    if is_taken:
        request = parse_produce_request(memoryview(body), 0, 3)
        assert len(request.partitions) == BATCHES_MAX - 2
        return
    with pytest.raises(MalformedRequest, match="more than 14000 topics"):
        parse_produce_request(memoryview(body), 0, 3)


def test_topics_without_batches_count_too() -> None:
    count = BATCHES_MAX + 1
    body = b"\xff\xff\0\1\0\0\0\0" + count.to_bytes(4, "big") + b"\0\1t\0\0\0\0" * count
    with pytest.raises(MalformedRequest, match="more than 14000 topics"):
        parse_produce_request(memoryview(body), 0, 3)


def random_answers(rng: random.Random, is_plain: bool) -> list[PartitionAnswer]:
    topics = [b"a" * rng.choice((1, 200)) for _ in range(rng.choice((1, 1, 2)))]
    return [
        PartitionAnswer(
            topic,
            partition,
            0,
            rng.randrange(1 << 62),
            rng.choice((-1, 5)),
            rng.randrange(1 << 40),
        )
        if is_plain
        else PartitionAnswer(
            topic,
            partition,
            rng.choice((0, 3, 87)),
            rng.randrange(-1, 1 << 62),
            rng.choice((-1, 1_700_000_000_000)),
            rng.randrange(-1, 1 << 40),
            rng.choice((None, "", "why")),
            [(n, rng.choice((None, "bad"))) for n in range(rng.choice((0, 0, 2)))],
            rng.choice((None, (1, 7))),
        )
        for topic in topics
        for partition in range(rng.choice((1, 1, 3)))
    ]


def answer_fields(answers: list[PartitionAnswer], version: int) -> list[dict[str, Any]]:
    topics: list[dict[str, Any]] = []
    for answer in answers:
        if not topics or topics[-1]["raw"] != answer.topic:
            topics.append({"raw": answer.topic, "partition_responses": []})
            if version >= TOPIC_ID_VERSION:
                topics[-1]["topic_id"] = uuid.UUID(bytes=answer.topic)
            else:
                topics[-1]["name"] = answer.topic.decode()
        topics[-1]["partition_responses"].append(partition_fields(answer))
    return topics


def partition_fields(answer: PartitionAnswer) -> dict[str, Any]:
    leader = answer.current_leader or (-1, -1)
    return {
        "index": answer.partition,
        "error_code": answer.error_code,
        "base_offset": answer.base_offset,
        "log_append_time": None if answer.log_append_time_ms < 0 else answer.log_append_time_ms,
        "log_start_offset": answer.log_start_offset,
        "error_message": answer.error_message,
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": message}
            for index, message in answer.record_errors
        ],
        "current_leader": {"leader_id": leader[0], "leader_epoch": leader[1]},
    }


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=st.integers(0, 1 << 32), is_plain=st.booleans())
def test_an_answer_is_written_as_kio_does(version: int, seed: int, is_plain: bool) -> None:
    rng = random.Random(seed)
    answers = random_answers(rng, is_plain)
    if version >= TOPIC_ID_VERSION:
        answers = [a._replace(topic=a.topic.ljust(16, b"x")[:16]) for a in answers]
    throttle_ms = rng.choice((0, 9))
    endpoints = rng.choice(((), (LeaderEndpoint(1, "host", 9092), LeaderEndpoint(2, "h", 1, "r"))))
    fields = {
        "responses": answer_fields(answers, version),
        "throttle_time": throttle_ms,
        "node_endpoints": [
            {"node_id": e.broker_id, "host": e.host, "port": e.port, "rack": e.rack}
            for e in endpoints
        ],
    }
    body = encode_produce_response(version, answers, throttle_ms=throttle_ms, endpoints=endpoints)
    assert body == kio_bytes(response_schema(ApiKey.PRODUCE, version), fields)
    assert body == encode_response(ApiKey.PRODUCE, version, fields)


def test_answers_that_name_what_can_be_no_topic_keep_no_name(monkeypatch) -> None:
    kept: list[bytes] = []

    def note(topic: bytes) -> bytes:
        kept.append(topic)
        return b""

    for name in ("_legacy_head", "_flexible_head"):
        monkeypatch.setattr(produce, name, note)
    for version in (7, 9):
        encode_produce_response(version, [PartitionAnswer(b"n" * 250, 0, 3)])
        encode_produce_response(version, [PartitionAnswer(b"n" * 249, 0, 3)])
    assert [len(name) for name in kept] == [249, 249]
