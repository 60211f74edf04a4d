"""Filter pushdown: filters on topic, partition, offset and timestamp reduce what is read.

Filters on topic, partition and offset are applied exactly, so that Spark need not apply them. A
lower bound on the timestamp moves the start to the first record that reaches it; later records may
still be older (producers set the time), so Spark filters again. An upper bound is not used, since
records behind the first one beyond it may be older again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from penstock.spark.broker_access import BrokerAccess
from penstock.spark.ranges import OffsetRange

_OFFSET_END = 1 << 63
_Test = Callable[[Any, Any], bool]
_TESTS: dict[type[Filter], _Test] = {
    EqualTo: lambda mine, value: bool(mine == value),
    EqualNullSafe: lambda mine, value: bool(mine == value),
    GreaterThan: lambda mine, value: bool(mine > value),
    GreaterThanOrEqual: lambda mine, value: bool(mine >= value),
    LessThan: lambda mine, value: bool(mine < value),
    LessThanOrEqual: lambda mine, value: bool(mine <= value),
    In: lambda mine, value: mine in value,
}


@dataclass(frozen=True, slots=True)
class Pushed:
    """The filters that are applied to ranges."""

    filters: tuple[tuple[str, type[Filter], Any], ...] = ()
    """On topic and partition: (column, kind, value)."""
    offset_low: int = 0
    offset_end: int = _OFFSET_END
    timestamp_ms_low: int | None = None

    def narrow(self, ranges: Iterable[OffsetRange], access: BrokerAccess) -> list[OffsetRange]:
        """Return the parts of the ranges that the filters select, without empty ones."""
        kept = [
            part._replace(
                start=max(part.start, self.offset_low), end=min(part.end, self.offset_end)
            )
            for part in ranges
            if self._takes(part)
        ]
        kept = [part for part in kept if part.length]
        if self.timestamp_ms_low is None or not kept:
            return kept
        first = access.at_timestamp({part.name: self.timestamp_ms_low for part in kept})
        later = [
            part._replace(start=max(part.start, first[part.name]))
            for part in kept
            if first[part.name] >= 0
        ]
        return [part for part in later if part.length]

    def _takes(self, part: OffsetRange) -> bool:
        mine = {"topic": part.topic, "partition": part.partition}
        return all(_TESTS[kind](mine[column], value) for column, kind, value in self.filters)


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """Split filters into those applied here and those that Spark still has to apply."""
    exact: list[tuple[str, type[Filter], Any]] = []
    bounds: list[tuple[int, int]] = [(0, _OFFSET_END)]
    times: list[int] = []
    left: list[Filter] = []
    for item in filters:
        path: tuple[str, ...] = getattr(item, "attribute", ())
        column = path[0] if len(path) == 1 else None
        value = getattr(item, "value", None)
        if column in ("topic", "partition") and type(item) in _TESTS and value is not None:
            exact.append((column, type(item), value))
        elif column == "offset" and (interval := _interval(item, value)) is not None:
            bounds.append(interval)
        else:
            if column == "timestamp" and isinstance(
                item, (GreaterThan, GreaterThanOrEqual, EqualTo)
            ):
                times += _milliseconds(value)
            left.append(item)
    pushed = Pushed(
        filters=tuple(exact),
        offset_low=max(low for low, _ in bounds),
        offset_end=min(end for _, end in bounds),
        timestamp_ms_low=max(times, default=None),
    )
    return pushed, left


def _interval(item: Filter, value: Any) -> tuple[int, int] | None:
    """Return [low, end) of a filter on `offset`, or None if it is not one interval."""
    if not isinstance(value, int):
        return None
    bounds = {
        EqualTo: (value, value + 1),
        EqualNullSafe: (value, value + 1),
        GreaterThan: (value + 1, _OFFSET_END),
        GreaterThanOrEqual: (value, _OFFSET_END),
        LessThan: (0, value),
        LessThanOrEqual: (0, value + 1),
    }
    return bounds.get(type(item))


def _milliseconds(value: Any) -> list[int]:
    """Return the time rounded down to ms, so that nothing is skipped that Spark would keep."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return []
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    return [max(0, (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000)]
