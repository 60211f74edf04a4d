"""The table of topic configurations that exist: a key stands here if and only if it has effect.

    text in a request ── check_override ──► text in a record ── resolve ──► TopicSettings

`TopicSettings` is resolved once per change and cached on the topic's image: a produce request reads
attributes. The fields of `TopicSettings` are at the same time the node's defaults for topics
without an override; each has Kafka's name with underscores.

Keys that Kafka has and Penstock has no use for are refused with the reason rather than accepted in
silence (ADR 0004). Source: Kafka TopicConfig and LogConfig (names, defaults, documentation in our
own words); KIP-937 for the two timestamp bounds; default of `after.max.ms` as in Kafka 4.0.
Segment sizes, flush policy and directories belong to the replica set's log, not to a topic.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

from annotated_types import Ge, Le

from penstock.controller.errors import InvalidConfig
from penstock.controller.topic_config.entry import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
)
from penstock.controller.topic_config.refused import REFUSED_KEYS

INT64_MAX = 2**63 - 1
MAX_MESSAGE_BYTES_MAX = 64 << 20
"""Largest batch that a topic may allow: 64 MiB, below the largest request a listener takes."""

CompressionType = Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
COMPRESSION_TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TimestampType = Literal["CreateTime", "LogAppendTime"]
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
RecordValidation = Literal["all", "header"]
RECORD_VALIDATIONS = ("all", "header")
UNPACKED_BYTES_MIN = 1 << 20
UNPACKED_BYTES_MAX = 64 << 20
"""What our own readers unpack at most; librdkafka's unpack up to 100 MB."""
OWN_PREFIX = "penstock."
"""Before the names of configurations that Kafka has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Settings of a topic; as settings of a node, the defaults of topics that say nothing."""

    retention_ms: Annotated[int, Ge(-1), Le(INT64_MAX)] = 604_800_000
    """Records older than this may go; -1 keeps them for ever. Seven days, as in Kafka."""

    retention_bytes: Annotated[int, Ge(-1), Le(INT64_MAX)] = -1
    """A partition larger than this loses its oldest records; -1 sets no limit."""

    max_message_bytes: Annotated[int, Ge(0), Le(MAX_MESSAGE_BYTES_MAX)] = 1_048_588
    """Largest record batch, as compressed by the producer, that a produce request may carry."""

    compression_type: CompressionType = "producer"
    """Codec in which batches are stored; `producer` keeps what was sent and costs nothing."""

    message_timestamp_type: TimestampType = "CreateTime"
    """Whether records carry the producer's time or the time of the append."""

    message_timestamp_before_max_ms: Annotated[int, Ge(0), Le(INT64_MAX)] = INT64_MAX
    """How far a producer's timestamp may lie in the past."""

    message_timestamp_after_max_ms: Annotated[int, Ge(0), Le(INT64_MAX)] = 3_600_000
    """How far a producer's timestamp may lie in the future; one hour, as in Kafka 4."""

    min_insync_replicas: Annotated[int, Ge(1), Le(32_767)] = 1
    """With acks=all, a write is refused while fewer replicas than this are in step."""

    cleanup_policy: Literal["delete"] = "delete"
    """What happens to old records: they are deleted. Compaction is not built yet."""

    record_validation: RecordValidation = "all"
    """Whether every record of a produced batch is looked at (`all`), as Kafka does, or what the
    batch says of itself alone (`header`). A batch that lies about its records stops consumers."""

    record_unpacked_bytes_max: Annotated[int, Ge(UNPACKED_BYTES_MIN), Le(UNPACKED_BYTES_MAX)] = (
        UNPACKED_BYTES_MAX
    )
    """Largest size of a batch once it is decompressed, where it is looked into. The default is
    what readers take; besides, above 4 MiB a batch may not unpack to more than 1,000 times its
    size."""

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker stamps batches with the time of the append."""
        return self.message_timestamp_type == "LogAppendTime"


_Value = int | str
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigKey:
    """A row of the table. `parse(text)` returns the value or raises ValueError with the reason."""

    key: str
    config_type: ConfigType
    broker_synonym: str
    documentation: str
    parse: Callable[[str], _Value]

    @property
    def field(self) -> str:
        """Name of the field of TopicSettings."""
        return self.key.removeprefix(OWN_PREFIX).replace(".", "_")

    def value_in(self, settings: TopicSettings) -> str:
        """The key's value in `settings`, as text."""
        return str(getattr(settings, self.field))


def _number(least: int, largest: int) -> Callable[[str], _Value]:
    def parse(text: str) -> _Value:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError("not a whole number")
        value = int(text)
        if not least <= value <= largest:
            raise ValueError(f"must be from {least} to {largest}")
        return value

    return parse


def _one_of(allowed: tuple[str, ...]) -> Callable[[str], _Value]:
    def parse(text: str) -> _Value:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def _cleanup_policy(text: str) -> _Value:
    policies = split_list(text)
    if "compact" in policies:
        raise ValueError("compaction is not available in this release; only 'delete' is")
    if set(policies) != {"delete"}:
        raise ValueError("must be 'delete'")
    return "delete"


def split_list(text: str) -> list[str]:
    """Return the items of a list-typed value without blanks and empty items."""
    return [item.strip() for item in text.split(",") if item.strip()]


