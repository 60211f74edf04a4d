"""The group coordinator of a node."""

from collections.abc import Callable
from functools import partial

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.broker.coordinators.group_cluster import GroupCluster
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.node.apply_settings import group_config
from penstock.node.dynamic_config import DynamicConfig


def start_groups(
    broker: Broker,
    journal: InternalTopicJournal,
    dynamic: DynamicConfig,
    *,
    cluster: GroupCluster,
    new_suffix: Callable[[], str],
    on_unreadable: Callable[[str, int, PlatformError], None],
) -> None:
    """Coordinate the groups whose internal partitions are led here.

    `on_unreadable` is told the internal topic, the partition and why it can not be loaded.
    """
    groups = broker.groups = GroupCoordinator(
        broker.clock,
        journal,
        config=group_config(dynamic.settings),
        cluster=cluster,
        new_suffix=new_suffix,
        later=broker.scheduler.call_soon,
    )
    dynamic.follow(lambda now: groups.use_config(group_config(now)))
    unreadable = partial(on_unreadable, INTERNAL_TOPIC)
    broker.host(CoordinatorHosting(broker, groups.runtime, journal, unreadable))
