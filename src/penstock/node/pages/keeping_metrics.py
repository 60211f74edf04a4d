"""The metrics of messages that RocketMQ's clients of both protocols have delivered later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from penstock.remoting.keeping import Keeping


def keeping_metrics(keeping: Keeping) -> Iterator[Metric]:
    """Yield what is counted of what waits, and of what became of it."""
    yield from _delay_metrics(keeping)
    yield from _recall_metrics(keeping)
    yield from _half_metrics(keeping)


def _delay_metrics(keeping: Keeping) -> Iterator[Metric]:
    """Yield what is counted of messages with a delay."""
    delivery = keeping.delivery
    delayed = CounterMetricFamily(
        "penstock_remoting_delayed",
        "Messages with a delay: held; delivered when it was over; moved from one level to the next,"
        " where they have a time of their own; put back for it once more, since their topic refused"
        " them; dropped with their topic; recalled, and dropped when their level was over.",
        labels=["outcome"],
    )
    delayed.add_metric(["held"], keeping.holding.held)
    delayed.add_metric(["delivered"], delivery.delivered)
    delayed.add_metric(["moved"], delivery.moved)
    delayed.add_metric(["put_back"], delivery.put_back)
    delayed.add_metric(["dropped"], delivery.dropped)
    delayed.add_metric(["recalled"], keeping.recalls.dropped)
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


def _recall_metrics(keeping: Keeping) -> Iterator[Metric]:
    """Yield what is counted of recalls."""
    yield CounterMetricFamily(
        "penstock_remoting_recalls",
        "Recalls of messages that wait for a time of their own that were taken.",
        keeping.recalls.recalled,
    )
    yield GaugeMetricFamily(
        "penstock_remoting_recalls_waiting",
        "Recalls of the sets that are led here that are kept, since their messages may still wait.",
        keeping.recalls.waiting(),
    )


def _half_metrics(keeping: Keeping) -> Iterator[Metric]:
    """Yield what is counted of half messages."""
    halves = keeping.halves
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
