"""The metrics of the port for RocketMQ's remoting clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from penstock.remoting.front import RemotingFront


def remoting_metrics(front: RemotingFront) -> Iterator[Metric]:
    """Yield what the front counts; connections and their bytes are among those of all ports."""
    from penstock.remoting.wire.codes import RequestCode  # noqa: PLC0415  where it is loaded anyway

    names = {int(code): code.name for code in RequestCode}
    requests = CounterMetricFamily(
        "penstock_remoting_requests",
        "Requests of remoting clients by what they ask; `other` are refused as not supported.",
        labels=["request"],
    )
    for code, count in sorted(front.requests.items()):
        requests.add_metric([names.get(code, "other")], count)
    yield requests
    yield GaugeMetricFamily(
        "penstock_remoting_held_bytes",
        "Approximate memory of unanswered requests of remoting clients.",
        front.held.bytes_now,
    )
    yield GaugeMetricFamily(
        "penstock_remoting_paused_connections",
        "Connections of remoting clients that are not read, since too much is unanswered.",
        front.held.paused,
    )
    yield GaugeMetricFamily(
        "penstock_remoting_members",
        "Members of consumer groups of remoting clients, by their heartbeats to this node.",
        front.members.count,
    )
    yield GaugeMetricFamily(
        "penstock_remoting_members_bytes",
        "Approximate memory of these members.",
        front.members.bytes_now,
    )
    yield from _filter_metrics(front)
    yield from _sent_back(front)
    yield from _index_metrics(front)
    yield GaugeMetricFamily(
        "penstock_remoting_producers",
        "Producers of remoting clients, by their heartbeats to this node.",
        front.asker.producers.count,
    )


def _filter_metrics(front: RemotingFront) -> Iterator[Metric]:
    """Yield what is counted of filters."""
    from penstock.remoting.filters.verdicts import Verdict  # noqa: PLC0415  as above

    left_out = CounterMetricFamily(
        "penstock_remoting_filtered",
        "Messages that were read for a pull and not sent, by what its filter says: another tag; an"
        " expression that is not true; one that compares a number with a property that is none.",
        labels=["by"],
    )
    for verdict in (Verdict.TAG, Verdict.SQL, Verdict.SQL_ERROR):
        left_out.add_metric([verdict.value], front.filtering.left_out[verdict])
    yield left_out
    yield GaugeMetricFamily(
        "penstock_remoting_expressions",
        "Expressions of SQL-92 that are kept compiled.",
        front.compiled.count,
    )
    yield GaugeMetricFamily(
        "penstock_remoting_expressions_bytes",
        "Approximate memory of these expressions.",
        front.compiled.bytes_now,
    )


def _sent_back(front: RemotingFront) -> Iterator[Metric]:
    """Yield what is counted of messages that come again."""
    sent_back = CounterMetricFamily(
        "penstock_remoting_sent_back",
        "Messages that consumers could not consume, by where they go.",
        labels=["to"],
    )
    for kind in ("retry", "dead_letter"):
        sent_back.add_metric([kind], front.sent_back[kind])
    yield sent_back


def _index_metrics(front: RemotingFront) -> Iterator[Metric]:
    """Yield what is counted of the index of messages by id and key."""
    finding, indexes = front.finding, list(front.finding.indexes.values())
    yield GaugeMetricFamily(
        "penstock_remoting_index_bytes",
        "Bytes on the disk of the index of messages by id and key.",
        sum(one.bytes_now for one in indexes),
    )
    yield GaugeMetricFamily(
        "penstock_remoting_index_tables",
        "Tables on the disk of the index of messages by id and key.",
        sum(len(one.tables) for one in indexes),
    )
    yield GaugeMetricFamily(
        "penstock_remoting_index_behind_bytes",
        "Confirmed bytes of logs that are lacking in the index of messages by id and key.",
        sum(one.behind_bytes for one in indexes),
    )
    yield CounterMetricFamily(
        "penstock_remoting_index_entries",
        "Ids and keys that were added to the index of messages by id and key.",
        sum(one.entries for one in indexes),
    )
    yield CounterMetricFamily(
        "penstock_remoting_index_damaged_tables",
        "Damaged tables of the index of messages by id and key.",
        sum(one.damaged for one in indexes),
    )
    yield CounterMetricFamily(
        "penstock_remoting_index_unreadable_batches",
        "Batches not read for the index of messages by id and key.",
        sum(one.unreadable for one in indexes),
    )
    searches = CounterMetricFamily(
        "penstock_remoting_searches",
        "Queries for messages by id or key, by their outcome; `behind`: nothing was found, and the"
        " index lacks something.",
        labels=["outcome"],
    )
    for outcome in ("found", "nothing", "behind"):
        searches.add_metric([outcome], finding.searches[outcome])
    yield searches
