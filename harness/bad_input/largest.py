"""The largest legal requests of every API, built from its schema: one for each array in it.

For each array, nested ones too: as many elements as a message may have and a frame has room for,
those around it once, those within its elements once or not at all. Names differ from one another,
so that nothing is answered once for all.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.protocol.decode import ELEMENTS_MAX, LIGHT_FIELDS, LIGHT_PART
from penstock.protocol.encode import encode
from penstock.protocol.header import request_header
from penstock.protocol.schema import EntitySchema, FieldSchema, request_schema

FRAME_BYTES_MAX = (4 << 20) - 1024
BYTES_FIELD = 1_000
_SIZE_BYTES = 4
_SPREAD = 1_000
"""Numbers count up to here, and again: partitions of a topic, and such."""


_INT8 = {"resource_type": 2, "upgrade_type": 1}
"""A topic, and a raise of a level: of another kind the first element ends a request."""


class Largest(NamedTuple):
    """A request, and which of its arrays is as long as it can be."""

    key: int
    version: int
    array: str
    frame: bytes


def largest_requests(
    key: int, version: int, frame_bytes: int = FRAME_BYTES_MAX
) -> Iterator[Largest]:
    """Yield the requests of one API and version, size field included."""
    schema = request_schema(key, version)
    head = request_header(key, version, correlation_id=7, client_id="largest")
    for path in _arrays(schema):
        for inner in (0, 1):
            room = frame_bytes - _SIZE_BYTES - len(head)
            body = encode(schema, _longest(schema, path, inner, room))
            frame = (len(head) + len(body)).to_bytes(_SIZE_BYTES, "big") + head + body
            yield Largest(key, version, f"{'.'.join(path)} x{inner}", frame)


def has_arrays(key: int, version: int) -> bool:
    """Whether an API has any such requests, without building them: each takes up to a second."""
    return next(_arrays(request_schema(key, version)), None) is not None


def _arrays(schema: EntitySchema) -> Iterator[tuple[str, ...]]:
    for field in schema.fields:
        if field.is_array:
            yield (field.name,)
        if field.entity is not None:
            yield from ((field.name, *path) for path in _arrays(field.entity))


def _longest(schema: EntitySchema, path: tuple[str, ...], inner: int, room: int) -> dict[str, Any]:
    """Fields whose array at `path` has as many elements as go in; arrays within have `inner`."""
    count = 1
    for most in (1_000, ELEMENTS_MAX):
        few = len(encode(schema, _fields(schema, path, count, inner, 0)))
        many = len(encode(schema, _fields(schema, path, count + 100, inner, 0)))
        each = max(1.0, (many - few) / 100)
        more = _elements(_fields(schema, path, 101, inner, 0))
        weight = max(1, (more - _elements(_fields(schema, path, 1, inner, 0))) // 100)
        fitting = count + int((room - few) / each)
        count = max(1, min(most, fitting, (ELEMENTS_MAX - 10) // weight))
    fields = _fields(schema, path, count, inner, 0)
    while count > 1 and (size := len(encode(schema, fields))) > room:
        # Later names are longer than those that were measured.
        count = max(1, min(count - 1, int(count * room / size)))
        fields = _fields(schema, path, count, inner, 0)
    return fields


def _elements(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_elements(one) // _light(name) for name, one in value.items())
    if isinstance(value, list):
        return len(value) + sum(map(_elements, value))
    return 0


def _light(name: str) -> int:
    return LIGHT_PART if name in LIGHT_FIELDS else 1


def _fields(
    schema: EntitySchema, path: tuple[str, ...], count: int, inner: int, number: int
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in schema.fields:
        if path and field.name == path[0]:
            fields[field.name] = _on_path(field, path[1:], count, inner)
        elif field.is_array:
            fields[field.name] = [] if path else [_one(field, one, inner) for one in range(inner)]
        else:
            fields[field.name] = _one(field, number, inner)
    return fields


def _on_path(field: FieldSchema, rest: tuple[str, ...], count: int, inner: int) -> Any:
    entity = field.entity
    if rest:
        assert entity is not None
        one = _fields(entity, rest, count, inner, 0)
        return [one] if field.is_array else one
    if entity is None:
        return [_one(field, number, inner) for number in range(count)]
    return [_fields(entity, (), count, inner, number) for number in range(count)]


def _one(field: FieldSchema, number: int, inner: int) -> Any:
    """Return one value of a field, or one element of an array."""
    if field.entity is not None:
        return _fields(field.entity, (), 1, inner, number)
    records = bytes(BYTES_FIELD) if inner else b""
    kinds = {
        "string": f"n{number}",
        "bytes": records,
        "records": records,
        "uuid": number.to_bytes(16, "big"),
        "bool": 0,
        "int8": _INT8.get(field.name, 0),
        "error_code": 0,
    }
    return kinds.get(field.kind, field.default or number % _SPREAD)
