"""The group coordinator of a node."""

from collections.abc import Callable
from functools import partial

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.broker.coordinators.group_cluster import GroupCluster
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.coordinators.positions import GroupPositions
from penstock.coordinator.calls.positions import (
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
)
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.node.apply_settings import group_config
from penstock.node.dynamic_config import DynamicConfig
from penstock.runtime.calls.broker_calls import BrokerCalls


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


def answer_positions(broker: Broker, calls: BrokerCalls) -> None:
    """Answer other brokers about positions of the groups that are coordinated here."""
    positions = GroupPositions(broker)
    calls.server.serve(CommitPositionRequest, positions.answer_commit)
    calls.server.serve(FetchPositionRequest, positions.answer_fetch)
    calls.server.serve(GroupPositionsRequest, positions.answer_all)
    calls.server.serve(DeleteGroupRequest, positions.answer_deletion)
