"""What every process has to know alike of topics, and of what is configured.

What a topic comes to is left out: that is its overrides over the defaults of one process, which are
its settings and what is set for that broker.
"""

from typing import NamedTuple

from penstock.base.ids import ReplicaSetId, TopicId
from penstock.controller.metadata.image import ClusterImage


class TopicFacts(NamedTuple):
    """A topic as records tell it."""

    name: str
    topic_id: TopicId
    set_ids: tuple[ReplicaSetId, ...]
    configs: tuple[tuple[str, str], ...]
    internal: bool


def topic_facts(image: ClusterImage) -> list[TopicFacts]:
    """Return all topics by name."""
    return [
        TopicFacts(
            one.name,
            one.topic_id,
            one.partitions.set_ids,
            tuple(sorted(one.configs.items())),
            one.internal,
        )
        for _, one in sorted(image.topics_by_name.items())
    ]


def configured(image: ClusterImage) -> list[tuple[int, str, str, str]]:
    """Return what is set of brokers, groups and client metrics: (type, name, key, value)."""
    resources = image.configuration.resources
    return sorted(
        (int(kind), name, key, value)
        for (kind, name), values in resources.items()
        for key, value in values.items()
    )
