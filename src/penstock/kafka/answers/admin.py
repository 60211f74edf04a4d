"""Parts that the answers of the administrative APIs share."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.configs.entry import ConfigEntry
from penstock.controller.errors import InvalidConfig, InvalidPartitions
from penstock.controller.metadata.image import TopicImage
from penstock.controller.topic_config.describe import describe
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.protocol.error_codes import ErrorCode

ASSIGNMENTS_MAX = 10_000
"""Partitions that a client may place by hand in one topic of one request, as in Kafka
(`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`). All are judged together, in one turn of the
controller's loop: 10,000 take about a millisecond."""
SETTINGS_MAX = 1_000
"""Settings that a client may name for a new topic; there are far fewer."""
PARTITIONS_WEIGHED = 100
"""Partitions that weigh as much as a plain topic (WEIGH in registry.py): 300 us of this process and
as much of every other one."""

MESSAGE_CHARACTERS_MAX = 1_000
"""Error texts quote what a client sent; a string field of an answer holds 32767 bytes at most."""


def error_fields(error: PlatformError | None) -> dict[str, object]:
    """Return `error_code` and `error_message` for an outcome."""
    if error is None:
        return {"error_code": ErrorCode.NONE, "error_message": None}
    text = str(error)[:MESSAGE_CHARACTERS_MAX]
    return {"error_code": error_code_of(error), "error_message": text or None}


def partitions_weight(count: int, assignments: Sequence[object] | None) -> int:
    """Return what the partitions of a topic weigh: `count`, or those that are placed by hand."""
    return 1 + max(count, len(assignments or ()), 0) // PARTITIONS_WEIGHED


def moderate(topics: Sequence[Any], refused: list[tuple[Any, PlatformError]]) -> list[Any]:
    """Return the topics that can be passed to the controller; `refused` gets those that name more
    assignments or settings than one turn of its loop has time for.
    """
    passed = []
    for topic in topics:
        error = _excess(len(topic.assignments or ()), len(getattr(topic, "configs", ())))
        if error is None:
            passed.append(topic)
        else:
            refused.append((topic, error))
    return passed


def _excess(assignments: int, settings: int) -> PlatformError | None:
    if assignments > ASSIGNMENTS_MAX:
        return InvalidPartitions(
            f"{assignments} partitions are placed by hand; one request may place"
            f" {ASSIGNMENTS_MAX} of a topic. Add the others with CreatePartitions."
        )
    if settings > SETTINGS_MAX:
        return InvalidConfig("configs", f"{settings} settings are more than there are.")
    return None


def topic_id_of(wire_id: uuid.UUID | None) -> TopicId | None:
    """Return the id of a request; None for the zero id."""
    return None if wire_id is None or wire_id.int == 0 else TopicId(wire_id.bytes)


def config_fields(
    entry: ConfigEntry, *, synonyms: bool = False, documentation: bool = False
) -> Mapping[str, object]:
    """Return a configuration entry as DescribeConfigs and CreateTopics answer it."""
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "read_only": entry.is_read_only,
        "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [synonym._asdict() for synonym in entry.synonyms] if synonyms else (),
        "config_type": entry.config_type,
        "documentation": entry.documentation if documentation else None,
    }


def topic_entries(context: RequestContext, topic: TopicImage) -> list[ConfigEntry]:
    """Return all configurations of a topic."""
    image = context.broker.metadata
    set_ids = set(topic.partitions.set_ids)
    is_unclean_allowed = any(image.replica_sets[set_id].is_unclean_allowed for set_id in set_ids)
    unset = context.front.configs.topic_defaults()
    return describe(topic.configs, unset, is_unclean_allowed=is_unclean_allowed)
