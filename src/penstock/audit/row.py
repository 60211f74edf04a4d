"""One row of the audit: who did what with which partition within a fold, and how much.

Source: docs/requirements.md K-58 and G-24; the bytes are docs/formats/audit.md.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from penstock.audit.compiled import Counts
from penstock.audit.counts import NUMBERS
from penstock.audit.errors import MalformedRow

TOPIC: Final = "__penstock_audit"
"""Internal topic of rows."""
VERSION: Final = 1
NO_PARTITION: Final = -1
"""Partition of a row that is about whole requests."""
TEXT_KEPT_MAX: Final = 255
"""Characters of each text that a client chooses: longer ones are cut, and may coincide."""
DENIED: Final = "denied"
ALLOWED: Final = "allowed"
"""First words of operations that are decisions: `denied write topic`."""


class Who(NamedTuple):
    """A client, as it is told apart from others."""

    principal: str
    client_id: str
    software: str
    version: str
    host: str


class RowKey(NamedTuple):
    """What is folded together."""

    who: Who
    operation: str
    topic: str = ""
    partition: int = NO_PARTITION


def rest_of(principal: str) -> RowKey:
    """Return the key of what is beyond a principal's part of a fold."""
    return RowKey(Who(principal, "", "", "", ""), "other")


OTHERS: Final = rest_of("")
"""The key of what is beyond the bound of a fold."""


def encode_row(node: int, began_ms: int, ended_ms: int, key: RowKey, counts: Counts) -> bytes:
    """Return the bytes of a row; its fold lasted from `began_ms` to `ended_ms` of wall time."""
    (who, operation, topic, partition) = key
    row: dict[str, object] = {
        "v": VERSION,
        "node": node,
        "began_ms": began_ms,
        "ended_ms": ended_ms,
    }
    row |= who._asdict()
    row |= {"operation": operation, "topic": topic, "partition": partition}
    row |= {name: getattr(counts, name) for name in NUMBERS}
    return json.dumps(row, separators=(",", ":")).encode()


class Row(NamedTuple):
    """A row that was read; wall times, the end exclusive."""

    node: int
    began_ms: int
    ended_ms: int
    key: RowKey
    counts: Mapping[str, int]
    """By the names of NUMBERS."""


def decode_row(value: bytes) -> Row:
    """Return the row that a record's value is. Raises MalformedRow."""
    try:
        row: dict[str, Any] = json.loads(value)
        if row["v"] != VERSION:
            raise MalformedRow(f"version {row['v']}")
        who = Who(*(str(row[name]) for name in Who._fields))
        key = RowKey(who, str(row["operation"]), str(row["topic"]), int(row["partition"]))
        counts = {name: int(row[name]) for name in NUMBERS}
        return Row(int(row["node"]), int(row["began_ms"]), int(row["ended_ms"]), key, counts)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedRow(str(error)) from error
