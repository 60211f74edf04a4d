"""The coordinator of the tier's metadata of a node, and what copies into the store."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.base.errors import ConfigError, PlatformError
from penstock.broker.broker import Broker
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.controller.commands.topic_names import TIER_STATE_TOPIC
from penstock.node.control_plane import ProcessPorts
from penstock.node.housekeeper.splitter import cluster_bytes
from penstock.runtime.ha.host import Hook
from penstock.runtime.io.object_store import S3Settings, open_directory, open_s3
from penstock.runtime.tier.masterships import TierMasterships, TierStore
from penstock.tier.config import TierConfig
from penstock.tier.port import ObjectStore
from penstock.tier.service.config import TierServiceConfig
from penstock.tier.service.coordinator import TierCoordinator


def open_store(config: TierConfig) -> ObjectStore:
    """Return the store that the settings name. Nothing is asked of S3 yet. Raises ConfigError."""
    place = config.place()
    if place.scheme == "file":
        return open_directory(Path(place.path))
    try:
        secret = Path(config.secret_key_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tier.secret_key_file can not be read: {error}") from error
    return open_s3(
        S3Settings(
            bucket=place.netloc,
            endpoint=config.endpoint,
            region=config.region,
            access_key_id=config.access_key_id,
            secret_access_key=secret,
            prefix=place.path.strip("/"),
        )
    )


def start_tier(
    broker: Broker,
    config: TierConfig,
    cluster_id: str,
    ports: ProcessPorts,
    *,
    on_unreadable: Callable[[str, int, PlatformError], None],
) -> list[Hook]:
    """Keep the tier's metadata of the sets that are led here, and copy them into its store.

    Return what is to be told of each member that is opened. Where the settings name no store,
    nothing is copied; the metadata is kept all the same, since its records would stay in the log
    as they are, and keep their files. `on_unreadable` is told the internal topic, the partition and
    why it can not be loaded. Raises ConfigError.
    """
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
    if not config.url:
        return []
    target = TierStore(cluster, open_store(config))
    masterships = broker.tier = TierMasterships(
        broker, coordinator, target, config, randomness=ports.randomness, spawn=ports.spawn
    )
    ports.spawn("tier", masterships.run())
    ports.spawn("tier disks", masterships.free())
    return [masterships.listen_to]
