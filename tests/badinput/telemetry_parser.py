"""What reads the metrics that clients push, for the fuzzer: points of OTLP, and their rows."""

import random
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.metrics.v1 import metrics_pb2 as published

from penstock.audit.row import Who
from penstock.telemetry.points import POINTS_MAX, Point, read_points
from penstock.telemetry.row import Source, Writer, decode_row
from tests.telemetry.pushes import data_of, gauge, text

SOURCE = Source(1, 1_700_000_000_000, "ABEiM0RVZneImaq7zN3u_w", Who("User:a", "c", "s", "1", "::1"))


def points(data: bytes) -> None:
    """Read a push, write the row of each point and read that. Raises PlatformError."""
    writer, count = Writer(SOURCE), 0
    for step in read_points(bytes(data)):
        if isinstance(step, Point):
            count += 1
            row = decode_row(writer.row(step))
            assert (row.source, row.point.metric) == (SOURCE, step.metric)
    assert count <= POINTS_MAX


def pushes(rng: random.Random) -> Iterator[bytes]:
    """Yield some pushes, with points of every kind."""
    for number in range(10):
        told: dict[str, Any] = {
            "attributes": [text("node", str(number))],
            "time_unix_nano": rng.getrandbits(63),
        }
        counted = told | {"count": rng.getrandbits(60), "sum": rng.random()}
        quantile = published.SummaryDataPoint.ValueAtQuantile(quantile=0.5, value=rng.random())
        total = published.NumberDataPoint(as_int=rng.getrandbits(62), **told)
        bucketed = published.HistogramDataPoint(
            bucket_counts=[1, rng.getrandbits(40)], explicit_bounds=[rng.random()], **counted
        )
        summed = published.SummaryDataPoint(quantile_values=[quantile], **counted)
        yield data_of(
            gauge("g", *(rng.random() for _ in range(number))),
            published.Metric(name="s", sum=published.Sum(data_points=[total])),
            published.Metric(name="h", histogram=published.Histogram(data_points=[bucketed])),
            published.Metric(name="q", summary=published.Summary(data_points=[summed])),
        )
