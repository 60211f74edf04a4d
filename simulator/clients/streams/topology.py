"""What a simulated application is made of, as its members send it.

    history ─► subtopology 0 ─► repartition topic ─► subtopology 1 ─► changelog

Source: StreamsGroupHeartbeatRequest.json (KIP-1071).
"""

from typing import Any

from simulator.history.tasks import Task
from simulator.run.topology import TOPIC

EPOCH = 1
READS, COUNTS = "0", "1"
"""The subtopologies: the second one keeps state."""
_NO_PARTITIONS = 0
"""As many as the coordinator finds right."""


def topology_of(group: str, *, has_regex: bool) -> dict[str, Any]:
    """Return the topology; with an expression for the topic's name or with the name."""
    repartition, changelog = f"{group}-counts-repartition", f"{group}-counts-changelog"
    reads = {
        "subtopology_id": READS,
        "source_topics": [] if has_regex else [TOPIC],
        "source_topic_regex": [f"{TOPIC[:-1]}."] if has_regex else [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [repartition],
        "repartition_source_topics": [],
        "copartition_groups": [
            {
                "source_topics": [] if has_regex else [0],
                "source_topic_regex": [0] if has_regex else [],
                "repartition_source_topics": [],
            }
        ],
    }
    counts = {
        "subtopology_id": COUNTS,
        "source_topics": [],
        "source_topic_regex": [],
        "state_changelog_topics": [_internal(changelog, {"cleanup.policy": "compact"})],
        "repartition_sink_topics": [],
        "repartition_source_topics": [_internal(repartition, {"retention.ms": "-1"})],
        "copartition_groups": [
            {"source_topics": [], "source_topic_regex": [], "repartition_source_topics": [0]}
        ],
    }
    return {"epoch": EPOCH, "subtopologies": [reads, counts]}


def tasks_of(partitions: int) -> frozenset[Task]:
    """Return all active tasks, where the topic has so many partitions."""
    return frozenset((one, number) for one in (READS, COUNTS) for number in range(partitions))


def _internal(name: str, configs: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "partitions": _NO_PARTITIONS,
        "replication_factor": 0,
        "topic_configs": [{"key": key, "value": value} for key, value in configs.items()],
    }
