"""Any Kafka message by API key and version: the general, slower codec.

`decode_request` gives an object with the attributes of kio's class for that version (times are
timedelta, ids are UUID or None, arrays are tuples or None). `encode_response` takes one plain
mapping for all versions. `encode_request` and `decode_response` are the same for our client.

Source: Kafka's message JSON through kio's classes; see schema.py, decode.py, encode.py. Produce,
Fetch and other frequent answers have modules of their own, which agree byte for byte.
"""

from collections.abc import Mapping
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.decode import ELEMENTS_MAX, decode
from penstock.protocol.encode import encode
from penstock.protocol.errors import MalformedRequest, MalformedResponse
from penstock.protocol.schema import (
    EntitySchema,
    FieldSchema,
    request_schema,
    response_schema,
)
from penstock.protocol.slices import Decoding, Encoding, decode_slices, encode_slices

LEFTOVER_KEYS = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_ACLS})
"""Requests whose leftover bytes are ignored, as Kafka ignores them everywhere: librdkafka writes
the null topic list of Metadata v9+ ("all topics") as four zero bytes instead of one, and kafka-go
the tagged fields of DescribeAcls v2+ twice."""

RESPONSE_ELEMENTS_MAX = 1_000_000
"""What our client accepts in one answer: metadata of a large cluster has many partitions."""


def decode_request(api_key: int, api_version: int, frame: memoryview, at: int) -> Any:
    """Decode the body at `at`, up to the end of the frame.

    Raises:
        UnsupportedVersion: there is no such request.
        MalformedRequest: it does not follow its schema, or has bytes after it (LEFTOVER_KEYS may).
    """
    schema = request_schema(api_key, api_version)
    return decode(schema, frame, at, ELEMENTS_MAX, may_leave=api_key in LEFTOVER_KEYS)


def decode_request_slices(api_key: int, api_version: int, frame: memoryview, at: int) -> Decoding:
    """Decode as `decode_request` does, a slice at each step of the generator."""
    schema = request_schema(api_key, api_version)
    may_leave = api_key in LEFTOVER_KEYS
    return decode_slices(schema, frame, at, ELEMENTS_MAX, may_leave=may_leave)


def encode_response_slices(api_key: int, api_version: int, fields: Mapping[str, Any]) -> Encoding:
    """Encode as `encode_response` does, a slice at each step of the generator."""
    return encode_slices(response_schema(api_key, api_version), fields)


def encode_response(api_key: int, api_version: int, fields: Mapping[str, Any]) -> bytes:
    """Encode the body of an answer, without header. Raises UnsupportedVersion."""
    return encode(response_schema(api_key, api_version), fields)


def begins_with_throttle(api_key: int, api_version: int) -> bool:
    """Whether `throttle_time_ms` is the first field of the answer's body."""
    fields = response_schema(api_key, api_version).fields
    return bool(fields) and fields[0].name == "throttle_time"


def encode_request(api_key: int, api_version: int, fields: Mapping[str, Any]) -> bytes:
    """Encode the body of a request, without header. Raises UnsupportedVersion."""
    return encode(request_schema(api_key, api_version), fields)


def decode_response(api_key: int, api_version: int, frame: memoryview, at: int = 0) -> Any:
    """Decode the body of an answer at `at`, up to the end of the frame.

    Raises:
        UnsupportedVersion: there is no such response.
        MalformedResponse: it does not follow its schema, or bytes are left over.
    """
    schema = response_schema(api_key, api_version)
    try:
        return decode(schema, frame, at, RESPONSE_ELEMENTS_MAX)
    except MalformedRequest as error:
        raise MalformedResponse(error.reason) from error


def unknown_fields(schema: EntitySchema, fields: Mapping[str, Any]) -> list[str]:
    """Return the names in `fields`, nested ones with dots, that this schema does not have.

    `encode_response` drops such fields, as it must for old versions; with the newest version this
    finds misspelt names. For tests: it walks everything.
    """
    by_name = {field.name: field for field in (*schema.fields, *schema.tagged)}
    by_name |= {f"{name}_ms": field for name, field in by_name.items()}
    unknown: list[str] = []
    for name, value in fields.items():
        field = by_name.get(name)
        if field is None:
            unknown.append(name)
        else:
            unknown += [f"{name}.{inner}" for inner in _unknown_inside(field, value)]
    return unknown


def _unknown_inside(field: FieldSchema, value: Any) -> list[str]:
    if field.entity is None or value is None:
        return []
    items = value if field.is_array else (value,)
    return [name for item in items for name in unknown_fields(field.entity, item)]
