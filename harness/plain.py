"""Random plain messages for any schema, and kio's own objects made of them: the dumb twin."""

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from penstock.protocol.schema import EntitySchema, FieldSchema

TEXTS = ("", "a", "topic-1", "žluťoučký kůň", "x" * 130)
_INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def plain_fields(schema: EntitySchema, rng: random.Random) -> dict[str, Any]:
    """Random values for all fields, now and then one left out so that its default is used."""
    return {
        field.name: _plain_value(field, rng)
        for field in (*schema.fields, *schema.tagged)
        if rng.random() > 0.1 or (field.kind == "records" and not field.is_nullable)
    }


def _plain_value(field: FieldSchema, rng: random.Random) -> Any:
    if field.is_nullable and rng.random() < 0.2 and not (field.tag >= 0 and not field.is_array):
        return None
    if field.is_array:
        return [_plain_element(field, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return _plain_element(field, rng)


def _plain_element(field: FieldSchema, rng: random.Random) -> Any:
    kind = field.kind
    if field.entity is not None:
        return plain_fields(field.entity, rng)
    if kind in _INT_BITS:
        return _plain_int(_INT_BITS[kind], rng)
    if kind == "uuid":
        return rng.choice((None, rng.randbytes(16), uuid.UUID(bytes=rng.randbytes(16))))
    make: dict[str, Callable[[], Any]] = {
        "string": lambda: rng.choice(TEXTS),
        "bytes": lambda: rng.randbytes(rng.choice((0, 1, 200))),
        "records": lambda: rng.randbytes(rng.choice((1, 70, 20_000))),
        "bool": lambda: rng.random() < 0.5,
        "uint16": lambda: rng.randrange(1 << 16),
        "float64": rng.random,
        "error_code": lambda: int(rng.choice(list(ErrorCode))),
        "timedelta_i32": lambda: rng.choice((0, 1, 30_000, (1 << 31) - 1)),
        "timedelta_i64": lambda: rng.choice((0, 1, 86_400_000)),
        "datetime_i64": lambda: rng.choice((0, 1_700_000_000_123)),
    }
    return make[kind]()


def _plain_int(bits: int, rng: random.Random) -> int:
    top = 1 << (bits - 1)
    return rng.choice((0, 1, -1, 7, top - 1, -top, rng.randrange(-top, top)))


def kio_entity(schema: EntitySchema, fields: dict[str, Any]) -> Any:
    """kio's object with those values."""
    values = {
        field.name: _kio_value(field, fields.get(field.name, field.default))
        for field in (*schema.fields, *schema.tagged)
    }
    return schema.entity_type(**values)


def _kio_value(field: FieldSchema, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array:
        return tuple(_kio_element(field, item) for item in value)
    return _kio_element(field, value)


def _kio_element(field: FieldSchema, value: Any) -> Any:
    if field.entity is not None and isinstance(value, dict):
        return kio_entity(field.entity, value)
    if field.kind == "uuid" and isinstance(value, bytes):
        return uuid.UUID(bytes=value) if any(value) else None
    return _kio_number(field.kind, value) if type(value) is int else value


def _kio_number(kind: str, value: int) -> Any:
    if kind == "error_code":
        return ErrorCode(value)
    if kind.startswith("timedelta"):
        return timedelta(milliseconds=value)
    if kind.startswith("datetime"):
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=value)
    return value


def kio_bytes(schema: EntitySchema, fields: dict[str, Any]) -> bytes:
    """What kio writes for those values."""
    out = BytesIO()
    entity_writer(schema.entity_type)(out, kio_entity(schema, fields))
    return out.getvalue()


def kio_decode(schema: EntitySchema, body: bytes) -> Any:
    """What kio reads from those bytes."""
    entity, read = entity_reader(schema.entity_type)(body, 0)
    assert read == len(body)
    return entity
