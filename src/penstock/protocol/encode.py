"""Messages to bytes: an encoder compiled from a schema, fed with plain mappings.

A caller gives one mapping for all versions of an answer: fields that a version does not have are
left out, missing fields take Kafka's default. Names are those of kio's classes; times may also be
given with the suffix `_ms`, as `throttle_time_ms`. Values are plain: int for every number, error
code and time (milliseconds), str, bytes, a UUID or its 16 bytes, None for null, mappings for
structures, any sequence for arrays.

Bytes are written directly from the mapping: building kio's objects and writing those costs about
five times as much. A test compares the result with kio's writer for every message and version.

Source: Kafka's protocol guide (types), KIP-482 (a tagged field with its default value is not
sent), KIP-893 (nullable structures).
"""

import dataclasses
import functools
import itertools
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.protocol.schema import EntitySchema, FieldSchema
from penstock.protocol.varint import uvarint

Write = Callable[[bytearray, Any], None]
Get = Callable[[str, Any], Any]
Step = Callable[[bytearray, Get], None]

_MISSING = object()
_ZERO_UUID = bytes(16)
_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIXED_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "error_code": "h",
}
_TIME_CODES = {"timedelta_i32": "i", "timedelta_i64": "q", "datetime_i64": "q"}


def encode(schema: EntitySchema, fields: Mapping[str, Any]) -> bytes:
    """Encode one message.

    A value that does not fit its field (a string for a number, null for a field that is not
    nullable) is an error of the caller and raises struct.error, TypeError or AttributeError.
    """
    out = bytearray()
    _entity_writer(schema)(out, fields)
    return bytes(out)


@functools.cache
def _entity_writer(schema: EntitySchema) -> Write:
    steps = entity_write_steps(schema)
    write_tags = entity_tags_step(schema)
    if write_tags is not None:
        steps.append(write_tags)

    def write_entity(out: bytearray, fields: Mapping[str, Any]) -> None:
        get = fields.get
        for step in steps:
            step(out, get)

    return write_entity


@functools.cache
def entity_tags_step(schema: EntitySchema) -> Step | None:
    """Return the step that writes the tagged fields; None for versions without tagged fields."""
    if not schema.is_flexible:
        return None
    return _tags_step(schema) if schema.tagged else _no_tags


def _no_tags(out: bytearray, get: Get) -> None:
    out.append(0)


def entity_write_steps(schema: EntitySchema) -> list[Step]:
    """Return the steps in wire order: one for each run of numbers, one for each other field."""
    steps: list[Step] = []
    for is_number, group in itertools.groupby(schema.fields, _is_number):
        if is_number:
            steps.append(_numbers_step(list(group)))
        else:
            steps += [_single_step(field, schema.is_flexible) for field in group]
    return steps


def _is_number(field: FieldSchema) -> bool:
    return field.kind in _FIXED_CODES and not field.is_array


def _numbers_step(fields: list[FieldSchema]) -> Step:
    pack = struct.Struct(">" + "".join(_FIXED_CODES[field.kind] for field in fields)).pack
    plan = [(field.name, field.default) for field in fields]
    if len(plan) == 1:
        ((only, only_default),) = plan

        def write_number(out: bytearray, get: Get) -> None:
            out += pack(get(only, only_default))

        return write_number

    def write_numbers(out: bytearray, get: Get) -> None:
        out += pack(*[get(name, default) for name, default in plan])

    return write_numbers


def _single_step(field: FieldSchema, is_flexible: bool) -> Step:
    name, alias, default, write = _field_plan(field, is_flexible)
    if alias is None:

        def write_single(out: bytearray, get: Get) -> None:
            write(out, get(name, default))

        return write_single

    def write_time(out: bytearray, get: Get) -> None:
        value = get(name, _MISSING)
        write(out, get(alias, default) if value is _MISSING else value)

    return write_time


def _field_plan(field: FieldSchema, is_flexible: bool) -> tuple[str, str | None, object, Write]:
    alias = f"{field.name}_ms" if field.kind in _TIME_CODES else None
    default = field.default
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        default = dataclasses.asdict(default)
    return field.name, alias, default, _field_writer(field, is_flexible)


def _tags_step(schema: EntitySchema) -> Step:
    plan = []
    for field in schema.tagged:
        name, alias, default, write = _field_plan(field, True)
        unsent = bytearray()
        if default is not None or field.is_nullable or field.kind == "uuid":
            write(unsent, default)
        plan.append((uvarint(field.tag), name, alias, default, write, bytes(unsent)))

    def write_tags(out: bytearray, get: Get) -> None:
        count = 0
        section = bytearray()
        for tag, name, alias, default, write, unsent in plan:
            value = get(name, _MISSING)
            if value is _MISSING:
                value = _MISSING if alias is None else get(alias, _MISSING)
            if value is _MISSING or value is default is None:
                continue
            encoded = bytearray()
            write(encoded, value)
            if encoded != unsent:
                count += 1
                section += tag + uvarint(len(encoded)) + encoded
        out += uvarint(count) + section

    return write_tags


