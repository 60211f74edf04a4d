"""The points of a push: MetricsData is walked step by step, each metric decoded by itself.

    MetricsData ─► ResourceMetrics ─┬► Resource: attributes that all its points get
                                    └► ScopeMetrics ─► Metric ─► its points

A step says how much the next one costs, some microseconds each: a metric with METRIC_FIELDS_MAX
fields takes milliseconds. So who reads gives others a turn between steps. A push has so many steps
and so many points.

Source: OTLP's MetricsData, as KIP-714 has it; bounds are ours.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.audit.row import TEXT_KEPT_MAX
from penstock.protobuf.codec import decode
from penstock.protobuf.wire import each_field
from penstock.telemetry.errors import TelemetryTooLarge
from penstock.telemetry.otlp import (
    METRICS,
    RESOURCE,
    RESOURCE_METRICS,
    SCOPE_METRICS,
    AnyValue,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    KeyValue,
    Metric,
    NumberDataPoint,
    Resource,
    SummaryDataPoint,
    Temporality,
)

STEPS_MAX: Final = 50_000
"""Of one push: fields of its outer messages, and points."""
POINTS_MAX: Final = 10_000
METRIC_FIELDS_MAX: Final = 2_048
"""Of one metric, with all within it: two milliseconds, and 250 points with an attribute each."""
STEP_BYTES: Final = 64
"""Of a metric, for each step that decoding it counts for: they have 30 fields at most."""
ATTRIBUTES_MAX: Final = 32
"""Of one point, with those of its resource; what is beyond is left out."""
_TEMPORALITIES: Final = {Temporality.DELTA: "delta", Temporality.CUMULATIVE: "cumulative"}
_NS_OF_MS: Final = 1_000_000

_AnyPoint = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint | SummaryDataPoint


class Point(NamedTuple):
    """A point of a metric; times are wall times in ms, 0 where the client says none.

    Numbers are None where there are none, or where they are infinite or no numbers.
    """

    metric: str
    kind: str
    """gauge, sum, histogram, exponential_histogram or summary."""
    unit: str
    temporality: str
    """delta, cumulative or empty."""
    is_monotonic: bool
    attributes: Mapping[str, str]
    start_ms: int
    time_ms: int
    value: float | None = None
    total_count: int | None = None
    sum: float | None = None
    min: float | None = None
    max: float | None = None
    bounds: Sequence[float | None] = ()
    buckets: Sequence[int] = ()
    quantiles: Sequence[tuple[float | None, float | None]] = ()


def read_points(data: bytes) -> Iterator[Point | int]:
    """Yield the points, and before what takes longer a number: the steps that it counts for.

    Raises MalformedMessage, TelemetryTooLarge.
    """
    points = 0
    for number, step in enumerate(_of_data(data), 1):
        points += isinstance(step, Point)
        if number > STEPS_MAX or points > POINTS_MAX:
            raise TelemetryTooLarge(f"a push has {POINTS_MAX} points at most")
        yield step


def _of_data(data: bytes) -> Iterator[Point | int]:
    for number, start, end in each_field(data, 0, len(data)):
        yield 1
        if number == RESOURCE_METRICS:
            yield from _of_resource(data, start, end)


def _of_resource(data: bytes, start: int, end: int) -> Iterator[Point | int]:
    """Look for the resource first, which may stand behind the metrics."""
    shared: dict[str, str] = {}
    for number, at, after in each_field(data, start, end):
        yield _steps(at, after) if number == RESOURCE else 1
        if number == RESOURCE:
            found = decode(Resource, data[at:after], METRIC_FIELDS_MAX)
            _add_attributes(shared, found.attributes)
    for number, at, after in each_field(data, start, end):
        yield 1
        if number == SCOPE_METRICS:
            yield from _of_scope(data, at, after, shared)


def _of_scope(
    data: bytes, start: int, end: int, shared: Mapping[str, str]
) -> Iterator[Point | int]:
    for number, at, after in each_field(data, start, end):
        yield _steps(at, after) if number == METRICS else 1
        if number == METRICS:
            yield from _of_metric(decode(Metric, data[at:after], METRIC_FIELDS_MAX), shared)


def _steps(start: int, end: int) -> int:
    """Return the steps that decoding a message counts for."""
    return 1 + (end - start) // STEP_BYTES


def _of_metric(metric: Metric, shared: Mapping[str, str]) -> Iterator[Point]:
    if metric.gauge is not None:
        yield from (_number(metric, "gauge", one, shared) for one in metric.gauge.data_points)
    if metric.sum is not None:
        yield from (_number(metric, "sum", one, shared) for one in metric.sum.data_points)
    if metric.histogram is not None:
        yield from (_histogram(metric, one, shared) for one in metric.histogram.data_points)
    if metric.exponential_histogram is not None:
        for one in metric.exponential_histogram.data_points:
            yield _distribution(metric, "exponential_histogram", one, shared)
    if metric.summary is not None:
        yield from (_summary(metric, one, shared) for one in metric.summary.data_points)


def _begun(metric: Metric, kind: str, point: _AnyPoint, shared: Mapping[str, str]) -> Point:
    """Return what points of all kinds have."""
    attributes = dict(shared)
    _add_attributes(attributes, point.attributes)
    adding_up = {
        "sum": metric.sum,
        "histogram": metric.histogram,
        "exponential_histogram": metric.exponential_histogram,
    }.get(kind)
    told = 0 if adding_up is None else adding_up.aggregation_temporality
    return Point(
        metric=metric.name[:TEXT_KEPT_MAX],
        kind=kind,
        unit=metric.unit[:TEXT_KEPT_MAX],
        temporality=_TEMPORALITIES.get(Temporality(told), "") if told in (1, 2) else "",
        is_monotonic=kind == "sum" and metric.sum is not None and bool(metric.sum.is_monotonic),
        attributes=attributes,
        start_ms=point.start_time_unix_nano // _NS_OF_MS,
        time_ms=point.time_unix_nano // _NS_OF_MS,
    )


def _number(metric: Metric, kind: str, point: NumberDataPoint, shared: Mapping[str, str]) -> Point:
    value = point.as_int if point.as_int is not None else finite(point.as_double)
    return _begun(metric, kind, point, shared)._replace(value=value)


def _distribution(
    metric: Metric,
    kind: str,
    point: HistogramDataPoint | ExponentialHistogramDataPoint,
    shared: Mapping[str, str],
) -> Point:
    return _begun(metric, kind, point, shared)._replace(
        total_count=point.count, sum=finite(point.sum), min=finite(point.min), max=finite(point.max)
    )


def _histogram(metric: Metric, point: HistogramDataPoint, shared: Mapping[str, str]) -> Point:
    return _distribution(metric, "histogram", point, shared)._replace(
        bounds=[finite(one) for one in point.explicit_bounds], buckets=point.bucket_counts
    )


def _summary(metric: Metric, point: SummaryDataPoint, shared: Mapping[str, str]) -> Point:
    return _begun(metric, "summary", point, shared)._replace(
        total_count=point.count,
        sum=finite(point.sum),
        quantiles=[(finite(one.quantile), finite(one.value)) for one in point.quantile_values],
    )


def finite(number: float | None) -> float | None:
    """Return a number that JSON has, or None."""
    return number if number is not None and math.isfinite(number) else None


def _add_attributes(kept: dict[str, str], told: Sequence[KeyValue]) -> None:
    for one in told:
        if len(kept) >= ATTRIBUTES_MAX:
            return
        kept[one.key[:TEXT_KEPT_MAX]] = _text(one.value)[:TEXT_KEPT_MAX]


def _text(value: AnyValue | None) -> str:
    """Return the text of an attribute; empty where it is none of these."""
    if value is None:
        return ""
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return "true" if value.bool_value else "false"
    number = value.int_value if value.int_value is not None else value.double_value
    return "" if number is None else str(number)
