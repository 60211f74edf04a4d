"""The metrics page: plain counters of the rooms, turned into Prometheus text at scrape time.

Nothing on the request path knows Prometheus: rooms keep integers in slots, and this collector
reads them on the event loop, so that a page shows one moment. Names follow Prometheus custom: base
units, `_total` for counters, `penstock_` in front.

What is not here: per-partition series. 10,000 partitions would make a page of megabytes; sizes and
offsets of a partition are answered by the protocol (ListOffsets, DescribeConfigs) and the CLI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from penstock.broker.api_stats import BUCKET_COUNT, ApiStats, Histogram
from penstock.broker.sets.housekeeping import Housekeeping
from penstock.controller.metadata.image import ClusterImage
from penstock.kafka.front import KafkaFront
from penstock.net.stats import NetStats
from penstock.node.control_plane import ControlPlane
from penstock.node.pages.access_metrics import access_metrics
from penstock.node.pages.cluster_metrics import call_metrics, control_metrics, replica_metrics
from penstock.node.pages.group_metrics import group_metrics
from penstock.node.pages.grpc_metrics import grpc_metrics
from penstock.node.pages.keeping_metrics import keeping_metrics
from penstock.node.pages.listener_metrics import listener_metrics
from penstock.node.pages.pop_metrics import pop_metrics
from penstock.node.pages.quota_metrics import quota_metrics
from penstock.node.pages.remoting_metrics import remoting_metrics
from penstock.node.pages.second_level_metrics import repair_metrics, second_level_metrics
from penstock.node.pages.share_metrics import share_metrics
from penstock.node.pages.tier_metrics import tier_metrics
from penstock.node.pages.transaction_metrics import transaction_metrics
from penstock.runtime.calls.ports import CallStats
from penstock.runtime.io.disk import DiskStats
from penstock.runtime.io.http_server import Page
from penstock.runtime.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from penstock.grpc.port import GrpcPort
    from penstock.remoting.front import RemotingFront

_US_PER_S = 1_000_000
PINNING_NAMED = 10
"""Partitions of each log with a metric of their own."""


class MetricsSources(NamedTuple):
    """Where the counters lie; what does not exist yet at this point of a start is empty."""

    front: KafkaFront
    net: NetStats
    disks: Mapping[str, DiskStats]
    """By data directory."""
    plane: ControlPlane
    manager: ReplicaManager | None
    calls: CallStats
    housekeeping: Housekeeping
    remoting: RemotingFront | None = None
    grpc: GrpcPort | None = None


class ControllerSources(NamedTuple):
    """What the metrics page of a process reads that is a controller alone."""

    plane: ControlPlane
    image: ClusterImage


class NodeCollector(Collector):
    """Reads the counters of one node."""

    def __init__(self, sources: MetricsSources) -> None:
        self._front = sources.front
        self._broker = sources.front.broker
        self._net = sources.net
        self._disks = sources.disks
        self._plane = sources.plane
        self._manager = sources.manager
        self._calls = sources.calls
        self._housekeeping = sources.housekeeping
        self._remoting = sources.remoting
        self._grpc = sources.grpc

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family once."""
        yield from self._requests()
        yield from access_metrics(self._broker)
        yield from quota_metrics(self._broker)
        yield from self._data()
        yield from self._logs()
        yield from second_level_metrics(self._broker.members, self._housekeeping)
        yield from repair_metrics(self._broker.members, self._housekeeping.repairs)
        yield from tier_metrics(self._broker.members, self._broker.tier)
        yield from self._disk_syncs()
        yield from control_metrics(self._plane, self._broker.metadata)
        if self._manager is not None:
            yield from replica_metrics(self._manager)
        yield from call_metrics(self._calls)
        yield from group_metrics(self._broker)
        transactions = getattr(self._broker, "transactions", None)
        if transactions is not None:  # the node has started so far
            yield from transaction_metrics(transactions)
        shares = getattr(self._broker, "shares", None)
        if shares is not None:
            yield from share_metrics(shares, self._front.share_sessions)
        if self._remoting is not None:
            yield from remoting_metrics(self._remoting)
        if self._grpc is not None:
            yield from grpc_metrics(self._grpc)
        front = self._remoting or (None if self._grpc is None else self._grpc.front)
        if front is not None:
            yield from pop_metrics(front.desk)
            yield from keeping_metrics(front.keeping)
        yield from self._waiting()
        yield from self._connections()
        yield from listener_metrics(self._net)

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("penstock_requests", "Requests by API.", labels=["api"])
        failed = CounterMetricFamily(
            "penstock_requests_failed",
            "Requests that ended their connection instead of being answered, by API.",
            labels=["api"],
        )
        received = CounterMetricFamily(
            "penstock_request_bytes", "Bytes of requests, by API.", labels=["api"]
        )
        answered = CounterMetricFamily(
            "penstock_answer_bytes", "Bytes of answers, by API.", labels=["api"]
        )
        times = HistogramMetricFamily(
            "penstock_request_stage_seconds",
            "Time of requests by stage: local (handling), remote (waiting for acknowledgement, "
            "disk or data).",
            labels=["api", "stage"],
        )
        turns = GaugeMetricFamily(
            "penstock_loop_longest_turn_seconds",
            "The longest time that an API held the loop at once, in the last one to two minutes; "
            "`FetchWakes` are parked fetches that read again, `remoting.` and `grpc.` begin the "
            "names of requests of RocketMQ's clients. By the clock: time in which other processes "
            "had its processor counts.",
            labels=["api"],
        )
        for api in self._broker.stats.by_api.values():
            requests.add_metric([api.name], api.requests)
            failed.add_metric([api.name], api.errors)
            received.add_metric([api.name], api.bytes_in)
            answered.add_metric([api.name], api.bytes_out)
            if api.requests:
                _add_stages(times, api)
        for longest in self._broker.stats.longest_turns():
            turns.add_metric([longest.name], longest.us / 1e6)
        yield requests
        yield failed
        yield received
        yield answered
        yield times
        yield turns
        delay = HistogramMetricFamily(
            "penstock_loop_delay_seconds",
            "By how much a timer of 100 ms came late: what any request waits before it is handled.",
        )
        _add_histogram(delay, [], self._broker.stats.loop_delay)
        yield delay
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

    def _disk_syncs(self) -> Iterator[Metric]:
        times = HistogramMetricFamily(
            "penstock_disk_sync_seconds",
            "Time of fdatasync calls, one of which covers many batches.",
            labels=["directory"],
        )
        failed = CounterMetricFamily(
            "penstock_disk_syncs_failed", "Syncs that failed.", labels=["directory"]
        )
        for directory, stats in self._disks.items():
            _add_histogram(times, [directory], stats.sync_times)
            failed.add_metric([directory], stats.failed_syncs)
        yield times
        yield failed

    def _logs(self) -> Iterator[Metric]:
        gauges = {
            name: GaugeMetricFamily(f"penstock_log_{name}", text, labels=["replica_set"])
            for name, text in LOG_GAUGES.items()
        }
        deleted = CounterMetricFamily(
            "penstock_log_deleted_segments",
            "Segment files deleted by retention and DeleteRecords.",
            labels=["replica_set"],
        )
        early = CounterMetricFamily(
            "penstock_log_closed_early_segments",
            "Segment files closed before they were full, to clean or delete what is old in them.",
            labels=["replica_set"],
        )
        for set_id, member in self._broker.members.items():
            label = [str(set_id)]
            log = member.log
            numbers = log.numbers()
            deleted.add_metric(label, numbers.deleted_files)
            early.add_metric(label, numbers.closed_early)
            values = {
                "end_position_bytes": log.end_position,
                "written_position_bytes": log.written_position,
                "flushed_position_bytes": log.flushed_position,
                "durable_position_bytes": log.durable_position,
                "confirm_position_bytes": member.confirm_position,
                "leader_epoch": member.leader_epoch,
                "fenced": int(log.is_fenced),
                "full": int(log.is_full),
                "free_bytes": numbers.free_bytes,
                "segments": numbers.file_count,
                "segment_bytes": numbers.file_bytes,
                "snapshot_position_bytes": numbers.snapshot_position,
                "checkpoint_failed": int(numbers.has_checkpoint_failed),
                "recovery_replayed_bytes": log.recovery.replayed_bytes,
                "recovery_cut_bytes": log.recovery.cut_bytes,
                "partitions": len(log.partitions),
            }
            for name, value in values.items():
                gauges[name].add_metric(label, value)
        yield from gauges.values()
        yield deleted
        yield early
        yield from self._pins()

    def _pins(self) -> Iterator[Metric]:
        """Who kept closed segments when retention last looked; the heaviest partitions by name."""
        pinned = GaugeMetricFamily(
            "penstock_log_pinned_bytes",
            "Closed segments that some partition still needs.",
            labels=["replica_set"],
        )
        movable = GaugeMetricFamily(
            "penstock_log_movable_pinned_bytes",
            "Closed segments that only internal partitions need which can be rewritten.",
            labels=["replica_set"],
        )
        kept = GaugeMetricFamily(
            "penstock_log_partition_pinned_bytes",
            "Closed segments that the partition needs; of the ten that keep most.",
            labels=["replica_set", "topic", "partition"],
        )
        alone = GaugeMetricFamily(
            "penstock_log_partition_pinned_alone_bytes",
            "Closed segments that nobody but the partition needs.",
            labels=["replica_set", "topic", "partition"],
        )
        for set_id, member in self._broker.members.items():
            report = member.log.pins
            pinned.add_metric([str(set_id)], report.pinned_bytes)
            movable.add_metric([str(set_id)], report.movable.size_bytes)
            for partition, pins in report.heaviest(PINNING_NAMED):
                topic = self._broker.partitions.by_id.get(partition.topic_id)
                name = partition.topic_id.hex() if topic is None else topic.name
                label = [str(set_id), name, str(partition.partition)]
                kept.add_metric(label, pins.size_bytes)
                alone.add_metric(label, pins.alone_bytes)
        yield from (pinned, movable, kept, alone)

    def _waiting(self) -> Iterator[Metric]:
        members = self._broker.members.values()
        waiting = GaugeMetricFamily(
            "penstock_purgatory_requests", "Produce requests waiting.", labels=["for"]
        )
        waiting.add_metric(["all"], sum(len(member.waiting_for_all) for member in members))
        waiting.add_metric(["master"], sum(len(member.waiting_for_master) for member in members))
        yield waiting
        yield _counter(
            "penstock_fetches_parked",
            "Fetches that waited for records.",
            self._broker.stats.fetches_parked,
        )
        ahead = CounterMetricFamily(
            "penstock_reads_ahead",
            "Reads done before a consumer asked for them: used by it, or dropped.",
            labels=["outcome"],
        )
        ahead.add_metric(["used"], self._broker.stats.reads_ahead_used)
        ahead.add_metric(["dropped"], self._broker.stats.reads_ahead_dropped)
        yield ahead
        yield GaugeMetricFamily(
            "penstock_fetch_sessions", "Fetch sessions kept.", len(self._front.fetch_sessions)
        )
        yield GaugeMetricFamily(
            "penstock_fetch_sessions_bytes",
            "About what fetch sessions take in memory.",
            self._front.fetch_sessions.pinned_bytes,
        )
        yield _counter(
            "penstock_fetch_sessions_refused",
            "Fetch sessions that were not made, or ended, for want of room.",
            self._front.fetch_sessions.refused,
        )

    def _connections(self) -> Iterator[Metric]:
        net = self._net
        yield GaugeMetricFamily("penstock_connections", "Open connections.", net.connections)
        yield _counter("penstock_connections_accepted", "Connections accepted.", net.accepted)
        yield _counter("penstock_frames", "Requests received whole.", net.frames)
        yield _counter(
            "penstock_reading_pauses",
            "Times a connection was not read: too many requests, unread answers or no memory.",
            net.reading_pauses,
        )
        yield GaugeMetricFamily(
            "penstock_unfinished_bytes",
            "Memory that clients pin, bounded by net.unfinished_bytes_max.",
            net.unfinished_bytes,
        )
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
    "written_position_bytes": "End of what the page cache has.",
    "flushed_position_bytes": "End of what is on the disk; end minus this waits for a sync.",
    "durable_position_bytes": "End of what is durable under the flush policy.",
    "confirm_position_bytes": "End of what consumers may see.",
    "leader_epoch": "Epoch of the present mastership.",
    "fenced": "1 after a failed write or sync: restart the node.",
    "full": "1 while produce is refused for want of space.",
    "free_bytes": "Free space of the data directory's file system.",
    "partitions": "Partitions in the log.",
    "segments": "Segment files.",
    "segment_bytes": "Size of all segment files, allocated space included.",
    "snapshot_position_bytes": "Position of the newest snapshot: a crash replays from here.",
    "checkpoint_failed": "1 while the newest snapshot could not be written.",
    "recovery_replayed_bytes": "What the last start had to replay.",
    "recovery_cut_bytes": "Whole, never acknowledged frames that the last start cut off.",
}


