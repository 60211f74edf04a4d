"""The schemas of all messages, read from the classes that kio generates from Kafka's own JSON.

kio has one dataclass per message and version, with the wire type of each field in its metadata.
`request_schema` and `response_schema` turn one into a plain description, once, when that version
is first used: a node that only ever sees a few versions loads only those modules.

The description adds what a safe decoder needs: `min_bytes`, the smallest size of an element, by
which a count is checked against the bytes left.

Source: KIP-482 for flexible versions; kio.schema; Kafka's message README for defaults
(zero, empty, and null only where the schema says so).
"""

import dataclasses
import functools
import types
import typing
from typing import Any, NamedTuple

from penstock.protocol.errors import UnsupportedVersion
from penstock.protocol.kio_names import (
    UnknownAPIKey,
    UnknownEntity,
    load_request_schema,
    load_response_schema,
)
from penstock.protocol.own_fields import own_request, own_response

FIXED_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
"""Wire types of one size, whatever the version."""

_LEGACY_LENGTH_BYTES = {"string": 2, "bytes": 4, "records": 4}


class _NoFields(dict[str, object]):
    """The fields of a structure that was left out: each has its default. Schemas are hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


NO_FIELDS = _NoFields()


class FieldSchema(NamedTuple):
    """One field; `kind` is a wire type, or "entity" with `entity` set; `tag` -1 means none."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    entity: "EntitySchema | None"
    tag: int
    default: object


class EntitySchema(NamedTuple):
    """One structure: fields in wire order, tagged fields by ascending tag."""

    entity_type: type[Any]
    is_flexible: bool
    fields: tuple[FieldSchema, ...]
    tagged: tuple[FieldSchema, ...]
    min_bytes: int


@functools.cache
def request_schema(api_key: int, api_version: int) -> EntitySchema:
    """Return the schema of a request. Raises UnsupportedVersion if there is none."""
    try:
        own = own_request(api_key, api_version)
        described: Any = own or load_request_schema(api_key, api_version)
        return _entity_schema(described)
    except (UnknownAPIKey, UnknownEntity):
        raise UnsupportedVersion(api_key, api_version) from None


@functools.cache
def response_schema(api_key: int, api_version: int) -> EntitySchema:
    """Return the schema of a response. Raises UnsupportedVersion if there is none."""
    try:
        own = own_response(api_key, api_version)
        described: Any = own or load_response_schema(api_key, api_version)
        return _entity_schema(described)
    except (UnknownAPIKey, UnknownEntity):
        raise UnsupportedVersion(api_key, api_version) from None


@functools.cache
def _entity_schema(entity_type: type[Any]) -> EntitySchema:
    is_flexible = bool(entity_type.__flexible__)
    described = [_field_schema(field) for field in dataclasses.fields(entity_type)]
    fields = tuple(field for field in described if field.tag < 0)
    tagged = sorted((field for field in described if field.tag >= 0), key=lambda field: field.tag)
    assert is_flexible or not tagged, entity_type
    min_bytes = sum(min_field_bytes(field, is_flexible) for field in fields) + is_flexible
    return EntitySchema(entity_type, is_flexible, fields, tuple(tagged), max(1, min_bytes))


def _field_schema(field: "dataclasses.Field[Any]") -> FieldSchema:
    inner, is_array, is_nullable = _unwrap(field.type)
    is_entity = dataclasses.is_dataclass(inner)
    kind = "entity" if is_entity else str(field.metadata["kafka_type"])
    if kind == "uuid":
        is_nullable = is_nullable and is_array  # kio's None is a zero id, which also has 16 bytes
    return FieldSchema(
        name=field.name,
        kind=kind,
        is_array=is_array,
        is_nullable=is_nullable,
        entity=_entity_schema(inner) if is_entity else None,
        tag=int(field.metadata.get("tag", -1)),
        default=_default(field, kind, is_array),
    )


def _unwrap(annotation: Any) -> tuple[Any, bool, bool]:
    """Return (element type, is an array, may be null) of X, tuple[X, ...] or either | None."""
    inner, is_nullable = _without_none(annotation)
    if typing.get_origin(inner) is not tuple:
        return inner, False, is_nullable
    element, _ = _without_none(typing.get_args(inner)[0])
    return element, True, is_nullable


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if not isinstance(annotation, types.UnionType):
        return annotation, False
    (inner,) = (part for part in typing.get_args(annotation) if part is not types.NoneType)
    return inner, True


def _default(field: "dataclasses.Field[Any]", kind: str, is_array: bool) -> object:
    """Kafka's default: the schema's own, else empty, zero, or for records null."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if is_array:
        return ()
    if kind == "entity":
        return NO_FIELDS
    return {"string": "", "bytes": b"", "records": None, "uuid": None}.get(kind, 0)


def min_field_bytes(field: FieldSchema, is_flexible: bool) -> int:
    """The fewest bytes that this field can take on the wire."""
    if field.is_array:
        return 1 if is_flexible else 4
    return min_element_bytes(field, is_flexible)


def min_element_bytes(field: FieldSchema, is_flexible: bool) -> int:
    """The fewest bytes that one element of this array, or this field, can take on the wire."""
    if field.entity is not None:
        return 1 if field.is_nullable and not field.is_array else field.entity.min_bytes
    fixed = FIXED_BYTES.get(field.kind)
    if fixed is not None:
        return fixed
    return 1 if is_flexible else _LEGACY_LENGTH_BYTES[field.kind]
