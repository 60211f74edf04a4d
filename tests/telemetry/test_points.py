"""Points of a push: as OpenTelemetry's own messages have them, within bounds."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1 import common_pb2 as common
from opentelemetry.proto.metrics.v1 import metrics_pb2 as published
from opentelemetry.proto.resource.v1 import resource_pb2 as resource

from penstock.audit.row import TEXT_KEPT_MAX
from penstock.protobuf.codec import _FIELDS, Kind, decode, encode
from penstock.protobuf.errors import MalformedMessage, TooManyFields
from penstock.telemetry import otlp, points
from penstock.telemetry.errors import TelemetryTooLarge
from penstock.telemetry.points import METRIC_FIELDS_MAX, Point, read_points
from tests.telemetry.pushes import data_of, gauge, text

KINDS = {
    Kind.INT: {"int64", "bool", "enum"},
    Kind.DOUBLE: {"double"},
    Kind.FIXED: {"fixed64"},
    Kind.SIGNED_FIXED: {"sfixed64"},
    Kind.TEXT: {"string"},
    Kind.MESSAGE: {"message"},
}
TYPES = {1: "double", 3: "int64", 6: "fixed64", 8: "bool", 9: "string", 11: "message"}
TYPES |= {14: "enum", 16: "sfixed64"}
ROOM = published.SummaryDataPoint
NUMBERS = st.floats() | st.just(-0.0)
TIMES = st.integers(0, (1 << 63) - 1)


def descriptor(kind: type) -> Any:
    name = kind.__name__
    for module in (published, common, resource, ROOM):
        if hasattr(module, name):
            return getattr(module, name).DESCRIPTOR
    raise AssertionError(name)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in _FIELDS if kind.__module__ == otlp.__name__],
    ids=lambda kind: kind.__name__,
)
def test_messages_have_the_numbers_and_types_of_the_published_ones(kind: type) -> None:
    theirs = descriptor(kind).fields_by_name
    for one in _FIELDS[kind].values():
        field = theirs[one.name]
        assert (field.number, field.is_repeated) == (one.number, one.is_repeated), one.name
        assert TYPES[field.type] in KINDS[one.kind], one.name


def test_outer_messages_have_the_numbers_of_the_published_ones() -> None:
    def number(message: Any, name: str) -> int:
        return int(message.DESCRIPTOR.fields_by_name[name].number)

    assert number(published.MetricsData, "resource_metrics") == otlp.RESOURCE_METRICS
    assert number(published.ResourceMetrics, "resource") == otlp.RESOURCE
    assert number(published.ResourceMetrics, "scope_metrics") == otlp.SCOPE_METRICS
    assert number(published.ScopeMetrics, "metrics") == otlp.METRICS


ATTRIBUTES = st.lists(
    st.tuples(
        st.text(max_size=9),
        st.one_of(
            st.builds(lambda one: common.AnyValue(string_value=one), st.text(max_size=9)),
            st.builds(lambda one: common.AnyValue(bool_value=one), st.booleans()),
            st.builds(lambda one: common.AnyValue(int_value=one), st.integers(-99, 99)),
            st.builds(lambda one: common.AnyValue(double_value=one), st.floats(-9, 9)),
        ),
    ),
    max_size=3,
    unique_by=lambda one: one[0],
).map(lambda told: [common.KeyValue(key=key, value=value) for key, value in told])
COMMON = {"attributes": ATTRIBUTES, "time_unix_nano": TIMES, "start_time_unix_nano": TIMES}
COUNTED = COMMON | {"count": TIMES, "sum": NUMBERS}
NUMBER_POINTS = st.lists(
    st.builds(published.NumberDataPoint, as_double=NUMBERS, **COMMON)
    | st.builds(published.NumberDataPoint, as_int=st.integers(-(1 << 63), (1 << 63) - 1), **COMMON),
    max_size=3,
)
BUCKETS = {
    "bucket_counts": st.lists(TIMES, max_size=4),
    "explicit_bounds": st.lists(NUMBERS, max_size=3),
}
HISTOGRAM_POINTS = st.lists(
    st.builds(published.HistogramDataPoint, min=NUMBERS, max=NUMBERS, **COUNTED, **BUCKETS),
    max_size=3,
)
EXPONENTIAL_POINTS = st.lists(
    st.builds(published.ExponentialHistogramDataPoint, min=NUMBERS, **COUNTED), max_size=3
)
QUANTILES = st.lists(st.builds(ROOM.ValueAtQuantile, quantile=NUMBERS, value=NUMBERS), max_size=3)
SUMMARY_POINTS = st.lists(
    st.builds(published.SummaryDataPoint, quantile_values=QUANTILES, **COUNTED), max_size=3
)
TEMPORALITY = {"aggregation_temporality": st.integers(0, 2)}


def of(kind: Any, points: Any, **more: Any) -> st.SearchStrategy[Any]:
    return st.builds(kind, data_points=points, **more)


NAMED = {"name": st.text(max_size=20), "unit": st.text(max_size=5)}
METRICS = st.one_of(
    st.builds(published.Metric, gauge=of(published.Gauge, NUMBER_POINTS), **NAMED),
    st.builds(
        published.Metric,
        sum=of(published.Sum, NUMBER_POINTS, is_monotonic=st.booleans(), **TEMPORALITY),
        **NAMED,
    ),
    st.builds(
        published.Metric,
        histogram=of(published.Histogram, HISTOGRAM_POINTS, **TEMPORALITY),
        **NAMED,
    ),
    st.builds(
        published.Metric,
        exponential_histogram=of(published.ExponentialHistogram, EXPONENTIAL_POINTS, **TEMPORALITY),
        **NAMED,
    ),
    st.builds(published.Metric, summary=of(published.Summary, SUMMARY_POINTS), **NAMED),
)
PUSHES = st.builds(
    published.MetricsData,
    resource_metrics=st.lists(
        st.builds(
            published.ResourceMetrics,
            resource=st.builds(resource.Resource, attributes=ATTRIBUTES),
            scope_metrics=st.lists(
                st.builds(published.ScopeMetrics, metrics=st.lists(METRICS, max_size=3)),
                max_size=2,
            ),
        ),
        max_size=2,
    ),
)


def expected(data: published.MetricsData) -> Iterator[Point]:
    """The points, read from OpenTelemetry's own messages."""
    for one in data.resource_metrics:
        for scope in one.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind is not None:
                    held = getattr(metric, kind)
                    for point in held.data_points:
                        yield expected_point(metric, kind, held, point, one.resource)


