"""Logs once which topic configurations have no effect here, or not the one that Kafka gives them.

A tool that sets them gets no error (ADR 0070), so the operator is told. A client can create topics
by the thousand, so for one change only some are named, and the rest is a number.

Source: ours.
"""

import logging

from penstock.base.ids import TopicId
from penstock.controller.metadata.image import ClusterDelta, TopicImage
from penstock.controller.topic_config.table import TOPIC_CONFIGS

TOPICS_NAMED_MAX = 10
VALUE_CHARACTERS = 40
_NOT_CLEANED = (
    "nothing is compacted on this node, all records are kept: log.level0_ms and log.level0_bytes"
    " are off"
)

log = logging.getLogger(__name__)


class IdleKeys:
    """Remembers what was logged for each topic until it is deleted."""

    __slots__ = ("_said", "cleans")

    def __init__(self) -> None:
        self._said: dict[TopicId, frozenset[str]] = {}
        self.cleans = False
        """Whether this node cleans compacted topics."""

    def note(self, delta: ClusterDelta) -> None:
        """Warn about what is new among the topics of a change."""
        for topic in delta.deleted_topics:
            self._said.pop(topic.topic_id, None)
        changed = {one.topic_id: one for one in (*delta.created_topics, *delta.changed_configs)}
        count = 0
        for topic in changed.values():
            new = self._new(topic)
            count += bool(new)
            if new and count <= TOPICS_NAMED_MAX:
                self._warn(topic, new)
        if count > TOPICS_NAMED_MAX:
            log.warning(
                "%d more topics have configurations without effect here", count - TOPICS_NAMED_MAX
            )

    def _new(self, topic: TopicImage) -> list[str]:
        idle = frozenset(key for key, text in topic.configs.items() if self._reason(key, text))
        said = self._said.get(topic.topic_id, frozenset())
        if not idle <= said:
            self._said[topic.topic_id] = said | idle
        return sorted(idle - said)

    def _reason(self, key: str, text: str) -> str:
        """Return how this override differs from Kafka's; an empty string if it does not."""
        if key == "cleanup.policy":
            return "" if self.cleans or "compact" not in text else _NOT_CLEANED
        row = TOPIC_CONFIGS.get(key)
        return "" if row is None else row.no_effect

    def _warn(self, topic: TopicImage, keys: list[str]) -> None:
        configs = topic.configs
        told = [
            f"{key}={configs[key][:VALUE_CHARACTERS]} ({self._reason(key, configs[key])})"
            for key in keys
        ]
        log.warning("topic=%s without effect: %s", topic.name, "; ".join(told))
