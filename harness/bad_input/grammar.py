"""Valid requests of any key and version, with a note of where each length, count and text is.

The marks are what makes the mutations grammar-based: a mutation changes one length of a request
that is otherwise right, and so gets past the first checks.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.schema import EntitySchema, FieldSchema, request_schema
from penstock.protocol.varint import uvarint
from penstock.record.build import Record, build_batch

TEXTS = ("", "a", "topic-1", "group.1", "žluťoučký kůň")
_SMALL_FIELDS = {"num_partitions", "count", "replication_factor", "max_wait", "timeout"}
_LEGACY_BYTES = {"string": 2, "bytes": 4, "records": 4, "array": 4}


class MarkKind(Enum):
    """What stands at a marked place."""

    LENGTH = "length"
    TEXT = "text"
    TAGS = "tags"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Mark:
    """Bytes [start, end) of the frame; `is_compact` for varint lengths, which mean `value`."""

    kind: MarkKind
    start: int
    end: int
    is_compact: bool = False
    value: int = 0


@dataclass(slots=True)
class MarkedRequest:
    """A valid request without its size field, header included, and its marks."""

    api_key: int
    api_version: int
    body_at: int
    frame: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    """The values that the body was written from."""

    def of(self, kind: MarkKind) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind is kind]


def marked_request(api_key: ApiKey, version: int, rng: random.Random) -> MarkedRequest:
    """Return a random valid request."""
    head = request_header(
        api_key, version, correlation_id=rng.randrange(1 << 31), client_id="bad-input"
    )
    request = MarkedRequest(api_key, version, len(head), bytearray(head))
    schema = request_schema(api_key, version)
    fields = _plain_entity(schema, rng)
    _write_entity(request, schema, fields)
    request.fields = fields
    return request


def _plain_entity(schema: EntitySchema, rng: random.Random) -> dict[str, Any]:
    return {one.name: _plain_value(one, rng) for one in schema.fields}


def _plain_value(field_schema: FieldSchema, rng: random.Random) -> Any:
    if field_schema.is_nullable and rng.random() < 0.2:
        return None
    if field_schema.is_array:
        return [_plain_element(field_schema, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return _plain_element(field_schema, rng)


def _plain_element(field_schema: FieldSchema, rng: random.Random) -> Any:
    if field_schema.entity is not None:
        return _plain_entity(field_schema.entity, rng)
    make = _PLAIN.get(field_schema.kind)
    if make is not None:
        return make(rng)
    return rng.choice((-1, 0, 1, 2) if field_schema.name in _SMALL_FIELDS else (-1, 0, 1, 2, 100))


def valid_batch(rng: random.Random, codec: int = 0) -> bytes:
    """A batch that a broker accepts."""
    records = [
        Record(b"key", rng.randbytes(20), timestamp_ms=1_700_000_000_000)
        for _ in range(rng.choice((1, 3)))
    ]
    return build_batch(records, codec=codec)


_PLAIN: dict[str, Callable[[random.Random], Any]] = {
    "string": lambda rng: rng.choice(TEXTS),
    "uuid": lambda rng: rng.randbytes(16),
    "records": valid_batch,
    "bytes": lambda rng: rng.randbytes(rng.choice((0, 1, 30))),
    "bool": lambda rng: rng.random() < 0.5,
    "uint16": lambda rng: rng.choice((0, 1, 2, 100, 0xFFFF)),
}


def _write_entity(request: MarkedRequest, schema: EntitySchema, fields: dict[str, Any]) -> None:
    for one in schema.fields:
        _write_field(request, one, schema.is_flexible, fields[one.name])
    if schema.is_flexible:
        start = len(request.frame)
        request.frame += b"\0"
        request.marks.append(Mark(MarkKind.TAGS, start, start + 1, True))


def _write_field(
    request: MarkedRequest, field_schema: FieldSchema, is_flexible: bool, value: Any
) -> None:
    if not field_schema.is_array:
        _write_element(request, field_schema, is_flexible, value)
        return
    _write_length(request, "array", is_flexible, value)
    for item in value or ():
        _write_element(request, field_schema, is_flexible, item)


def _write_element(
    request: MarkedRequest, field_schema: FieldSchema, is_flexible: bool, value: Any
) -> None:
    out = request.frame
    if field_schema.entity is not None:
        if field_schema.is_nullable and not field_schema.is_array:
            out += b"\xff" if value is None else b"\x01"
        if value is not None:
            _write_entity(request, field_schema.entity, value)
    elif field_schema.kind in {"string", "bytes", "records"}:
        _write_variable(request, field_schema.kind, is_flexible, value)
    elif field_schema.kind == "uuid":
        out += bytes(16) if value is None else value
    elif field_schema.kind == "bool":
        out.append(bool(value))
    elif field_schema.kind == "float64":
        out += struct.pack(">d", value)
    else:
        size = {"int8": 1, "int16": 2, "uint16": 2, "timedelta_i32": 4, "int32": 4}.get(
            field_schema.kind, 8
        )
        out += int(value).to_bytes(size, "big", signed=field_schema.kind != "uint16")


def _write_length(request: MarkedRequest, kind: str, is_flexible: bool, value: Any) -> None:
    start = len(request.frame)
    length = -1 if value is None else len(value)
    if is_flexible:
        request.frame += uvarint(length + 1)
    else:
        request.frame += length.to_bytes(_LEGACY_BYTES[kind], "big", signed=True)
    end = len(request.frame)
    request.marks.append(Mark(MarkKind.LENGTH, start, end, is_flexible, length))


def _write_variable(request: MarkedRequest, kind: str, is_flexible: bool, value: Any) -> None:
    raw = value.encode() if isinstance(value, str) else value
    _write_length(request, kind, is_flexible, raw)
    if raw:
        start = len(request.frame)
        request.frame += raw
        mark = {"string": MarkKind.TEXT, "records": MarkKind.RECORDS}.get(kind)
        if mark is not None:
            request.marks.append(Mark(mark, start, start + len(raw)))
