"""Decoding and encoding long messages in slices, so that the event loop can do other work between.

    decode_slices, encode_slices    generators: each step does a bounded part, the last one returns

A slice is about `SLICE` elements of arrays, at any depth; other fields are bounded anyway. The
result is the same as with decode.py and encode.py, byte for byte; their closures do everything
except arrays.

Source: as in decode.py and encode.py. Not here: when the next slice runs.
"""

import struct
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from penstock.protocol.decode import (
    Cursor,
    array_begin,
    element_reader,
    entity_defaults,
    entity_steps,
    entity_tags,
)
from penstock.protocol.encode import (
    PRESENT,
    array_head,
    element_writer,
    entity_tags_step,
    entity_write_steps,
)
from penstock.protocol.errors import MalformedRequest
from penstock.protocol.schema import EntitySchema, FieldSchema

SLICE = 250
"""Elements in one slice: about a millisecond."""
SLICE_BYTES = 256 << 10
"""Bytes encoded in one slice, plus one element: members of groups have 64 KiB each."""

Decoding = Generator[None, None, Any]
Encoding = Generator[int, None, bytearray]
"""Each step yields the number of bytes encoded so far."""


class _Pace:
    """Counts elements and encoded bytes; says when a slice is full."""

    __slots__ = ("count", "written")

    def __init__(self) -> None:
        self.count = 0
        self.written = 0

    def is_full(self) -> bool:
        self.count += 1
        if self.count < SLICE:
            return False
        self.count = 0
        return True

    def is_written_full(self, size: int) -> bool:
        """Whether a slice ends here, with `size` bytes encoded in all."""
        if not self.is_full() and size - self.written < SLICE_BYTES:
            return False
        self.count, self.written = 0, size
        return True


class _Array(NamedTuple):
    """An array: `each` reads or writes an element, or `inner` does if elements contain arrays.

    With `is_one` it is a single entity that contains arrays, or none of it.
    """

    field: FieldSchema
    is_flexible: bool
    each: Callable[..., Any]
    inner: "_Plan | None"
    is_one: bool


class _Plan(NamedTuple):
    """An entity, split at its arrays: (steps before an array, array or None), and tagged fields."""

    entity_type: type[Any]
    parts: list[tuple[list[Callable[[Any, Any], None]], _Array | None]]
    defaults: dict[str, Any]
    tags: Callable[[Any, Any], None] | None


def decode_slices(
    schema: EntitySchema,
    buffer: memoryview,
    at: int,
    elements_max: int,
    *,
    may_leave: bool = False,
) -> Decoding:
    """Decode as decode.decode does. Raises MalformedRequest from a step."""
    cursor = Cursor(buffer, at, elements_max)
    try:
        entity = yield from _decode_entity(_reading(schema), cursor, _Pace())
    except struct.error:
        raise MalformedRequest("the frame ends inside a field") from None
    except UnicodeDecodeError:
        raise MalformedRequest("a string is not UTF-8") from None
    if cursor.at != len(buffer) and not may_leave:
        raise MalformedRequest(f"{len(buffer) - cursor.at} bytes follow the message")
    return entity


def encode_slices(schema: EntitySchema, fields: Mapping[str, Any]) -> Encoding:
    """Encode as encode.encode does."""
    out = bytearray()
    yield from _encode_entity(_writing(schema), out, fields, _Pace())
    return out


def _decode_entity(plan: _Plan, cursor: Cursor, pace: _Pace) -> Decoding:
    values: dict[str, Any] = dict(plan.defaults)
    for steps, array in plan.parts:
        for step in steps:
            step(cursor, values)
        if array is not None:
            decoding = _decode_one if array.is_one else _decode_array
            values[array.field.name] = yield from decoding(array, cursor, pace)
    if plan.tags is not None:
        plan.tags(cursor, values)
    return plan.entity_type(**values)


