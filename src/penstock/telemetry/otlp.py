"""Messages of OpenTelemetry's metrics, with the fields that rows have.

The outer ones are not declared: they hold all metrics of a push, and are read piece by piece
(points.py). What a metric holds beside these fields is skipped: descriptions, exemplars, flags, and
the buckets of exponential histograms, which no Kafka client sends.

Source: opentelemetry-proto `metrics.proto`, `common.proto`, `resource.proto`.
"""

from collections.abc import Sequence
from enum import IntEnum

from penstock.protobuf.codec import Kind, field, message

RESOURCE_METRICS = 1
"""Of MetricsData."""
RESOURCE, SCOPE_METRICS = 1, 2
"""Of ResourceMetrics."""
METRICS = 2
"""Of ScopeMetrics."""


class Temporality(IntEnum):
    """Since when a sum adds up."""

    UNSPECIFIED = 0
    DELTA = 1
    CUMULATIVE = 2


@message
class AnyValue:
    """The value of an attribute; lists, maps and bytes have none here."""

    string_value: str | None = field(1, Kind.TEXT, default=None)
    bool_value: int | None = field(2, Kind.INT, default=None)
    int_value: int | None = field(3, Kind.INT, default=None)
    double_value: float | None = field(4, Kind.DOUBLE, default=None)


@message
class KeyValue:
    """An attribute."""

    key: str = field(1, Kind.TEXT, default="")
    value: AnyValue | None = field(2, Kind.MESSAGE, AnyValue, default=None)


@message
class Resource:
    """What all metrics of a client have in common, such as its group."""

    attributes: Sequence[KeyValue] = field(1, Kind.MESSAGE, KeyValue, default=())


@message
class NumberDataPoint:
    """A number; times are in ns since 1970."""

    start_time_unix_nano: int = field(2, Kind.FIXED, default=0)
    time_unix_nano: int = field(3, Kind.FIXED, default=0)
    as_double: float | None = field(4, Kind.DOUBLE, default=None)
    as_int: int | None = field(6, Kind.SIGNED_FIXED, default=None)
    attributes: Sequence[KeyValue] = field(7, Kind.MESSAGE, KeyValue, default=())


@message
class HistogramDataPoint:
    """How often values were within bounds."""

    start_time_unix_nano: int = field(2, Kind.FIXED, default=0)
    time_unix_nano: int = field(3, Kind.FIXED, default=0)
    count: int = field(4, Kind.FIXED, default=0)
    sum: float | None = field(5, Kind.DOUBLE, default=None)
    bucket_counts: Sequence[int] = field(6, Kind.FIXED, default=())
    explicit_bounds: Sequence[float] = field(7, Kind.DOUBLE, default=())
    attributes: Sequence[KeyValue] = field(9, Kind.MESSAGE, KeyValue, default=())
    min: float | None = field(11, Kind.DOUBLE, default=None)
    max: float | None = field(12, Kind.DOUBLE, default=None)


@message
class ExponentialHistogramDataPoint:
    """A histogram whose buckets grow by a factor; nothing is kept of its buckets."""

    attributes: Sequence[KeyValue] = field(1, Kind.MESSAGE, KeyValue, default=())
    start_time_unix_nano: int = field(2, Kind.FIXED, default=0)
    time_unix_nano: int = field(3, Kind.FIXED, default=0)
    count: int = field(4, Kind.FIXED, default=0)
    sum: float | None = field(5, Kind.DOUBLE, default=None)
    min: float | None = field(12, Kind.DOUBLE, default=None)
    max: float | None = field(13, Kind.DOUBLE, default=None)


@message
class ValueAtQuantile:
    """The value that a part of all values is below."""

    quantile: float = field(1, Kind.DOUBLE, default=0.0)
    value: float = field(2, Kind.DOUBLE, default=0.0)


@message
class SummaryDataPoint:
    """Values at quantiles."""

    start_time_unix_nano: int = field(2, Kind.FIXED, default=0)
    time_unix_nano: int = field(3, Kind.FIXED, default=0)
    count: int = field(4, Kind.FIXED, default=0)
    sum: float = field(5, Kind.DOUBLE, default=0.0)
    quantile_values: Sequence[ValueAtQuantile] = field(6, Kind.MESSAGE, ValueAtQuantile, default=())
    attributes: Sequence[KeyValue] = field(7, Kind.MESSAGE, KeyValue, default=())


@message
class Gauge:
    """Numbers as they are at a time."""

    data_points: Sequence[NumberDataPoint] = field(1, Kind.MESSAGE, NumberDataPoint, default=())


@message
class Sum:
    """Numbers that add up."""

    data_points: Sequence[NumberDataPoint] = field(1, Kind.MESSAGE, NumberDataPoint, default=())
    aggregation_temporality: int = field(2, Kind.INT, default=0)
    is_monotonic: int = field(3, Kind.INT, default=0)


@message
class Histogram:
    """Distributions."""

    data_points: Sequence[HistogramDataPoint] = field(
        1, Kind.MESSAGE, HistogramDataPoint, default=()
    )
    aggregation_temporality: int = field(2, Kind.INT, default=0)


@message
class ExponentialHistogram:
    """Distributions over buckets that grow."""

    data_points: Sequence[ExponentialHistogramDataPoint] = field(
        1, Kind.MESSAGE, ExponentialHistogramDataPoint, default=()
    )
    aggregation_temporality: int = field(2, Kind.INT, default=0)


@message
class Summary:
    """Distributions by quantiles."""

    data_points: Sequence[SummaryDataPoint] = field(1, Kind.MESSAGE, SummaryDataPoint, default=())


@message
class Metric:
    """A metric, with one of its kinds of points."""

    name: str = field(1, Kind.TEXT, default="")
    unit: str = field(3, Kind.TEXT, default="")
    gauge: Gauge | None = field(5, Kind.MESSAGE, Gauge, default=None)
    sum: Sum | None = field(7, Kind.MESSAGE, Sum, default=None)
    histogram: Histogram | None = field(9, Kind.MESSAGE, Histogram, default=None)
    exponential_histogram: ExponentialHistogram | None = field(
        10, Kind.MESSAGE, ExponentialHistogram, default=None
    )
    summary: Summary | None = field(11, Kind.MESSAGE, Summary, default=None)
