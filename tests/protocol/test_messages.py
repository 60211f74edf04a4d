"""The general encoder and decoder against kio, for every key and version a client may use."""

import random
import struct
from typing import Any

import pytest

from harness.advertised import EVERY_VERSION
from harness.plain import kio_bytes, kio_decode, plain_fields
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.decode import ELEMENTS_MAX, LIGHT_PART
from penstock.protocol.errors import MalformedRequest, MalformedResponse, UnsupportedVersion
from penstock.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    unknown_fields,
)
from penstock.protocol.schema import request_schema, response_schema
from penstock.protocol.varint import uvarint

SAMPLES = 4


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_requests_are_written_and_read_as_kio_does(key: ApiKey, version: int) -> None:
    schema = request_schema(key, version)
    for sample in range(SAMPLES):
        fields = plain_fields(schema, random.Random(f"{key} {version} {sample}"))
        body = encode_request(key, version, fields)
        assert body == kio_bytes(schema, fields)
        assert decode_request(key, version, memoryview(body), 0) == kio_decode(schema, body)


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_responses_are_written_and_read_as_kio_does(key: ApiKey, version: int) -> None:
    schema = response_schema(key, version)
    for sample in range(SAMPLES):
        fields = plain_fields(schema, random.Random(f"{key} {version} {sample}"))
        body = encode_response(key, version, fields)
        assert body == kio_bytes(schema, fields)
        assert decode_response(key, version, memoryview(body)) == kio_decode(schema, body)


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_a_request_cut_short_anywhere_is_malformed(key: ApiKey, version: int) -> None:
    schema = request_schema(key, version)
    body = encode_request(key, version, plain_fields(schema, random.Random(f"{key} {version}")))
    for end in range(0, len(body), max(1, len(body) // 100)):
        with pytest.raises(MalformedRequest):
            decode_request(key, version, memoryview(body)[:end], 0)


def test_times_may_be_given_with_their_unit_in_the_name() -> None:
    body = encode_response(ApiKey.HEARTBEAT, 1, {"throttle_time_ms": 7, "error_code": 27})
    assert body == struct.pack(">ih", 7, 27)


def test_fields_of_newer_versions_are_left_out_of_older_ones() -> None:
    body = encode_response(ApiKey.HEARTBEAT, 0, {"throttle_time_ms": 7, "error_code": 27})
    assert body == struct.pack(">h", 27)


def test_a_count_beyond_the_frame_is_refused_before_anything_is_reserved() -> None:
    frame = memoryview(b"\xff\xff\xff\xff\x07" + bytes(20))
    with pytest.raises(MalformedRequest, match="more elements than the frame"):
        decode_request(ApiKey.METADATA, 12, frame, 0)


def test_more_array_elements_than_the_cap_are_refused() -> None:
    count = ELEMENTS_MAX + 1
    frame = memoryview(struct.pack(">i", count) + b"\0\0" * count)
    with pytest.raises(MalformedRequest, match="too many array elements"):
        decode_request(ApiKey.METADATA, 1, frame, 0)


def test_broker_ids_of_an_assignment_count_little() -> None:
    one = {"partition_index": 0, "broker_ids": [1, 2, 3]}
    topic = {"name": "t", "num_partitions": -1, "replication_factor": -1, "configs": []}

    def encoded(*assignments: dict[str, Any]) -> memoryview:
        fields = {"topics": [topic | {"assignments": [*assignments]}], "timeout_ms": 1}
        return memoryview(encode_request(ApiKey.CREATE_TOPICS, 7, fields | {"validate_only": True}))

    found = decode_request(ApiKey.CREATE_TOPICS, 7, encoded(*[one] * 90_000), 0)
    assert len(found.topics[0].assignments) == 90_000
    many = {"partition_index": 0, "broker_ids": [1] * (LIGHT_PART * ELEMENTS_MAX)}
    with pytest.raises(MalformedRequest, match="too many array elements"):
        decode_request(ApiKey.CREATE_TOPICS, 7, encoded(many), 0)


def test_bytes_after_the_message_are_malformed() -> None:
    body = encode_request(ApiKey.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"})
    with pytest.raises(MalformedRequest, match="1 bytes follow"):
        decode_request(ApiKey.HEARTBEAT, 4, memoryview(body + b"\0"), 0)


def test_librdkafkas_four_byte_null_list_of_topics_means_all_topics() -> None:
    body = memoryview(bytes.fromhex("00000000010000"))
    assert decode_request(ApiKey.METADATA, 13, body, 0).topics is None


def test_kafka_gos_second_tagged_fields_of_describe_acls_are_ignored() -> None:
    body = memoryview(bytes.fromhex("02 00 03 00 00 00 03 00 00"))
    request = decode_request(ApiKey.DESCRIBE_ACLS, 3, body, 0)
    assert request == decode_request(ApiKey.DESCRIBE_ACLS, 3, body[:-1], 0)


def test_tagged_fields_that_nobody_knows_are_stepped_over() -> None:
    body = encode_request(ApiKey.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"})
    tagged = body[:-1] + b"\x02" + b"\x63\x03abc" + b"\x64\x00"
    request = decode_request(ApiKey.HEARTBEAT, 4, memoryview(tagged), 0)
    assert request == decode_request(ApiKey.HEARTBEAT, 4, memoryview(body), 0)


def test_a_flood_of_tagged_fields_is_refused() -> None:
    body = encode_request(ApiKey.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"})
    flood = body[:-1] + uvarint(1000) + b"\x63\x00" * 1000
    with pytest.raises(MalformedRequest, match="tagged fields"):
        decode_request(ApiKey.HEARTBEAT, 4, memoryview(flood), 0)


def test_a_tagged_field_must_fill_its_length() -> None:
    body = encode_request(ApiKey.FETCH, 12, {"cluster_id": "abc"})
    at = body.index(b"\x01\x00\x04\x04abc")
    with pytest.raises(MalformedRequest, match="does not fill"):
        decode_request(
            ApiKey.FETCH, 12, memoryview(body[:at] + b"\x01\x00\x05\x04abcd" + body[at + 7 :]), 0
        )


def test_null_where_the_schema_has_no_null_is_malformed() -> None:
    with pytest.raises(MalformedRequest, match="null"):
        decode_request(ApiKey.HEARTBEAT, 0, memoryview(b"\xff\xff\0\0\0\1\0\0"), 0)


def test_a_malformed_answer_is_named_as_such() -> None:
    with pytest.raises(MalformedResponse):
        decode_response(ApiKey.HEARTBEAT, 0, memoryview(b"\0"))


def test_keys_and_versions_without_a_schema_are_unsupported() -> None:
    for key, version in ((4, 0), (ApiKey.PRODUCE, 2), (ApiKey.HEARTBEAT, 99), (-1, -1)):
        with pytest.raises(UnsupportedVersion):
            decode_request(key, version, memoryview(b""), 0)


def test_misspelt_names_are_found() -> None:
    schema = response_schema(ApiKey.METADATA, 12)
    fields = {"throttle_time_ms": 0, "broker": [], "topics": [{"nam": "x", "name": "y"}]}
    assert unknown_fields(schema, fields) == ["broker", "topics.nam"]
