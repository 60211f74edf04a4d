"""Request and response headers, with kio's header classes as the twin."""

import struct
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer

from harness.advertised import EVERY_VERSION
from penstock.protocol.api_keys import ApiKey, is_flexible
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.header import (
    has_tagged_response_header,
    parse_request_header,
    parse_response_header,
    request_header,
)
from penstock.protocol.varint import read_uvarint, uvarint


def test_api_keys_and_flexible_versions_are_those_of_the_schemas() -> None:
    for key in ApiKey:
        name = api_key_map[key]
        assert key.name == name.upper()
        for version in schema_name_map[name]:
            assert is_flexible(key, version) == load_request_schema(key, version).__flexible__
            assert is_flexible(key, version) == load_response_schema(key, version).__flexible__


def test_error_codes_are_those_of_kafka() -> None:
    ours = [(code.name, int(code), code.retriable) for code in ErrorCode]
    assert ours == [(code.name.upper(), int(code), code.retriable) for code in KioErrorCode]


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_headers_are_written_as_kio_does_and_read_back(key: ApiKey, version: int) -> None:
    header_type: Any = load_request_schema(key, version).__header_schema__
    out = BytesIO()
    entity_writer(header_type)(
        out,
        header_type(
            request_api_key=int(key),
            request_api_version=version,
            correlation_id=77,
            client_id="čaj",
        ),
    )
    assert request_header(key, version, correlation_id=77, client_id="čaj") == out.getvalue()
    parsed = parse_request_header(memoryview(out.getvalue()))
    assert parsed == (key, version, 77, "čaj", len(out.getvalue()))


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_response_headers_are_read_as_kio_writes_them(key: ApiKey, version: int) -> None:
    header_type: Any = load_response_schema(key, version).__header_schema__
    out = BytesIO()
    entity_writer(header_type)(out, header_type(correlation_id=78))
    assert parse_response_header(memoryview(out.getvalue()), key, version) == (
        78,
        len(out.getvalue()),
    )


def test_api_versions_answers_have_the_old_header_in_every_version() -> None:
    assert not any(has_tagged_response_header(ApiKey.API_VERSIONS, v) for v in range(6))


def test_a_client_id_may_be_null() -> None:
    frame = struct.pack(">hhih", ApiKey.METADATA, 1, 5, -1)
    assert parse_request_header(memoryview(frame)) == (3, 1, 5, None, len(frame))


def test_tags_of_a_request_header_are_stepped_over() -> None:
    frame = struct.pack(">hhih", ApiKey.METADATA, 9, 5, -1) + b"\x01\x00\x02zz"
    assert parse_request_header(memoryview(frame)).body_at == len(frame)


def test_an_api_versions_request_from_the_future_can_be_answered() -> None:
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 9, 5, -1) + b"\xff\xff"
    assert parse_request_header(memoryview(frame)).correlation_id == 5


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12\0\0\0\0\0",
        struct.pack(">hhih", 3, 1, 5, 9) + b"short",
        struct.pack(">hhih", 3, 1, 5, -2),
        struct.pack(">hhih", 3, 1, 5, 1) + b"\xff",
        struct.pack(">hhih", 3, 9, 5, -1),
        struct.pack(">hhih", 3, 9, 5, -1) + b"\x01\x00\x05a",
        struct.pack(">hhih", 3, 9, 5, -1) + uvarint(65) + b"\x01\x00" * 65,
        struct.pack(">hhih", 3, 9, 5, -1) + b"\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_broken_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request_header(memoryview(frame))


@given(st.integers(0, (1 << 31) - 1))
def test_varints_come_back(value: int) -> None:
    assert read_uvarint(uvarint(value), 0) == (value, len(uvarint(value)))


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff\xff\xff\xff\x0f", b"\x80" * 5 + b"\x00"])
def test_varints_that_end_early_or_are_too_long_are_malformed(encoded: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_uvarint(encoded, 0)
