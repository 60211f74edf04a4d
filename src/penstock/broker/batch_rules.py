"""What a topic's settings mean for each batch, worked out once per change of the settings."""

from typing import Final, NamedTuple

from penstock.controller.topic_config import TopicSettings
from penstock.record.compression import Bounds

DECOMPRESSED_FACTOR = 4
"""A batch that the broker opens may hold so many times what the topic takes as one batch."""
CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class BatchRules(NamedTuple):
    """Read for every batch; `codec` is None where the producer's codec is kept."""

    max_message_bytes: int
    min_insync_replicas: int
    codec: int | None
    is_log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    needs_rewrite: bool
    bounds: Bounds
    """What a batch may become when it is decompressed for another codec."""


def rules_of(settings: TopicSettings) -> BatchRules:
    """Resolve the settings of a topic."""
    codec = CODECS.get(settings.compression_type)
    return BatchRules(
        max_message_bytes=settings.max_message_bytes,
        min_insync_replicas=settings.min_insync_replicas,
        codec=codec,
        is_log_append_time=settings.is_log_append_time,
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        needs_rewrite=codec is not None or settings.is_log_append_time,
        bounds=Bounds(DECOMPRESSED_FACTOR * settings.max_message_bytes),
    )
