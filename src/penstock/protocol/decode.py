"""Bytes to messages: a safe decoder compiled from a schema.

Each schema becomes a chain of small closures over one `Cursor`; a run of fields of fixed size is
one struct. The result is kio's dataclass for that version.

Why not kio's own decoder: version 0.6.5 allocates memory for any count that a compact array claims,
so one 20-byte frame aborts the process, and it refuses unknown tagged fields, which KIP-482
forbids. Here a count is checked against the bytes left before anything is built, unknown tags are
skipped, and every error is a MalformedRequest.

Source: Kafka's protocol guide (types), KIP-482 (tags), KIP-893 (nullable structures), Kafka 4.4
upgrade notes (caps on decoding). Not here: Produce and Fetch requests, which are parsed by hand.
"""

import functools
import struct
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.protocol.errors import MalformedRequest
from penstock.protocol.header import TAGS_MAX
from penstock.protocol.kio_names import ErrorCode as KioErrorCode
from penstock.protocol.schema import (
    FIXED_BYTES,
    EntitySchema,
    FieldSchema,
    min_element_bytes,
)
from penstock.protocol.varint import read_uvarint

ELEMENTS_MAX = 100_000
"""Array elements in one message, all arrays together: an element of 3 bytes on the wire costs
some 200 bytes as an object, so the bytes of a frame alone do not bound its memory."""

LIGHT_FIELDS = frozenset({"broker_ids"})
LIGHT_PART = 8
"""So many elements of LIGHT_FIELDS count as one: they are plain numbers, nothing is answered for
them, and each partition of an assignment has a few."""

