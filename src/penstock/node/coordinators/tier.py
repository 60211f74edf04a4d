"""The coordinator of the tier's metadata of a node, and what copies into the store."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.tier.run_answers import RunAnswers
from penstock.controller.commands.topic_names import TIER_STATE_TOPIC
from penstock.coordinator.calls.tier import TierRunsRequest
from penstock.node.control_plane import ProcessPorts
from penstock.node.housekeeper.splitter import cluster_bytes
from penstock.node.object_store import OpenStore
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.ha.host import Hook
from penstock.runtime.tier.masterships import TierMasterships, TierStore
from penstock.tier.config import TierConfig
from penstock.tier.service.config import TierServiceConfig
from penstock.tier.service.coordinator import TierCoordinator


class TierParts(NamedTuple):
    """What a node has for its tier."""

    config: TierConfig
    cluster_id: str
    ports: ProcessPorts
    open_store: OpenStore
    calls: BrokerCalls


def start_tier(
    broker: Broker,
    parts: TierParts,
    on_unreadable: Callable[[str, int, PlatformError], None],
) -> list[Hook]:
    """Keep the tier's metadata of the sets that are led here, and copy them into its store.

    Return what is to be told of each member that is opened. Where the settings name no store,
    nothing is copied; the metadata is kept all the same, since its records would stay in the log
    as they are, and keep their files. `on_unreadable` is told the internal topic, the partition and
    why it can not be loaded. Raises ConfigError.
    """
    config, cluster_id, ports, open_store, calls = parts
    cluster = cluster_bytes(cluster_id)
    journal = InternalTopicJournal(broker, TIER_STATE_TOPIC)
    coordinator = TierCoordinator(
        broker.clock,
        journal,
        cluster_id=cluster,
        config=TierServiceConfig(times=config.times()),
        later=broker.scheduler.call_soon,
    )
    unreadable = partial(on_unreadable, TIER_STATE_TOPIC)
    broker.host(CoordinatorHosting(broker, coordinator.runtime, journal, unreadable))
    calls.server.serve(TierRunsRequest, RunAnswers(broker).give)
    if not config.url:
        return []
    target = TierStore(cluster, open_store(config), calls)
    masterships = broker.tier = TierMasterships(
        broker, coordinator, target, config, randomness=ports.randomness, spawn=ports.spawn
    )
    ports.spawn("tier", masterships.run())
    ports.spawn("tier disks", masterships.free())
    return [masterships.listen_to]
