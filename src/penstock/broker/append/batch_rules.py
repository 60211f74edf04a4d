"""A topic's settings as they apply to each batch, resolved once per change of the settings."""

from typing import Final, NamedTuple

from penstock.controller.topic_config.table import MAX_MESSAGE_BYTES_MAX, TopicSettings
from penstock.record.compression import (
    GZIP,
    GZIP_LEVEL,
    LZ4,
    LZ4_LEVEL,
    ZSTD,
    ZSTD_LEVEL,
    Bounds,
)

UNPACKED_RATIO_MAX = 1000
"""Highest ratio of deflate, and so of gzip (1,032); only zstd, and so zstd bombs, exceed it."""
UNPACKED_RATIO_FREE_BYTES = 4 << 20
"""Some megabytes of one repeated byte are no bomb, however well zstd compresses them."""
CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

USUAL_LEVELS: Final = {GZIP: GZIP_LEVEL, LZ4: LZ4_LEVEL, ZSTD: ZSTD_LEVEL}


class BatchRules(NamedTuple):
    """Read for every batch; `codec` is None if the producer's codec is kept."""

    max_message_bytes: int
    min_insync_replicas: int
    codec: int | None
    level: int | None
    """Compression level in Kafka's numbering; None if the codec has no levels."""
    is_level_usual: bool
    is_log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    looks_at_records: bool
    needs_keys: bool
    """Whether each record must have a key: the topic is compacted. They are looked at then."""
    bounds: Bounds
    """Largest size of a batch after decompression."""
    takes_plain: bool
    """Whether `record/plain.py` checks all that this topic wants checked of a plain batch."""


def rules_of(settings: TopicSettings) -> BatchRules:
    """Resolve the settings of a topic."""
    codec = CODECS.get(settings.compression_type)
    levels = {
        GZIP: settings.compression_gzip_level,
        LZ4: settings.compression_lz4_level,
        ZSTD: settings.compression_zstd_level,
    }
    level = levels.get(codec or 0)
    looks_at_records = settings.record_validation == "all" or settings.is_compacted
    stores_as_sent = not codec and not settings.is_log_append_time
    return BatchRules(
        max_message_bytes=min(settings.max_message_bytes, MAX_MESSAGE_BYTES_MAX),
        min_insync_replicas=settings.min_insync_replicas,
        codec=codec,
        level=level,
        is_level_usual=level == USUAL_LEVELS.get(codec or 0),
        is_log_append_time=settings.is_log_append_time,
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        looks_at_records=looks_at_records,
        needs_keys=settings.is_compacted,
        bounds=Bounds(
            settings.record_unpacked_bytes_max,
            ratio_max=UNPACKED_RATIO_MAX,
            ratio_free_bytes=UNPACKED_RATIO_FREE_BYTES,
        ),
        takes_plain=looks_at_records and stores_as_sent and not settings.is_compacted,
    )
