"""Types that the hand-written encoders share: counts, names, common tagged fields.

Source: Kafka's protocol guide (types), KIP-482 (compact forms, tags), KIP-951 (node endpoints).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from penstock.protocol.varint import uvarint


class LeaderEndpoint(NamedTuple):
    """Where a broker named in a leader hint listens."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


def array_count(count: int, is_flexible: bool) -> bytes:
    """The count of an array that is not null."""
    return uvarint(count + 1) if is_flexible else count.to_bytes(4, "big")


def compact_bytes(raw: bytes) -> bytes:
    """A compact string or byte field."""
    return uvarint(len(raw) + 1) + raw


def legacy_name(raw: bytes) -> bytes:
    """A string with its 16-bit length."""
    return len(raw).to_bytes(2, "big", signed=True) + raw


def string(text: str, is_flexible: bool) -> bytes:
    """A string that is not null."""
    raw = text.encode()
    return compact_bytes(raw) if is_flexible else legacy_name(raw)


def nullable_string(text: str | None, is_flexible: bool) -> bytes:
    """A string, or null."""
    if text is None:
        return b"\0" if is_flexible else b"\xff\xff"
    return string(text, is_flexible)


def tagged_pair(tag: int, layout: str, pair: tuple[int, int]) -> bytes:
    """A tagged structure of two numbers; `layout` ends with B for its own empty tags."""
    raw = struct.pack(layout, *pair, 0)
    return uvarint(tag) + uvarint(len(raw)) + raw


def endpoints_tag(endpoints: Sequence[LeaderEndpoint]) -> bytes:
    """The tag section of an answer whose tag 0 lists node endpoints."""
    if not endpoints:
        return b"\0"
    section = bytearray(uvarint(len(endpoints) + 1))
    for broker_id, host, port, rack in endpoints:
        section += broker_id.to_bytes(4, "big", signed=True) + string(host, True)
        section += port.to_bytes(4, "big", signed=True) + nullable_string(rack, True) + b"\0"
    return b"\1\0" + uvarint(len(section)) + bytes(section)