class ControllerCollector(Collector):
    """Reads the counters of a controller alone."""

    def __init__(self, sources: ControllerSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family once."""
        return control_metrics(self._sources.plane, self._sources.image)


def metrics_page(sources: MetricsSources) -> Page:
    """Return a node's whole page; called by the HTTP server for each scrape."""
    return _page(NodeCollector(sources))


def controller_page(sources: ControllerSources) -> Page:
    """Return the page of a controller alone."""
    return _page(ControllerCollector(sources))


def _page(collector: Collector) -> Page:
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return Page(200, CONTENT_TYPE_LATEST, generate_latest(registry))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _add_stages(family: HistogramMetricFamily, api: ApiStats) -> None:
    for stage, histogram in (("local", api.local), ("remote", api.remote)):
        _add_histogram(family, [api.name, stage], histogram)


def _add_histogram(family: HistogramMetricFamily, labels: list[str], values: Histogram) -> None:
    family.add_metric(labels, _buckets(values), values.total_us / _US_PER_S)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts with their upper bounds in seconds, as Prometheus wants them."""
    total = 0
    buckets = []
    for slot in range(BUCKET_COUNT - 1):
        total += histogram.buckets[slot]
        buckets.append((repr((1 << slot) / _US_PER_S), float(total)))
    buckets.append(("+Inf", float(total + histogram.buckets[-1])))
    return buckets
