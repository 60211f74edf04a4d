"""The metrics of shares."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.kafka.shares.sessions import ShareSessions
from penstock.shares.coordinator import ShareCoordinator
from penstock.shares.updates.handed import Short

COUNTERS = {
    "handed_out": "Records handed out to members of share groups, each time that one is.",
    "ended": "Records that were looked at because a member had them for as long as it may.",
    "refused_writes": "Writes of shares that the log refused, which are tried again.",
}


def share_metrics(coordinator: ShareCoordinator, sessions: ShareSessions) -> Iterator[Metric]:
    """Yield what the coordinator of this broker counts, and its sessions."""
    yield GaugeMetricFamily(
        "penstock_shares",
        "Shares: groups by partitions whose data is led here.",
        len([*coordinator.here.keys()]),
    )
    yield GaugeMetricFamily(
        "penstock_shares_memory_bytes",
        "Approximate memory of these shares.",
        coordinator.here.memory_bytes,
    )
    for name, text in COUNTERS.items():
        count = getattr(coordinator.counters, name)
        yield CounterMetricFamily(f"penstock_shares_{name}", text, value=count)
    short = CounterMetricFamily(
        "penstock_shares_short",
        "Hand-outs of fewer records than wanted, by the reason.",
        labels=["reason"],
    )
    for reason in Short:
        short.add_metric([reason.name.lower()], coordinator.counters.short[reason])
    yield short
    yield GaugeMetricFamily(
        "penstock_share_sessions", "Sessions of members of share groups.", len(sessions)
    )
    yield GaugeMetricFamily(
        "penstock_share_fetches_waiting",
        "Fetches of share groups that wait for records.",
        sessions.waiting,
    )
    yield CounterMetricFamily(
        "penstock_share_sessions_refused",
        "Sessions of share groups that were refused because there are too many.",
        value=sessions.refused,
    )
