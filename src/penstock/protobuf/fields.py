"""Fields of a message by their numbers, for messages that are encoded thousands of times a second.

    text    UTF-8       bytes   as they are       a number   int64       None   left out

Whoever calls knows the types; `codec.py` has them declared, and costs four times as much.

Source: as `wire.py`. Compiled if built (ADR 0021, ADR 0177).
"""

from collections.abc import Sequence
from typing import TypeAlias

from penstock.protobuf.wire import VARINT, add_field, add_varint

Value: TypeAlias = str | bytes | int | None
Field: TypeAlias = tuple[int, Value]


def encode_fields(fields: Sequence[Field]) -> bytes:
    """Return the fields, in their order; each a number of at least 1, and its value."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            add_varint(out, number << 3 | VARINT)
            add_varint(out, value)
        elif value is not None:
            add_field(out, number, value.encode() if isinstance(value, str) else value)
    return bytes(out)
