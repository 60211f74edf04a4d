"""The families of groups, and those that every kind of coordinator has."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.broker.broker import Broker
from penstock.groups.coordinator import GroupCoordinator

GROUP_COUNTERS = {
    "rebalances_started": "Rebalances started.",
    "rebalances_completed": "Rebalances completed.",
    "consumer_rebalances": "New assignments of consumer groups (KIP-848).",
    "share_rebalances": "New assignments of share groups (KIP-932).",
    "streams_rebalances": "New assignments of streams groups (KIP-1071).",
    "groups_upgraded": "Classic groups with members that became consumer groups (KIP-848).",
    "groups_downgraded": "Consumer groups with members that became classic groups.",
    "members_expired": "Members whose session timed out.",
    "members_held_up": "Members that a rebalance waited for until its time was up.",
    "static_members_replaced": "Static members that came back under a new member id.",
    "offsets_committed": "Positions committed, outside of transactions.",
    "transactional_offsets": "Positions written in transactions, whatever became of these.",
    "commits_refused": "Commits refused.",
    "offsets_refused": "Positions refused, because their metadata or all positions are too large.",
    "joins_put_off": "Joins that were told to come again: groups take all memory they may.",
    "groups_expired": "Groups deleted because nobody used them.",
    "records_unread": "Records of the internal topic that could not be understood; they are kept.",
    "journal_errors": "Writes to the internal topic that failed.",
}


def group_metrics(broker: Broker) -> Iterator[Metric]:
    """Yield what there is of groups, and of every kind of coordinator."""
    groups: GroupCoordinator | None = getattr(broker, "groups", None)
    if groups is None:  # the node is still starting
        return
    yield GaugeMetricFamily("penstock_groups", "Groups known.", groups.group_count)
    yield GaugeMetricFamily(
        "penstock_group_members_bytes",
        "About what groups, their members and positions take in memory.",
        groups.pinned_bytes,
    )
    yield GaugeMetricFamily(
        "penstock_group_unread_bytes",
        "Kept in memory of records of the internal topic that could not be understood.",
        groups.runtime.unread_bytes,
    )
    yield GaugeMetricFamily(
        "penstock_group_partitions_not_rewritten",
        "Internal partitions that stay as they are for what could not be understood in them.",
        len(groups.runtime.base.rewrites.held),
    )
    yield from _coordinators(broker)
    for name, text in GROUP_COUNTERS.items():
        yield CounterMetricFamily(
            f"penstock_group_{name}", text, value=getattr(groups.counters, name)
        )


def _coordinators(broker: Broker) -> Iterator[Metric]:
    """Tell the same of every kind of coordinator."""
    partitions = GaugeMetricFamily(
        "penstock_coordinator_partitions",
        "Internal partitions that are coordinated here, by what is coordinated.",
        labels=["kind", "state"],
    )
    writes = GaugeMetricFamily(
        "penstock_coordinator_writes_in_flight",
        "Writes to internal partitions that are not confirmed yet.",
        labels=["kind"],
    )
    for hosting in broker.coordinators.values():
        base = hosting.runtime.base
        for state, count in base.partitions.counted():
            partitions.add_metric([base.config.kind, state.value], count)
        writes.add_metric([base.config.kind], base.writes.in_flight)
    yield partitions
    yield writes