def _decode_array(array: _Array, cursor: Cursor, pace: _Pace) -> Decoding:
    count = array_begin(array.field, array.is_flexible, cursor)
    if count is None:
        return None
    items: list[Any] = []
    for _ in range(count):
        if array.inner is None:
            items.append(array.each(cursor))
        else:
            items.append((yield from _decode_entity(array.inner, cursor, pace)))
        if pace.is_full():
            yield
    return tuple(items)


def _decode_one(array: _Array, cursor: Cursor, pace: _Pace) -> Decoding:
    assert array.inner is not None
    if array.field.is_nullable:
        (marker,) = struct.unpack_from(">b", cursor.buffer, cursor.at)
        cursor.at += 1
        if marker < 0:
            return None
    return (yield from _decode_entity(array.inner, cursor, pace))


def _encode_entity(
    plan: _Plan, out: bytearray, fields: Mapping[str, Any], pace: _Pace
) -> Generator[int, None, None]:
    get = fields.get
    for steps, array in plan.parts:
        for step in steps:
            step(out, get)
        if array is not None:
            items = get(array.field.name, array.field.default)
            encoding = _encode_one if array.is_one else _encode_array
            yield from encoding(array, out, items, pace)
    if plan.tags is not None:
        plan.tags(out, get)


def _encode_array(
    array: _Array, out: bytearray, items: Any, pace: _Pace
) -> Generator[int, None, None]:
    out += array_head(array.field, array.is_flexible, items)
    for item in items or ():
        if array.inner is None:
            array.each(out, item)
        else:
            yield from _encode_entity(array.inner, out, item, pace)
        if pace.is_written_full(len(out)):
            yield len(out)


def _encode_one(
    array: _Array, out: bytearray, item: Any, pace: _Pace
) -> Generator[int, None, None]:
    if item is None or array.inner is None:
        array.each(out, item)
        return
    if array.field.is_nullable:
        out += PRESENT
    yield from _encode_entity(array.inner, out, item, pace)


_plans: dict[tuple[type[Any], bool], _Plan] = {}
"""By kio's class of the message, and whether it is read. Bounded by the number of messages."""


def _reading(schema: EntitySchema) -> _Plan:
    return _plan(schema, is_read=True)


def _writing(schema: EntitySchema) -> _Plan:
    return _plan(schema, is_read=False)


def _plan(schema: EntitySchema, *, is_read: bool) -> _Plan:
    key = schema.entity_type, is_read
    if key not in _plans:
        _plans[key] = _Plan(
            schema.entity_type,
            _parts(schema, is_read=is_read),
            entity_defaults(schema),
            entity_tags(schema) if is_read else entity_tags_step(schema),
        )
    return _plans[key]


def _parts(
    schema: EntitySchema, *, is_read: bool
) -> list[tuple[list[Callable[[Any, Any], None]], _Array | None]]:
    """Split the fields of an entity at its arrays, and at entities that contain some."""
    parts = []
    plain: list[FieldSchema] = []
    for field in (*schema.fields, None):
        if field is not None and not _is_long(field):
            plain.append(field)
            continue
        before = schema._replace(fields=tuple(plain))
        steps: Any = entity_steps(before) if is_read else entity_write_steps(before)
        parts.append((steps, None if field is None else _array(schema, field, is_read=is_read)))
        plain = []
    return parts


def _array(schema: EntitySchema, field: FieldSchema, *, is_read: bool) -> _Array:
    is_flexible = schema.is_flexible
    each = (element_reader if is_read else element_writer)(field, is_flexible)
    inner = None
    if field.entity is not None and any(map(_is_long, field.entity.fields)):
        inner = _plan(field.entity, is_read=is_read)
    return _Array(field, is_flexible, each, inner, is_one=not field.is_array)


def _is_long(field: FieldSchema) -> bool:
    """Whether a field is an array, or an entity that contains one."""
    if field.is_array or field.entity is None:
        return field.is_array
    return any(map(_is_long, field.entity.fields))
