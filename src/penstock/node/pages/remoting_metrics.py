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
    yield from _retry_metrics(front)
    yield from _half_metrics(front)


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


def _retry_metrics(front: RemotingFront) -> Iterator[Metric]:
    """Yield what is counted of messages that come again, or later."""
    sent_back = CounterMetricFamily(
        "penstock_remoting_sent_back",
        "Messages that consumers could not consume, by where they go.",
        labels=["to"],
    )
    for kind in ("retry", "dead_letter"):
        sent_back.add_metric([kind], front.sent_back[kind])
    yield sent_back
    delivery = front.delivery
    delayed = CounterMetricFamily(
        "penstock_remoting_delayed",
        "Messages with a delay: held; delivered when it was over; put back for it once more, since"
        " their topic refused them; dropped with their topic.",
        labels=["outcome"],
    )
    delayed.add_metric(["held"], front.holding.held)
    delayed.add_metric(["delivered"], delivery.delivered)
    delayed.add_metric(["put_back"], delivery.put_back)
    delayed.add_metric(["dropped"], delivery.dropped)
    yield delayed
    yield GaugeMetricFamily(
        "penstock_remoting_delayed_waiting",
        "Messages that wait for their time in the sets that are led here.",
        delivery.waiting(),
    )
    yield GaugeMetricFamily(
        "penstock_remoting_delayed_late_seconds",
        "For how long the first message that is due has been waiting to be delivered.",
        delivery.late_ms() / 1000,
    )


def _half_metrics(front: RemotingFront) -> Iterator[Metric]:
    """Yield what is counted of half messages."""
    halves = front.halves
    counted = CounterMetricFamily(
        "penstock_remoting_half_messages",
        "Half messages of transactions: taken; committed and rolled back by their producers;"
        " discarded, since nobody has decided them; dropped with their topic.",
        labels=["outcome"],
    )
    names = {"taken": "taken", "commit": "committed", "rollback": "rolled_back"}
    for key, name in (names | {"discard": "discarded", "drop": "dropped"}).items():
        counted.add_metric([name], halves.counts[key])
    yield counted
    yield CounterMetricFamily(
        "penstock_remoting_half_checks",
        "Questions to producers what has become of a transaction.",
        halves.counts["check"],
    )
    yield GaugeMetricFamily(
        "penstock_remoting_half_waiting",
        "Half messages that wait for their decision in the sets that are led here.",
        halves.waiting(),
    )
    yield GaugeMetricFamily(
        "penstock_remoting_half_oldest_age_seconds",
        "For how long the oldest of them has been waiting.",
        halves.oldest_age_ms() / 1000,
    )
    yield GaugeMetricFamily(
        "penstock_remoting_producers",
        "Producers of remoting clients, by their heartbeats to this node.",
        halves.producers.count,
    )
