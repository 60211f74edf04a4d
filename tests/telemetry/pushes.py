"""What clients push, made with OpenTelemetry's own messages."""

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)


def text(key: str, value: str) -> KeyValue:
    """An attribute with a text."""
    return KeyValue(key=key, value=AnyValue(string_value=value))


def gauge(name: str, *values: float, **attributes: str) -> Metric:
    """A metric with a point for each value."""
    told = [text(key, value) for key, value in attributes.items()]
    points = [
        NumberDataPoint(as_double=value, time_unix_nano=5_000_000, attributes=told)
        for value in values
    ]
    return Metric(name=name, gauge=Gauge(data_points=points))


def data_of(*metrics: Metric) -> bytes:
    """A push of these metrics."""
    scope = ScopeMetrics(metrics=metrics)
    return MetricsData(
        resource_metrics=[ResourceMetrics(scope_metrics=[scope])]
    ).SerializeToString()