STRING_BYTES_MAX = 0x7FFF
"""Kafka's limit for both string encodings (int16)."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_STRUCT_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
assert _STRUCT_CODES.keys() == FIXED_BYTES.keys()


class Cursor:
    """A read position in one message, and the array elements that it may still have."""

    __slots__ = ("at", "buffer", "elements_left")

    def __init__(self, buffer: memoryview, at: int, elements_max: int) -> None:
        self.buffer = buffer
        self.at = at
        self.elements_left = elements_max


Read = Callable[[Cursor], Any]
Step = Callable[[Cursor, dict[str, Any]], None]


def decode(
    schema: EntitySchema,
    buffer: memoryview,
    at: int,
    elements_max: int,
    *,
    may_leave: bool = False,
) -> Any:
    """Decode `buffer` from `at` to its end as one message. Raises MalformedRequest.

    With `may_leave`, bytes behind the message are ignored.
    """
    cursor = Cursor(buffer, at, elements_max)
    try:
        entity = _entity_reader(schema)(cursor)
    except struct.error:
        raise MalformedRequest("the frame ends inside a field") from None
    except UnicodeDecodeError:
        raise MalformedRequest("a string is not UTF-8") from None
    if cursor.at != len(buffer) and not may_leave:
        raise MalformedRequest(f"{len(buffer) - cursor.at} bytes follow the message")
    return entity


@functools.cache
def _entity_reader(schema: EntitySchema) -> Read:
    steps = entity_steps(schema)
    entity_type = schema.entity_type
    defaults = entity_defaults(schema)
    read_tags = entity_tags(schema)

    def read_entity(cursor: Cursor) -> Any:
        values: dict[str, Any] = dict(defaults)
        for step in steps:
            step(cursor, values)
        if read_tags is not None:
            read_tags(cursor, values)
        return entity_type(**values)

    return read_entity


@functools.cache
def entity_defaults(schema: EntitySchema) -> dict[str, Any]:
    """Return the values of tagged fields that are absent from a message."""
    return {field.name: _tag_default(field) for field in schema.tagged}


@functools.cache
def entity_tags(schema: EntitySchema) -> Step | None:
    """Return the step that reads the tagged fields; None for versions without tagged fields."""
    return _tags_step(schema) if schema.is_flexible else None


def entity_steps(schema: EntitySchema) -> list[Step]:
    """Return the steps that read the fields of an entity, in wire order."""
    steps: list[Step] = []
    run: list[FieldSchema] = []
    for field in schema.fields:
        if field.kind in FIXED_BYTES and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_step(run))
            run = []
        steps.append(_single_step(field, schema.is_flexible))
    if run:
        steps.append(_fixed_step(run))
    return steps


def _fixed_step(fields: list[FieldSchema]) -> Step:
    layout = struct.Struct(">" + "".join(_STRUCT_CODES[field.kind] for field in fields))
    names = [field.name for field in fields]
    converted = [
        (field.name, convert) for field in fields if (convert := _converter(field)) is not None
    ]

    def read_run(cursor: Cursor, values: dict[str, Any]) -> None:
        values.update(zip(names, layout.unpack_from(cursor.buffer, cursor.at), strict=True))
        cursor.at += layout.size
        for name, convert in converted:
            values[name] = convert(values[name])

    return read_run


def _single_step(field: FieldSchema, is_flexible: bool) -> Step:
    read = field_reader(field, is_flexible)
    name = field.name

    def read_one(cursor: Cursor, values: dict[str, Any]) -> None:
        values[name] = read(cursor)

    return read_one


def _tags_step(schema: EntitySchema) -> Step:
    readers = {field.tag: (field.name, field_reader(field, True)) for field in schema.tagged}

    def read_tags(cursor: Cursor, values: dict[str, Any]) -> None:
        count, cursor.at = read_uvarint(cursor.buffer, cursor.at)
        if count > TAGS_MAX:
            raise MalformedRequest(f"more than {TAGS_MAX} tagged fields")
        for _ in range(count):
            tag, cursor.at = read_uvarint(cursor.buffer, cursor.at)
            size, cursor.at = read_uvarint(cursor.buffer, cursor.at)
            end = cursor.at + size
            if end > len(cursor.buffer):
                raise MalformedRequest("a tagged field is longer than the frame")
            known = readers.get(tag)
            if known is not None:
                name, read = known
                values[name] = read(cursor)
                if cursor.at != end:
                    raise MalformedRequest(f"tagged field {name} does not fill its length")
            cursor.at = end

    return read_tags


def _tag_default(field: FieldSchema) -> Any:
    if field.entity is not None and not field.is_array and field.default == {}:
        return _default_entity(field.entity)
    convert = _converter(field)
    if convert is None or field.is_array or type(field.default) is not int:
        return field.default
    return convert(field.default)


def _default_entity(schema: EntitySchema) -> Any:
    return schema.entity_type(
        **{field.name: _tag_default(field) for field in (*schema.fields, *schema.tagged)}
    )


def field_reader(field: FieldSchema, is_flexible: bool) -> Read:
    """Return the closure that reads this field, array or not."""
    if not field.is_array:
        return element_reader(field, is_flexible)
    return _array_reader(field, is_flexible)


def element_reader(field: FieldSchema, is_flexible: bool) -> Read:
    if field.entity is not None:
        read = _entity_reader(field.entity)
        return _nullable_entity_reader(read) if field.is_nullable and not field.is_array else read
    if field.kind in FIXED_BYTES:
        return _fixed_reader(field)
    is_nullable = field.is_nullable and not field.is_array
    if field.kind == "string":
        return _string_reader(is_flexible, is_nullable)
    return _bytes_reader(is_flexible, is_nullable or field.kind == "records")


def _fixed_reader(field: FieldSchema) -> Read:
    layout = struct.Struct(">" + _STRUCT_CODES[field.kind])
    convert = _converter(field)

    def read_fixed(cursor: Cursor) -> Any:
        (value,) = layout.unpack_from(cursor.buffer, cursor.at)
        cursor.at += layout.size
        return value if convert is None else convert(value)

    return read_fixed


def _nullable_entity_reader(read: Read) -> Read:
    def read_nullable(cursor: Cursor) -> Any:
        (marker,) = struct.unpack_from(">b", cursor.buffer, cursor.at)
        cursor.at += 1
        return None if marker < 0 else read(cursor)

    return read_nullable


def _read_length(cursor: Cursor, is_flexible: bool, legacy: struct.Struct) -> int:
    """Read a length or count; -1 is null."""
    if is_flexible:
        length, cursor.at = read_uvarint(cursor.buffer, cursor.at)
        return length - 1
    (length,) = legacy.unpack_from(cursor.buffer, cursor.at)
    cursor.at += legacy.size
    if length < -1:
        raise MalformedRequest("a length is negative")
    return int(length)


def _string_reader(is_flexible: bool, is_nullable: bool) -> Read:
    def read_string(cursor: Cursor) -> str | None:
        length = _read_length(cursor, is_flexible, _INT16)
        if length < 0:
            if not is_nullable:
                raise MalformedRequest("a string that may not be null is null")
            return None
        start = cursor.at
        end = start + length
        if length > STRING_BYTES_MAX or end > len(cursor.buffer):
            raise MalformedRequest("a string is longer than the frame or than 32767 bytes")
        cursor.at = end
        return str(cursor.buffer[start:end], "utf-8")

    return read_string


def _bytes_reader(is_flexible: bool, is_nullable: bool) -> Read:
    def read_bytes(cursor: Cursor) -> bytes | None:
        length = _read_length(cursor, is_flexible, _INT32)
        if length < 0:
            if not is_nullable:
                raise MalformedRequest("bytes that may not be null are null")
            return None
        start = cursor.at
        end = start + length
        if end > len(cursor.buffer):
            raise MalformedRequest("a byte field is longer than the frame")
        cursor.at = end
        return bytes(cursor.buffer[start:end])

    return read_bytes


def _array_reader(field: FieldSchema, is_flexible: bool) -> Read:
    if field.entity is None and field.kind in FIXED_BYTES and _converter(field) is None:
        return _numbers_reader(field, is_flexible)
    read_element = element_reader(field, is_flexible)

    def read_array(cursor: Cursor) -> tuple[Any, ...] | None:
        count = array_begin(field, is_flexible, cursor)
        if count is None:
            return None
        return tuple([read_element(cursor) for _ in range(count)])

    return read_array


def _numbers_reader(field: FieldSchema, is_flexible: bool) -> Read:
    """Numbers are read all at once: a frame may have tens of thousands of them."""
    code, size = _STRUCT_CODES[field.kind], FIXED_BYTES[field.kind]

    def read_numbers(cursor: Cursor) -> tuple[Any, ...] | None:
        count = array_begin(field, is_flexible, cursor)
        if count is None:
            return None
        found = struct.unpack_from(f">{count}{code}", cursor.buffer, cursor.at)
        cursor.at += count * size
        return found

    return read_numbers


def array_begin(field: FieldSchema, is_flexible: bool, cursor: Cursor) -> int | None:
    """Read and check the number of elements that follow; None is a null array."""
    count = _read_length(cursor, is_flexible, _INT32)
    if count < 0:
        if not field.is_nullable:
            raise MalformedRequest("an array that may not be null is null")
        return None
    if count * min_element_bytes(field, is_flexible) > len(cursor.buffer) - cursor.at:
        raise MalformedRequest("an array has more elements than the frame has room for")
    cursor.elements_left -= count // LIGHT_PART if field.name in LIGHT_FIELDS else count
    if cursor.elements_left < 0:
        raise MalformedRequest("too many array elements in one message")
    return count


def _converter(field: FieldSchema) -> Callable[[Any], Any] | None:
    converters: dict[str, Callable[[Any], Any]] = {
        "uuid": _to_uuid,
        "error_code": _to_error_code,
        "timedelta_i32": _to_timedelta,
        "timedelta_i64": _to_timedelta,
        "datetime_i64": _to_datetime_or_none if field.is_nullable else _to_datetime,
    }
    return converters.get(field.kind)


def _to_uuid(raw: bytes) -> uuid.UUID | None:
    return uuid.UUID(bytes=raw) if any(raw) else None


def _to_error_code(code: int) -> KioErrorCode:
    try:
        return KioErrorCode(code)
    except ValueError:
        raise MalformedRequest(f"error code {code} does not exist") from None


def _to_timedelta(milliseconds: int) -> timedelta:
    """Return a span; one beyond three million years, as Java's largest long, is the longest."""
    try:
        return timedelta(milliseconds=milliseconds)
    except OverflowError:
        return timedelta.max if milliseconds > 0 else timedelta.min


def _to_datetime(milliseconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise MalformedRequest("a point in time is too far away") from None


def _to_datetime_or_none(milliseconds: int) -> datetime | None:
    return None if milliseconds == -1 else _to_datetime(milliseconds)
