"""One row of the audit: who did what with which partition within a minute, and how much.

Source: rows K-58 and G-24 of the specification; the bytes are docs/formats/audit.md.
"""

import json
from typing import Any, Final, NamedTuple

from penstock.audit.errors import MalformedRow

TOPIC: Final = "__penstock_audit"
"""Internal topic of rows."""
VERSION: Final = 1
NO_PARTITION: Final = -1
"""Partition of a row that is about whole requests."""
_NUMBERS: Final = (
    "requests",
    "records",
    "bytes_in",
    "bytes_out",
    "errors",
    "throttle_ms",
    "timed",
    "latency_us",
    "latency_us_max",
)


class Who(NamedTuple):
    """A client, as it is told apart from others."""

    principal: str
    client_id: str
    software: str
    version: str
    host: str


class RowKey(NamedTuple):
    """What is folded together within a minute."""

    who: Who
    operation: str
    topic: str = ""
    partition: int = NO_PARTITION


OTHERS: Final = RowKey(Who("", "", "", "", ""), "other")
"""The key of what is beyond the bound of a minute."""


class Counts:
    """The sums of a row; times are of a monotonic clock."""

    __slots__ = _NUMBERS

    def __init__(self) -> None:
        self.requests = 0
        self.records = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.errors = 0
        self.throttle_ms = 0
        self.timed = 0
        """Requests whose latency is in the next two; those pipelined behind others are not."""
        self.latency_us = 0
        self.latency_us_max = 0

    def as_tuple(self) -> tuple[int, ...]:
        """Return the sums in the order of the format."""
        return tuple(getattr(self, name) for name in _NUMBERS)


def encode_row(node: int, minute_ms: int, key: RowKey, counts: Counts) -> bytes:
    """Return the bytes of a row; `minute_ms` is the wall time at which its minute began."""
    (who, operation, topic, partition) = key
    row: dict[str, object] = {"v": VERSION, "node": node, "minute_ms": minute_ms}
    row |= who._asdict()
    row |= {"operation": operation, "topic": topic, "partition": partition}
    row |= zip(_NUMBERS, counts.as_tuple(), strict=True)
    return json.dumps(row, separators=(",", ":")).encode()


class Row(NamedTuple):
    """A row that was read."""

    node: int
    minute_ms: int
    key: RowKey
    counts: tuple[int, ...]


def decode_row(value: bytes) -> Row:
    """Return the row that a record's value is. Raises MalformedRow."""
    try:
        row: dict[str, Any] = json.loads(value)
        if row["v"] != VERSION:
            raise MalformedRow(f"version {row['v']}")
        who = Who(*(str(row[name]) for name in Who._fields))
        key = RowKey(who, str(row["operation"]), str(row["topic"]), int(row["partition"]))
        counts = tuple(int(row[name]) for name in _NUMBERS)
        return Row(int(row["node"]), int(row["minute_ms"]), key, counts)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedRow(str(error)) from error
