"""Whether this process can do its work, and what it has done, for Prometheus.

Source: ours; docs/adr/0147 for what strangers are told.
"""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from penstock.http.call import Call
from penstock.http.problems import stopping, unavailable

if TYPE_CHECKING:
    from penstock.http.front import Front

HEALTH_S: Final = 3.0
"""Longest look for a node that answers."""


async def health(front: "Front", call: Call) -> None:
    """Answer 200 while a node answers. Raises Problem otherwise."""
    if front.stopping.is_set():
        raise stopping()
    try:
        async with asyncio.timeout(HEALTH_S):
            is_reached = await front.health.is_reached()
    except TimeoutError:
        is_reached = False
    if not is_reached:
        raise unavailable("no-node", "no node answers", "see whether the nodes run")
    await call.answer({"status": "ok"}, HTTPStatus.OK)


async def metrics_page(front: "Front", call: Call) -> None:
    """Answer with all metrics."""
    registry = CollectorRegistry()
    registry.register(_Metrics(front))
    await call.answer_bytes(generate_latest(registry), CONTENT_TYPE_LATEST)


class _Metrics(Collector):
    def __init__(self, front: "Front") -> None:
        self._front = front

    def collect(self) -> Iterator[Metric]:
        yield from http_metrics(self._front)


def http_metrics(front: "Front") -> Iterator[Metric]:
    """Yield what the process counts."""
    stats = front.stats
    requests = CounterMetricFamily(
        "penstock_http_requests",
        "Requests over HTTP by operation and status; status 0: the client went away before.",
        labels=["operation", "status"],
    )
    for (operation, status), count in sorted(stats.requests.items()):
        requests.add_metric([operation, str(int(status))], count)
    yield requests
    messages = CounterMetricFamily(
        "penstock_http_messages",
        "Messages over HTTP by what became of them.",
        labels=["outcome"],
    )
    for outcome, count in sorted(stats.messages.items()):
        messages.add_metric([outcome], count)
    yield messages
    yield GaugeMetricFamily(
        "penstock_http_waiting",
        "Receives and streams over HTTP that are open.",
        sum(stats.waiting.values()),
    )
    yield GaugeMetricFamily(
        "penstock_http_held_bytes",
        "Bodies of requests and answers over HTTP that are worked on.",
        front.held.bytes_now,
    )
    yield GaugeMetricFamily(
        "penstock_http_node_requests",
        "Requests of the HTTP front that wait for a node, those that wait for messages included.",
        front.node_requests,
    )
    yield GaugeMetricFamily(
        "penstock_http_connections",
        "Connections of HTTP clients.",
        len(front.places),
    )
    yield CounterMetricFamily(
        "penstock_http_connections_refused",
        "Connections of HTTP clients that were one too many.",
        stats.refused_connections,
    )
    yield CounterMetricFamily(
        "penstock_http_connections_ended",
        "Connections of HTTP clients that were ended, as they were too slow.",
        stats.slow_clients,
    )