def expected_point(metric: Any, kind: str, held: Any, point: Any, about: Any) -> Point:
    told = {one.key: attribute(one.value) for one in (*about.attributes, *point.attributes)}
    temporality = ("", "delta", "cumulative")[getattr(held, "aggregation_temporality", 0)]
    number = point.WhichOneof("value") if kind in {"gauge", "sum"} else None
    has = [name for name in ("sum", "min", "max") if hasattr(point, name)]
    present = {name for name in has if kind == "summary" or point.HasField(name)}
    return Point(
        metric=metric.name,
        kind=kind,
        unit=metric.unit,
        temporality=temporality,
        is_monotonic=bool(getattr(held, "is_monotonic", False)),
        attributes=told,
        start_ms=point.start_time_unix_nano // 1_000_000,
        time_ms=point.time_unix_nano // 1_000_000,
        value=None if number is None else plain(getattr(point, number)),
        total_count=getattr(point, "count", None),
        bounds=[plain(one) for one in getattr(point, "explicit_bounds", ())],
        buckets=list(getattr(point, "bucket_counts", ())) if kind == "histogram" else [],
        quantiles=[
            (plain(one.quantile), plain(one.value)) for one in getattr(point, "quantile_values", ())
        ],
        **{name: plain(getattr(point, name)) for name in present},
    )


def plain(number: float) -> float | None:
    return number if math.isfinite(number) else None


def attribute(value: Any) -> str:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return str(found).lower() if kind == "bool_value" else str(found)


def same_form(point: Point) -> Point:
    return point._replace(
        bounds=list(point.bounds), buckets=list(point.buckets), quantiles=list(point.quantiles)
    )


def found(data: bytes) -> list[Point]:
    return [same_form(one) for one in read_points(data) if isinstance(one, Point)]


