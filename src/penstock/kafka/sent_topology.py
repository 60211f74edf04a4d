"""The topology that a member of a streams group sends: its size, the names in it, what it is here.

Source: StreamsGroupHeartbeatRequest.json (KIP-1071).
"""

from collections.abc import Iterable
from typing import Any

from penstock.controller.commands.topic_names import check_topic_name
from penstock.controller.errors import InvalidTopicName
from penstock.groups.streams.checks import SUBTOPOLOGIES_MAX
from penstock.groups.streams.records import Pairs
from penstock.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
)

ENTRIES_MAX = 4_000
"""Most topics, expressions and groups in a topology, and most settings and places in these."""


def is_large(subtopologies: Any) -> bool:
    """Whether a topology is larger than can be looked at in a few turns."""
    if len(subtopologies) > SUBTOPOLOGIES_MAX:
        return True
    internal = [
        topics
        for one in subtopologies
        for topics in (one.repartition_source_topics, one.state_changelog_topics)
    ]
    named = [
        names
        for one in subtopologies
        for names in (one.source_topics, one.source_topic_regex, one.repartition_sink_topics)
    ]
    together = [one.copartition_groups for one in subtopologies]
    if sum(map(len, [*internal, *named, *together])) > ENTRIES_MAX:
        return True
    inner = [topic.topic_configs for topics in internal for topic in topics]
    inner += [
        places
        for groups in together
        for group in groups
        for places in (
            group.source_topics,
            group.source_topic_regex,
            group.repartition_source_topics,
        )
    ]
    return sum(map(len, inner)) > ENTRIES_MAX


def topic_names(one: Any) -> Iterable[str]:
    """Yield the names of topics in a subtopology."""
    yield from one.source_topics
    yield from one.repartition_sink_topics
    for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
        yield topic.name


def is_topic_name(name: str) -> bool:
    """Whether a topic may be called so."""
    try:
        check_topic_name(name)
    except InvalidTopicName:
        return False
    return True


def topology_of(sent: Any) -> Topology:
    """Return the topology that a member sends."""
    made = [
        Subtopology(
            subtopology_id=one.subtopology_id,
            source_topics=tuple(one.source_topics),
            source_regexes=tuple(one.source_topic_regex),
            changelogs=_internal(one.state_changelog_topics),
            repartition_sinks=tuple(one.repartition_sink_topics),
            repartition_sources=_internal(one.repartition_source_topics),
            copartition_groups=tuple(
                CopartitionGroup(
                    tuple(group.source_topics),
                    tuple(group.source_topic_regex),
                    tuple(group.repartition_source_topics),
                )
                for group in one.copartition_groups
            ),
        )
        for one in sent.subtopologies
    ]
    return Topology(sent.epoch, tuple(sorted(made)))


def _internal(topics: Iterable[Any]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            topic.name, topic.partitions, topic.replication_factor, pairs_of(topic.topic_configs)
        )
        for topic in topics
    )


def pairs_of(sent: Iterable[Any]) -> Pairs:
    """Return keys with their values."""
    return tuple((pair.key, pair.value) for pair in sent)