def _field_writer(field: FieldSchema, is_flexible: bool) -> Write:
    write = element_writer(field, is_flexible)
    if not field.is_array:
        return write
    code = _FIXED_CODES.get(field.kind)

    def write_array(out: bytearray, items: Sequence[Any] | None) -> None:
        out += array_head(field, is_flexible, items)
        if items is None:
            return
        if code is not None:
            out += _numbers_layout(len(items), code).pack(*items)
            return
        for item in items:
            write(out, item)

    return write_array


def array_head(field: FieldSchema, is_flexible: bool, items: Sequence[Any] | None) -> bytes:
    """Return the encoded count of an array's elements; for None, an encoded null array."""
    if items is None:
        if not field.is_nullable:
            raise TypeError(f"{field.name} may not be null")
        return b"\0" if is_flexible else b"\xff\xff\xff\xff"
    return _compact_count(len(items)) if is_flexible else _legacy_count(len(items))


@functools.lru_cache(maxsize=256)
def _numbers_layout(count: int, code: str) -> struct.Struct:
    return struct.Struct(f">{count}{code}")


def element_writer(field: FieldSchema, is_flexible: bool) -> Write:
    is_nullable = field.is_nullable and not field.is_array
    if field.entity is not None:
        write = _entity_writer(field.entity)
        return _nullable_entity_writer(write) if is_nullable and field.tag < 0 else write
    if field.kind in _FIXED_CODES:
        return _fixed_writer(_FIXED_CODES[field.kind])
    if field.kind in _TIME_CODES:
        return _time_writer(_TIME_CODES[field.kind])
    if field.kind == "uuid":
        return _write_uuid
    if field.kind == "string":
        return _string_writer(field.name, is_flexible, is_nullable)
    return _bytes_writer(field.name, is_flexible, is_nullable)


def _compact_count(count: int) -> bytes:
    return uvarint(count + 1)


def _legacy_count(count: int) -> bytes:
    return count.to_bytes(4, "big", signed=True)


def _fixed_writer(code: str) -> Write:
    pack = struct.Struct(">" + code).pack

    def write_fixed(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write_fixed


def _time_writer(code: str) -> Write:
    pack = struct.Struct(">" + code).pack

    def write_time(out: bytearray, value: int | timedelta | datetime | None) -> None:
        out += pack(value if type(value) is int else _milliseconds(value))

    return write_time


def _milliseconds(value: int | timedelta | datetime | None) -> int:
    if value is None:
        return -1
    if isinstance(value, datetime):
        value = value - _EPOCH
    if isinstance(value, timedelta):
        return round(value / _MILLISECOND)
    return int(value)


def _write_uuid(out: bytearray, value: uuid.UUID | bytes | None) -> None:
    if value is None:
        out += _ZERO_UUID
        return
    raw = value.bytes if isinstance(value, uuid.UUID) else bytes(value)
    if len(raw) != len(_ZERO_UUID):
        raise TypeError("an id has 16 bytes")
    out += raw


def _string_writer(name: str, is_flexible: bool, is_nullable: bool) -> Write:
    def write_string(out: bytearray, value: str | None) -> None:
        if value is None:
            if not is_nullable:
                raise TypeError(f"{name} may not be null")
            out += b"\0" if is_flexible else b"\xff\xff"
            return
        raw = value.encode()
        out += uvarint(len(raw) + 1) if is_flexible else len(raw).to_bytes(2, "big", signed=True)
        out += raw

    return write_string


def _bytes_writer(name: str, is_flexible: bool, is_nullable: bool) -> Write:
    def write_bytes(out: bytearray, value: bytes | bytearray | memoryview | None) -> None:
        if value is None:
            if not is_nullable:
                raise TypeError(f"{name} may not be null")
            out += b"\0" if is_flexible else b"\xff\xff\xff\xff"
            return
        out += _compact_count(len(value)) if is_flexible else _legacy_count(len(value))
        out += value

    return write_bytes


PRESENT = b"\x01"
"""In front of an entity that may be null, and is not."""


def _nullable_entity_writer(write: Write) -> Write:
    def write_nullable(out: bytearray, value: Mapping[str, Any] | None) -> None:
        if value is None:
            out += b"\xff"
            return
        out += PRESENT
        write(out, value)

    return write_nullable
