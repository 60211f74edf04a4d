"""The metrics of what RocketMQ's clients pop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.broker.coordinators.share_policies import popping_group
from penstock.shares.messages import Unavailable

if TYPE_CHECKING:
    from penstock.remoting.pop.desk import PopDesk
    from penstock.shares.state import ShareKey

SHARES_MAX: Final = 500
"""Shares that are looked at for a page: 3 ms."""


def pop_metrics(desk: PopDesk) -> Iterator[Metric]:
    """Yield what is counted of pops, and where the groups that pop here are."""
    counted = CounterMetricFamily(
        "penstock_remoting_pop_messages",
        "Messages by group and outcome: popped; again, those of them that had been popped before;"
        " acknowledged; renewed, kept for longer; refused, as their receipts were not valid any"
        " more; dead_letter.",
        labels=["group", "outcome"],
    )
    for (group, outcome), count in desk.pops.counts.items():
        counted.add_metric([group, outcome], count)
    yield counted
    yield GaugeMetricFamily(
        "penstock_remoting_pops_waiting",
        "Pops and notifications that look for messages, or wait for some.",
        desk.pops.waiting,
    )
    yield GaugeMetricFamily(
        "penstock_remoting_kept_batches_bytes",
        "Memory of batches in the middle of which RocketMQ's clients have stopped reading.",
        desk.kept.bytes_now,
    )
    begun = CounterMetricFamily(
        "penstock_remoting_batches_begun",
        "Reads by RocketMQ's clients that begin in a batch: anew, it is checked, decompressed and"
        " stepped through; on, where an earlier read has ended.",
        labels=["how"],
    )
    begun.add_metric(["anew"], desk.kept.opened)
    begun.add_metric(["on"], desk.kept.read_on)
    yield begun
    held = GaugeMetricFamily(
        "penstock_remoting_pop_held",
        "Messages of queues that are led here, by group: in_flight, with a client; ready, those"
        " that came back and may be popped. Of 500 queues at most.",
        labels=["group", "state"],
    )
    for (group, state), count in _held(desk).items():
        held.add_metric([group, state], count)
    yield held


def _held(desk: PopDesk) -> Counter[tuple[str, str]]:
    held: Counter[tuple[str, str]] = Counter()
    shares = desk.broker.shares
    for key in islice(_popped(shares.here.keys()), SHARES_MAX):
        described = shares.describe(key)
        if isinstance(described, Unavailable):
            continue
        group = popping_group(key.group) or ""
        held[group, "in_flight"] += described.in_flight_count
        held[group, "ready"] += described.free_count
    return held


def _popped(keys: Iterator[ShareKey]) -> Iterator[ShareKey]:
    return (key for key in keys if popping_group(key.group) is not None)
