"""Starts the coordinators of a node: a call for each kind."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.broker.coordinators.group_cluster import GroupCluster
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.kafka.front import KafkaFront
from penstock.kafka.shares.masters import CalledShareMasters
from penstock.node.apply_settings import share_config
from penstock.node.control_plane import ProcessPorts
from penstock.node.coordinators.groups import start_groups
from penstock.node.coordinators.shares import start_shares
from penstock.node.coordinators.tier import TierParts, start_tier
from penstock.node.coordinators.transactions import start_transactions
from penstock.node.dynamic_config import DynamicConfig
from penstock.node.object_store import OpenStore
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.ha.host import Hook
from penstock.runtime.io.randomness import random_uuid
from penstock.runtime.io.supervisor import Supervisor

if TYPE_CHECKING:
    from penstock.remoting.pop.desk import PopDesk


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorParts:
    """What a node has for its coordinators."""

    settings: NodeSettings
    front: KafkaFront
    dynamic: DynamicConfig
    groups_journal: InternalTopicJournal
    ports: ProcessPorts
    calls: BrokerCalls
    supervisor: Supervisor
    retention_now_ms: Callable[[], int]
    """The clock by which positions expire, as records do."""
    desk: "PopDesk | None"
    """None without a port for RocketMQ's clients."""
    cluster_id: str
    open_store: OpenStore
    on_unreadable: Callable[[str, int, PlatformError], None]
    """Is told the internal topic, the partition and why it can not be loaded."""


def start_coordinators(parts: CoordinatorParts) -> list[Hook]:
    """Start them; return what is to be told of each member that is opened. Raises ConfigError."""
    front, settings, ports = parts.front, parts.settings, parts.ports
    broker, calls, supervisor = front.broker, parts.calls, parts.supervisor
    start_groups(
        broker,
        parts.groups_journal,
        parts.dynamic,
        cluster=GroupCluster(
            broker.metadata,
            parts.retention_now_ms,
            CalledShareMasters(broker, calls, supervisor.run_once),
        ),
        new_suffix=lambda: str(random_uuid(ports.randomness)),
        on_unreadable=parts.on_unreadable,
    )
    start_transactions(
        broker,
        ports.clock,
        settings.transactions,
        calls=calls,
        supervisor=supervisor,
        on_unreadable=parts.on_unreadable,
    )
    start_shares(
        front,
        ports.clock,
        share_config(settings),
        calls=calls,
        supervisor=supervisor,
        desk=parts.desk,
        on_unreadable=parts.on_unreadable,
    )
    tier = TierParts(settings.tier, parts.cluster_id, ports, parts.open_store, calls)
    return start_tier(broker, tier, parts.on_unreadable)
