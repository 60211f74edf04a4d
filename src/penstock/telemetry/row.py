"""One row of what clients push: a point of a metric, and whose it is.

Source: KIP-714; the bytes are docs/formats/client-metrics.md.
"""

import json
from typing import Any, Final, NamedTuple

from penstock.audit.row import Who
from penstock.telemetry.errors import MalformedTelemetry
from penstock.telemetry.points import Point

TOPIC: Final = "__penstock_client_metrics"
"""Internal topic of rows."""
VERSION: Final = 1
_SEPARATORS: Final = (",", ":")
_LEFT_OUT: Final = frozenset(Point._field_defaults) - {"value"}
"""Of distributions alone: they are not in the rows of numbers."""


class Source(NamedTuple):
    """Whose metrics, and when they came; wall time."""

    node: int
    at_ms: int
    instance: str
    """Id of the client instance, as Kafka writes it."""
    who: Who


class Row(NamedTuple):
    """A row that was read."""

    source: Source
    point: Point


class Writer:
    """Writes the rows of one push; what they have in common is made once."""

    def __init__(self, source: Source) -> None:
        told: dict[str, object] = {
            "v": VERSION,
            "node": source.node,
            "at_ms": source.at_ms,
            "instance": source.instance,
        }
        self._head = json.dumps(told | source.who._asdict(), separators=_SEPARATORS)[:-1] + ","

    def row(self, point: Point) -> bytes:
        """Return the bytes of a row."""
        told: dict[str, object] = {
            name: value
            for name, value in zip(Point._fields, point, strict=True)
            if name not in _LEFT_OUT or value not in (None, ())
        }
        told["attributes"] = [
            {"key": key, "value": value} for key, value in point.attributes.items()
        ]
        text = json.dumps(told, separators=_SEPARATORS, allow_nan=False)
        return (self._head + text[1:]).encode()


def decode_row(value: bytes) -> Row:
    """Return the row that a record's value is. Raises MalformedTelemetry."""
    try:
        row: dict[str, Any] = json.loads(value)
        if row["v"] != VERSION:
            raise MalformedTelemetry(f"a row of version {row['v']}")
        who = Who(*(str(row[name]) for name in Who._fields))
        source = Source(int(row["node"]), int(row["at_ms"]), str(row["instance"]), who)
        told = {name: row[name] for name in Point._fields if name in row or name not in _LEFT_OUT}
        told["attributes"] = {str(one["key"]): str(one["value"]) for one in row["attributes"]}
        return Row(source, Point(**told))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedTelemetry(f"not a row of client metrics: {error}") from error
