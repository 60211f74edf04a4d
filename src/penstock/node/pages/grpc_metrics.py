"""The metrics of the port for RocketMQ's gRPC clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from penstock.grpc.port import GrpcPort


def grpc_metrics(port: GrpcPort) -> Iterator[Metric]:
    """Yield what the front counts; connections and their bytes are among those of all ports."""
    requests = CounterMetricFamily(
        "penstock_grpc_requests", "Calls of gRPC clients by method.", labels=["method"]
    )
    for method, count in sorted(port.front.requests.items()):
        requests.add_metric([method], count)
    yield requests
    refusals = CounterMetricFamily(
        "penstock_grpc_refusals",
        "Answers to gRPC clients by RocketMQ's code, but for those that say that all is well.",
        labels=["code"],
    )
    for code, count in sorted(port.front.refusals.items()):
        refusals.add_metric([str(int(code))], count)
    yield refusals
    faults = CounterMetricFamily(
        "penstock_grpc_faults",
        "Connections of gRPC clients that were closed for what came of them, by HTTP/2's code.",
        labels=["code"],
    )
    for name, count in sorted(port.front.faults.items()):
        faults.add_metric([name.lower()], count)
    yield faults
    yield CounterMetricFamily(
        "penstock_grpc_not_renewed",
        "Batches of push consumers that are not renewed, since too many are: their messages come"
        " again after a minute unless they are acknowledged.",
        port.front.renewals.left_out,
    )
    yield from _current(port)


def _current(port: GrpcPort) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "penstock_grpc_streams",
        "Calls of gRPC clients that are open, among them a stream of each client's settings.",
        port.streams,
    )
    yield GaugeMetricFamily(
        "penstock_grpc_clients",
        "Streams of gRPC clients that have told their settings to this node.",
        len(port.front.settled),
    )
    yield GaugeMetricFamily(
        "penstock_grpc_consumers",
        "gRPC consumers that have told their settings to this node.",
        len(port.front.consumers),
    )
    yield GaugeMetricFamily(
        "penstock_grpc_producers",
        "Topics of gRPC producers that have told them to this node, each with its producer.",
        port.front.producers.count,
    )
    yield GaugeMetricFamily(
        "penstock_grpc_renewed",
        "Batches of messages in the hands of push consumers, kept for them while they live.",
        len(port.front.renewals),
    )
    yield GaugeMetricFamily(
        "penstock_grpc_held_bytes",
        "Memory of requests and answers of gRPC clients that are not done.",
        port.bytes_now,
    )
    yield GaugeMetricFamily(
        "penstock_grpc_paused_connections",
        "Connections of gRPC clients that are not read, since all together hold too much.",
        len(port.starved),
    )