_ROWS = (
    TopicConfigKey(
        key="retention.ms",
        config_type=ConfigType.LONG,
        broker_synonym="log.retention.ms",
        documentation="Records older than this many milliseconds may be deleted; -1 keeps them.",
        parse=_number(-1, INT64_MAX),
    ),
    TopicConfigKey(
        key="retention.bytes",
        config_type=ConfigType.LONG,
        broker_synonym="log.retention.bytes",
        documentation="Size of a partition above which its oldest records are deleted; -1: none.",
        parse=_number(-1, INT64_MAX),
    ),
    TopicConfigKey(
        key="max.message.bytes",
        config_type=ConfigType.INT,
        broker_synonym="message.max.bytes",
        documentation="Largest record batch, after compression, that is accepted.",
        parse=_number(0, MAX_MESSAGE_BYTES_MAX),
    ),
    TopicConfigKey(
        key="compression.type",
        config_type=ConfigType.STRING,
        broker_synonym="compression.type",
        documentation="Codec in which batches are stored; 'producer' keeps the producer's codec.",
        parse=_one_of(COMPRESSION_TYPES),
    ),
    TopicConfigKey(
        key="message.timestamp.type",
        config_type=ConfigType.STRING,
        broker_synonym="log.message.timestamp.type",
        documentation="CreateTime: the producer's time. LogAppendTime: the time of the append.",
        parse=_one_of(TIMESTAMP_TYPES),
    ),
    TopicConfigKey(
        key="message.timestamp.before.max.ms",
        config_type=ConfigType.LONG,
        broker_synonym="log.message.timestamp.before.max.ms",
        documentation="How far before the broker's time a record's timestamp may lie.",
        parse=_number(0, INT64_MAX),
    ),
    TopicConfigKey(
        key="message.timestamp.after.max.ms",
        config_type=ConfigType.LONG,
        broker_synonym="log.message.timestamp.after.max.ms",
        documentation="How far after the broker's time a record's timestamp may lie.",
        parse=_number(0, INT64_MAX),
    ),
    TopicConfigKey(
        key="min.insync.replicas",
        config_type=ConfigType.INT,
        broker_synonym="min.insync.replicas",
        documentation="Replicas that must be in step for a write with acks=all to be accepted.",
        parse=_number(1, 32_767),
    ),
    TopicConfigKey(
        key="cleanup.policy",
        config_type=ConfigType.LIST,
        broker_synonym="log.cleanup.policy",
        documentation="What happens to old records. Only 'delete' is available.",
        parse=_cleanup_policy,
    ),
    TopicConfigKey(
        key="penstock.record.validation",
        config_type=ConfigType.STRING,
        broker_synonym="topic.record_validation",
        documentation="all: every record of a batch is checked, as Kafka does; header: none is.",
        parse=_one_of(RECORD_VALIDATIONS),
    ),
    TopicConfigKey(
        key="penstock.record.unpacked.bytes.max",
        config_type=ConfigType.INT,
        broker_synonym="topic.record_unpacked_bytes_max",
        documentation="Largest size of a batch once decompressed, where its records are checked.",
        parse=_number(UNPACKED_BYTES_MIN, UNPACKED_BYTES_MAX),
    ),
)
TOPIC_CONFIGS: Mapping[str, TopicConfigKey] = MappingProxyType({row.key: row for row in _ROWS})
assert {row.field for row in _ROWS} == set(TopicSettings.__dataclass_fields__)
assert not TOPIC_CONFIGS.keys() & REFUSED_KEYS.keys()


def find_key(key: str) -> TopicConfigKey:
    """Return the row of `key`. Raises InvalidConfig for a key that has no effect here."""
    row = TOPIC_CONFIGS.get(key)
    if row is not None:
        return row
    raise InvalidConfig(key, REFUSED_KEYS.get(key, "unknown topic configuration"))


def check_override(key: str, value: str | None) -> str:
    """Return the text to keep for an override. Raises InvalidConfig when it can not be."""
    row = find_key(key)
    if value is None:
        raise InvalidConfig(key, "a null value can not be set; delete the key instead")
    try:
        return str(row.parse(value.strip()))
    except ValueError as error:
        raise InvalidConfig(key, f"invalid value {value[:100]!r}: {error}") from error


def resolve(overrides: Mapping[str, str], defaults: TopicSettings) -> TopicSettings:
    """Return the settings of a topic with these overrides.

    Overrides were checked before they became records; one that this release does not know raises
    InvalidConfig.
    """
    if not overrides:
        return defaults
    fields: dict[str, _Value] = {}
    for key, text in overrides.items():
        row = find_key(key)
        try:
            fields[row.field] = row.parse(text)
        except ValueError as error:
            raise InvalidConfig(key, str(error)) from error
    return replace(defaults, **fields)  # type: ignore[arg-type]  # types by table


def describe(overrides: Mapping[str, str], defaults: TopicSettings) -> list[ConfigEntry]:
    """Return every key with its effective value, its source and what stands behind it."""
    built_in = TopicSettings()
    return [_describe_key(row, overrides.get(row.key), defaults, built_in) for row in _ROWS]


def _describe_key(
    row: TopicConfigKey, override: str | None, defaults: TopicSettings, built_in: TopicSettings
) -> ConfigEntry:
    node_value, built_in_value = row.value_in(defaults), row.value_in(built_in)
    synonyms: list[ConfigSynonym] = []
    if override is not None:
        synonyms.append(ConfigSynonym(row.key, override, ConfigSource.DYNAMIC_TOPIC))
    if node_value != built_in_value:
        synonyms.append(ConfigSynonym(row.broker_synonym, node_value, ConfigSource.STATIC_BROKER))
    synonyms.append(ConfigSynonym(row.broker_synonym, built_in_value, ConfigSource.DEFAULT))
    return ConfigEntry(
        name=row.key,
        value=synonyms[0].value,
        source=synonyms[0].source,
        config_type=row.config_type,
        documentation=row.documentation,
        synonyms=tuple(synonyms),
    )
