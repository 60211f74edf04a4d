"""Pushes, made with OpenTelemetry's own messages: what is right, and what no broker may take."""

from random import Random
from typing import NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)

from penstock.protocol.error_codes import ErrorCode
from penstock.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from simulator.run.topology import PUSH_BYTES_MAX

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
NO_CODEC = 9
POINTS = (1, 5)


class Told(NamedTuple):
    """The bytes of a push, and what they are answered with if nothing else is wrong."""

    codec: int
    data: bytes
    code: ErrorCode = ErrorCode.NONE


def told(points: dict[str, float], draw: Random) -> Told:
    """Return a push of these."""
    codec = draw.choice(CODECS)
    return Told(codec, compress(codec, _encoded(points)))


def wrong(points: dict[str, float], draw: Random) -> Told:
    """Return a push that is refused for what it holds."""
    plain = _encoded(points)
    codec = draw.choice(CODECS)
    large = plain + _encoded({"x" * 200: 0.0}) * (PUSH_BYTES_MAX // 200 + 1)
    return draw.choice(
        (
            Told(NO_CODEC, plain, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            Told(codec, compress(codec, large), ErrorCode.TELEMETRY_TOO_LARGE),
            Told(NONE, plain[:-1], ErrorCode.INVALID_RECORD),
            Told(draw.choice(CODECS[1:]), plain, ErrorCode.INVALID_RECORD),
        )
    )


def _encoded(points: dict[str, float]) -> bytes:
    metrics = [
        Metric(name=name, gauge=Gauge(data_points=[NumberDataPoint(as_double=value)]))
        for name, value in points.items()
    ]
    scope = ScopeMetrics(metrics=metrics)
    data: bytes = MetricsData(
        resource_metrics=[ResourceMetrics(scope_metrics=[scope])]
    ).SerializeToString()
    return data
