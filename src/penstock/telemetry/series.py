"""What became of each series of a client: its newest value, or what its deltas add up to.

    a sum with delta temporality     the sum of the values that were read
    a distribution with it           the sums of counts and of sums that were read
    anything else                    the newest point, by the time that the client gives

A series is a metric with its attributes, of one client instance. There is a bound on their number.

Source: OpenTelemetry's data model, on temporality.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

from penstock.telemetry.row import Row, Source

SERIES_MAX: Final = 100_000
"""Some 150 MB."""
N = TypeVar("N", int, float)
_Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Series(NamedTuple):
    """What is told of one; times are wall times in ms."""

    source: Source
    """Of the newest point."""
    metric: str
    kind: str
    unit: str
    attributes: tuple[tuple[str, str], ...]
    points: int
    """How many were read."""
    time_ms: int
    value: float | None
    total_count: int | None
    total: float | None


class AllSeries:
    """See the module; for one reader."""

    def __init__(self, most: int = SERIES_MAX) -> None:
        self._by_key: dict[_Key, Series] = {}
        self._most = most
        self.left_out = 0
        """Rows whose series found no room."""

    def add(self, row: Row) -> None:
        """Add a row that was not added before."""
        source, point = row
        attributes = tuple(sorted(point.attributes.items()))
        key = (source.instance, point.metric, attributes)
        known = self._by_key.get(key)
        if known is None and len(self._by_key) >= self._most:
            self.left_out += 1
            return
        new = Series(
            source=source,
            metric=point.metric,
            kind=point.kind,
            unit=point.unit,
            attributes=attributes,
            points=1,
            time_ms=point.time_ms,
            value=point.value,
            total_count=point.total_count,
            total=point.sum,
        )
        if known is not None:
            newest = known if known.time_ms > new.time_ms else new
            new = newest._replace(points=known.points + 1)
            if point.temporality == "delta":
                new = new._replace(
                    value=_both(known.value, point.value),
                    total_count=_both(known.total_count, point.total_count),
                    total=_both(known.total, point.sum),
                )
        self._by_key[key] = new

    def __iter__(self) -> Iterator[Series]:
        """Return them in order of clients and metrics."""
        return iter(
            sorted(
                self._by_key.values(),
                key=lambda one: (one.source.who, one.source.instance, one.metric, one.attributes),
            )
        )


def _both(one: N | None, other: N | None) -> N | None:
    """Add numbers of which some are missing."""
    if one is None or other is None:
        return other if one is None else one
    return one + other
