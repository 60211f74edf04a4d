"""Parts that the answers of the administrative APIs share."""

import uuid
from collections.abc import Mapping

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.controller.topic_config.entry import ConfigEntry
from penstock.controller.topic_config.table import describe
from penstock.kafka.error_map import error_code_of
from penstock.protocol.error_codes import ErrorCode

MESSAGE_CHARACTERS_MAX = 1_000
"""Error texts quote what a client sent; a string field of an answer holds 32767 bytes at most."""


def error_fields(error: PlatformError | None) -> dict[str, object]:
    """Return `error_code` and `error_message` for an outcome."""
    if error is None:
        return {"error_code": ErrorCode.NONE, "error_message": None}
    text = str(error)[:MESSAGE_CHARACTERS_MAX]
    return {"error_code": error_code_of(error), "error_message": text or None}


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
        "synonyms": [one._asdict() for one in entry.synonyms] if synonyms else (),
        "config_type": entry.config_type,
        "documentation": entry.documentation if documentation else None,
    }


def topic_entries(image: ClusterImage, topic: TopicImage) -> list[ConfigEntry]:
    """Return all configurations of a topic."""
    set_ids = {one.replica_set_id for one in topic.partitions}
    is_unclean_allowed = any(image.replica_sets[one].is_unclean_allowed for one in set_ids)
    return describe(topic.configs, image.defaults, is_unclean_allowed=is_unclean_allowed)
