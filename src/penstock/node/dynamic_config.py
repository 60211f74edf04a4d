"""What is set at run time over a node's settings, and who goes by it.

    metadata log ─► image.configuration ─► layers of this broker ─► NodeSettings in force
                                                                     └► followers, each its part

Every process follows the log, so a change needs no request to a node, and a node that starts again
or gets a snapshot has it from there. Where nothing changed, an entry costs two look-ups.

Source: KIP-226; Kafka `DynamicBrokerConfig` and its Reconfigurables.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from penstock.base.ids import BrokerId, TopicId
from penstock.base.ports import Scheduler
from penstock.configs.entry import ConfigEntry
from penstock.controller.metadata.defaults import resolve_again
from penstock.controller.metadata.image import ClusterDelta, ClusterImage, TopicImage
from penstock.controller.resource_config.broker_keys import broker_key
from penstock.controller.resource_config.layers import layers_of, topic_defaults
from penstock.node.settings.kafka_names import broker_entries, read_only_names
from penstock.node.settings.overlay import overlaid
from penstock.node.settings.settings import NodeSettings

Follower = Callable[[NodeSettings], None]
"""Goes by settings that have changed; gets all of them and takes what is its own."""

TOPICS_TOGETHER = 200
"""Resolved in one turn of the loop: 2 ms."""

log = logging.getLogger(__name__)


class DynamicConfig:
    """See the module. `settings` are those in force."""

    def __init__(
        self,
        static: NodeSettings,
        image: ClusterImage,
        scheduler: Scheduler,
        *,
        is_broker: bool = True,
    ) -> None:
        """In a process that is no broker, what is set for all brokers holds alone."""
        broker_id = BrokerId(static.node.broker_id) if is_broker else None
        self.settings = static
        self.on_topic: Callable[[TopicImage], object] = _nothing
        """Gets each topic whose settings have changed by new defaults."""
        self._static = static
        self._image = image
        self._broker_id = broker_id
        self._scheduler = scheduler
        self._layers = layers_of(image.configuration, broker_id)
        self._followers: list[Follower] = []
        self._unresolved: list[TopicId] = []
        self._is_resolving = False
        self._entries: list[ConfigEntry] | None = None
        self._read_only: Mapping[str, str] | None = None
        self._topic_defaults: tuple[ConfigEntry, ...] | None = None
        image.subscribe(self._on_delta)
        self._refresh()

    def follow(self, follower: Follower) -> None:
        """Let `follower` go by the settings in force, now and after each change."""
        self._followers.append(follower)
        follower(self.settings)

    def prepare(self) -> None:
        """Make what clients are told: texts are read from files, and no request waits for that."""
        self.entries()
        self.read_only()

    def entries(self) -> Sequence[ConfigEntry]:
        """Return all settings of the node, read-only ones included."""
        if self._entries is None:
            self._entries = broker_entries(self._static, self._layers)
        return self._entries

    def read_only(self) -> Mapping[str, str]:
        """Return the names that can not be changed; see `BrokerConfigs`."""
        if self._read_only is None:
            self._read_only = read_only_names(self._static)
        return self._read_only

    def topic_defaults(self) -> Sequence[ConfigEntry]:
        """Return every topic key as topics have it that say nothing."""
        if self._topic_defaults is None:
            self._topic_defaults = topic_defaults(self._layers, self._static.topic)
        return self._topic_defaults

    def _on_delta(self, _: ClusterDelta) -> None:
        layers = layers_of(self._image.configuration, self._broker_id)
        if not layers.is_same(self._layers):
            before, self._layers = self._layers, layers
            _say(before.overrides(), layers.overrides())
            self._refresh()

    def _refresh(self) -> None:
        self._entries = self._topic_defaults = None
        before, self.settings = self.settings, overlaid(self._static, self._layers.overrides())
        if self.settings == before:
            return
        for follower in self._followers:
            follower(self.settings)
        if self.settings.topic != self._image.defaults:
            self._image.defaults = self.settings.topic
            self._unresolved = list(self._image.topics_by_id)
            self._resolve_soon()

    def _resolve_soon(self) -> None:
        if self._unresolved and not self._is_resolving:
            self._is_resolving = True
            self._scheduler.call_soon(self._resolve_some)

    def _resolve_some(self) -> None:
        self._is_resolving = False
        some = self._unresolved[-TOPICS_TOGETHER:]
        del self._unresolved[-TOPICS_TOGETHER:]
        for topic in resolve_again(self._image, some):
            self.on_topic(topic)
        self._resolve_soon()


def _say(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Tell whoever looks after the node; a value is no secret, as no key takes one."""
    for key in sorted(key for key in {*before, *after} if before.get(key) != after.get(key)):
        row = broker_key(key)
        idle = f" (no effect: {row.no_effect})" if row is not None and row.no_effect else ""
        log.info("configuration %s=%s%s", key, after.get(key, "as it was at start"), idle)


def _nothing(_: TopicImage) -> None:
    pass