@given(PUSHES)
def test_points_are_those_of_the_published_messages(data: published.MetricsData) -> None:
    assert found(data.SerializeToString()) == list(expected(data))


@given(st.binary(max_size=60) | PUSHES.map(lambda one: one.SerializeToString()), st.data())
def test_any_bytes_are_points_or_malformed(data: bytes, draw: st.DataObject) -> None:
    cut = draw.draw(st.integers(0, len(data)))
    flipped = bytearray(data[:cut])
    if flipped:
        flipped[draw.draw(st.integers(0, len(flipped) - 1))] ^= draw.draw(st.integers(1, 255))
    try:
        ours = found(bytes(flipped))
    except MalformedMessage:
        return
    assert all(isinstance(one, Point) for one in ours)


def test_a_resource_behind_its_metrics_is_theirs_too() -> None:
    about = resource.Resource(attributes=[text("group_id", "g")])
    scope = published.ScopeMetrics(metrics=[gauge("m", 1.0)])
    parts = [
        published.ResourceMetrics(scope_metrics=[scope]),
        published.ResourceMetrics(resource=about),
    ]
    inner = b"".join(one.SerializeToString() for one in parts)
    data = b"\x0a" + bytes((len(inner),)) + inner
    assert [one.attributes for one in found(data)] == [{"group_id": "g"}]


def test_a_point_has_few_attributes_and_short_texts() -> None:
    many = {f"k{number}": "v" for number in range(points.ATTRIBUTES_MAX + 9)}
    (point,) = found(data_of(gauge("n" * 999, 1.0, long="x" * 999, **many)))
    assert len(point.metric) == len(point.attributes["long"]) == TEXT_KEPT_MAX
    assert len(point.attributes) == points.ATTRIBUTES_MAX


def test_a_push_has_so_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "POINTS_MAX", 5)
    assert len(found(data_of(gauge("m", *[1.0] * 5)))) == 5
    with pytest.raises(TelemetryTooLarge):
        found(data_of(gauge("m", *[1.0] * 3), gauge("n", *[1.0] * 3)))


@pytest.mark.parametrize("wrapped", [0, 1, 2])
def test_a_push_has_so_many_steps_whatever_they_are(
    monkeypatch: pytest.MonkeyPatch, wrapped: int
) -> None:
    """A megabyte of empty fields would take a second."""
    monkeypatch.setattr(points, "STEPS_MAX", 40)
    data = b"\x08\x00" * 41
    for number in (otlp.SCOPE_METRICS, otlp.RESOURCE_METRICS)[-wrapped:] if wrapped else ():
        data = bytes((number << 3 | 2, len(data))) + data
    with pytest.raises(TelemetryTooLarge):
        found(data)


def test_a_metric_has_so_many_fields() -> None:
    assert len(found(data_of(gauge("m", *[1.0] * 250, node="1")))) == 250
    with pytest.raises(TooManyFields):
        found(data_of(gauge("m", *[1.0] * (METRIC_FIELDS_MAX // 2))))


def test_who_reads_is_told_how_long_a_metric_takes() -> None:
    large = gauge("m", *[1.0] * 100)
    steps = [one for one in read_points(data_of(large)) if isinstance(one, int)]
    assert max(steps) >= large.ByteSize() // points.STEP_BYTES
    fields = sum(3 for _ in range(100))
    assert fields * 4 < max(steps) * points.STEP_BYTES * 2, "some 30 fields a step at most"


@given(NUMBERS, st.integers(0, (1 << 64) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_fixed_numbers_are_written_and_read(number: float, count: int, whole: int) -> None:
    made = otlp.NumberDataPoint(as_double=number, time_unix_nano=count, as_int=whole)
    again = decode(otlp.NumberDataPoint, encode(made))
    assert repr(again) == repr(made)
    many = otlp.HistogramDataPoint(bucket_counts=[count, 0], explicit_bounds=[number])
    assert repr(decode(otlp.HistogramDataPoint, encode(many))) == repr(many)
    theirs = published.HistogramDataPoint(bucket_counts=[count, 0], explicit_bounds=[number])
    assert encode(many) == theirs.SerializeToString()
