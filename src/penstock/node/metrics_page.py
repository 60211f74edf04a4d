"""The metrics page: plain counters of the rooms, turned into Prometheus text at scrape time.

Nothing on the request path knows Prometheus: rooms keep integers in slots, and this collector
reads them on the event loop, so that a page shows one moment. Names follow Prometheus custom: base
units, `_total` for counters, `penstock_` in front.

What is not here: per-partition series. 10,000 partitions would make a page of megabytes; sizes and
offsets of a partition are answered by the protocol (ListOffsets, DescribeConfigs) and the CLI.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from penstock.broker.broker import Broker
from penstock.broker.stats import BUCKET_COUNT, ApiStats, Histogram
from penstock.net.stats import NetStats
from penstock.runtime.http_server import Page

_US_PER_S = 1_000_000


class NodeCollector(Collector):
    """Reads the counters of one node."""

    def __init__(self, broker: Broker, net: NetStats) -> None:
        self._broker = broker
        self._net = net

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family once."""
        yield from self._requests()
        yield from self._data()
        yield from self._logs()
        yield from self._waiting()
        yield from self._connections()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("penstock_requests", "Requests by API.", labels=["api"])
        times = HistogramMetricFamily(
            "penstock_request_stage_seconds",
            "Time of requests by stage: local (handling), remote (waiting for acknowledgement, "
            "disk or data).",
            labels=["api", "stage"],
        )
        for api in self._broker.stats.by_api.values():
            requests.add_metric([api.name], api.requests)
            if api.requests:
                _add_stages(times, api)
        yield requests
        yield times
        errors = CounterMetricFamily(
            "penstock_request_errors",
            "Requests that ended their connection, by reason; `unhandled` is a bug.",
            labels=["reason"],
        )
        for reason, count in sorted(({"unhandled": 0} | self._broker.stats.request_errors).items()):
            errors.add_metric([reason], count)
        yield errors

    def _data(self) -> Iterator[Metric]:
        stats = self._broker.stats
        yield _counter(
            "penstock_produced_bytes", "Bytes appended by clients.", stats.bytes_produced
        )
        yield _counter(
            "penstock_produced_records", "Records appended by clients.", stats.records_produced
        )
        yield _counter("penstock_fetched_bytes", "Record bytes sent.", stats.bytes_fetched)
        yield _counter(
            "penstock_duplicate_batches",
            "Batches of idempotent producers that were there already.",
            stats.duplicate_batches,
        )
        yield _counter(
            "penstock_cold_reads", "Reads that went to the disk.", stats.fetch_cold_reads
        )
        yield _counter(
            "penstock_produce_timeouts",
            "Produce requests not acknowledged in their time.",
            stats.produce_timeouts,
        )
        refused = CounterMetricFamily(
            "penstock_refused_batches", "Batches refused, by error code.", labels=["error"]
        )
        for reason, count in sorted(stats.refused_batches.items()):
            refused.add_metric([reason], count)
        yield refused

    def _logs(self) -> Iterator[Metric]:
        gauges = {
            name: GaugeMetricFamily(f"penstock_log_{name}", text, labels=["replica_set"])
            for name, text in LOG_GAUGES.items()
        }
        for set_id, member in self._broker.members.items():
            label = [str(set_id)]
            log = member.log
            values = {
                "end_position_bytes": log.end_position,
                "durable_position_bytes": log.durable_position,
                "confirm_position_bytes": member.confirm_position,
                "leader_epoch": member.leader_epoch,
                "fenced": int(log.is_fenced),
                "full": int(log.is_full),
                "free_bytes": log.usage().free_bytes,
                "partitions": len(log.partitions),
            }
            for name, value in values.items():
                gauges[name].add_metric(label, value)
        yield from gauges.values()

    def _waiting(self) -> Iterator[Metric]:
        members = self._broker.members.values()
        waiting = GaugeMetricFamily(
            "penstock_purgatory_requests", "Produce requests waiting.", labels=["for"]
        )
        waiting.add_metric(["all"], sum(len(member.waiting_for_all) for member in members))
        waiting.add_metric(["master"], sum(len(member.waiting_for_master) for member in members))
        yield waiting
        yield GaugeMetricFamily(
            "penstock_fetch_sessions", "Fetch sessions kept.", len(self._broker.fetch_sessions)
        )

    def _connections(self) -> Iterator[Metric]:
        net = self._net
        yield GaugeMetricFamily("penstock_connections", "Open connections.", net.connections)
        yield _counter("penstock_received_bytes", "Bytes received.", net.bytes_in)
        yield _counter("penstock_sent_bytes", "Bytes sent.", net.bytes_out)
        refused = CounterMetricFamily(
            "penstock_connections_refused", "Connections refused, by reason.", labels=["reason"]
        )
        for reason, count in sorted(net.refused.items()):
            refused.add_metric([reason], count)
        yield refused
        closed = CounterMetricFamily(
            "penstock_connections_closed",
            "Connections the node ended, by reason.",
            labels=["reason"],
        )
        for reason, count in sorted(net.closed.items()):
            closed.add_metric([reason], count)
        yield closed


LOG_GAUGES = {
    "end_position_bytes": "End of the log.",
    "durable_position_bytes": "End of what is durable under the flush policy.",
    "confirm_position_bytes": "End of what consumers may see.",
    "leader_epoch": "Epoch of the present mastership.",
    "fenced": "1 after a failed write or sync: restart the node.",
    "full": "1 while produce is refused for want of space.",
    "free_bytes": "Free space of the data directory's file system.",
    "partitions": "Partitions in the log.",
}


def metrics_page(broker: Broker, net: NetStats) -> Page:
    """Return the whole page; called by the HTTP server for each scrape."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(broker, net))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return Page(200, CONTENT_TYPE_LATEST, generate_latest(registry))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _add_stages(family: HistogramMetricFamily, api: ApiStats) -> None:
    for stage, histogram in (("local", api.local), ("remote", api.remote)):
        family.add_metric([api.name, stage], _buckets(histogram), histogram.total_us / _US_PER_S)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts with their upper bounds in seconds, as Prometheus wants them."""
    total = 0
    buckets = []
    for slot in range(BUCKET_COUNT - 1):
        total += histogram.buckets[slot]
        buckets.append((repr((1 << slot) / _US_PER_S), float(total)))
    buckets.append(("+Inf", float(total + histogram.buckets[-1])))
    return buckets
