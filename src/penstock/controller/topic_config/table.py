"""The table of topic configurations: all public ones of Kafka 4.2, and Penstock's own.

    text in a request ── check_override ──► text in a record ── resolve ──► TopicSettings

`TopicSettings` is resolved once per change and cached on the topic's image: a produce request reads
attributes. The fields of `TopicSettings` are at the same time the node's defaults for topics
without an override; each has Kafka's name with underscores.

A key has effect, or its row says why it has none (without_effect.py; ADR 0070). Segment sizes,
flush policy and directories belong to the replica set's log, not to a topic. One key is not kept:
what it says is a fact of the cluster, and it is taken where it says the same.

Source: Kafka 4.2.0 `TopicConfig`, `LogConfig` (names, types, ranges, defaults; documentation in our
own words), `ServerTopicConfigSynonyms`; KIP-937 for the two timestamp bounds, KIP-390 for levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

from annotated_types import Ge, Le, Not

from penstock.base.ids import ReplicaSetId
from penstock.configs import keys, message_keys, without_effect
from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT32_MAX, INT64_MAX, BrokerName, TopicConfigKey, Value
from penstock.configs.message_types import MIXED, MessageTypeName
from penstock.configs.refused import REFUSED_KEYS
from penstock.configs.without_effect import HOUR_MS
from penstock.controller.errors import InvalidConfig
from penstock.controller.topic_config import local
from penstock.controller.topic_config.local import REMOTE

MAX_MESSAGE_BYTES_MAX = 64 << 20
"""Largest batch that a topic may have: 64 MiB, below the largest request a listener takes. More is
taken, as by Kafka, and means this."""

CompressionType = Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
COMPRESSION_TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TimestampType = Literal["CreateTime", "LogAppendTime"]
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
RecordValidation = Literal["all", "header"]
RECORD_VALIDATIONS = ("all", "header")
UNPACKED_BYTES_MIN = 1 << 20
UNPACKED_BYTES_MAX = 64 << 20
"""What our own readers unpack at most; librdkafka's unpack up to 100 MB."""
CleanupPolicy = Literal["delete", "compact", "compact,delete", "delete,compact", ""]
UNCLEAN = "unclean.leader.election.enable"


def _is_zero(value: int) -> bool:
    return value == 0


def _is_below_zero(value: float) -> bool:
    return -1 < value < 0


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

    compression_gzip_level: Annotated[int, Ge(-1), Le(9), Not(_is_zero)] = -1
    """Level of gzip where `compression_type` is gzip: 1 to 9, or -1 for the library's own."""

    compression_lz4_level: Annotated[int, Ge(1), Le(17)] = 9
    """Level of lz4. As in Kafka 9 is the fast compressor and all others are the high one."""

    compression_zstd_level: Annotated[int, Ge(-131_072), Le(22)] = 3
    """Level of zstd. From 20 on a batch takes some 40 times as long as by default."""

    message_timestamp_type: TimestampType = "CreateTime"
    """Whether records carry the producer's time or the time of the append."""

    message_timestamp_before_max_ms: Annotated[int, Ge(0), Le(INT64_MAX)] = INT64_MAX
    """How far a producer's timestamp may lie in the past."""

    message_timestamp_after_max_ms: Annotated[int, Ge(0), Le(INT64_MAX)] = 3_600_000
    """How far a producer's timestamp may lie in the future; one hour, as in Kafka 4."""

    min_insync_replicas: Annotated[int, Ge(1), Le(32_767)] = 1
    """With acks=all, a write is refused while fewer replicas than this are in step."""

    cleanup_policy: CleanupPolicy = "delete"
    """What happens to old records: `delete` deletes them by retention, `compact` keeps the newest
    record of each key. `compact` does so where the node moves closed files (`log.level0_ms`,
    `log.level0_bytes`); elsewhere every record is kept. With neither everything is kept."""

    min_cleanable_dirty_ratio: Annotated[float, Ge(0), Le(1)] = 0.5
    """Under `compact`: a partition is cleaned when more than this share of its closed bytes is new.
    Small: less is kept twice, and more is rewritten for each new byte."""

    delete_retention_ms: Annotated[int, Ge(0), Le(INT64_MAX)] = 24 * HOUR_MS
    """Under `compact`: how long a record without a value, which deletes its key, is kept after the
    first cleaning. Readers that take longer from the beginning may miss deletes."""

    min_compaction_lag_ms: Annotated[int, Ge(0), Le(INT64_MAX)] = 0
    """Under `compact`: records that are younger are not cleaned."""

    max_compaction_lag_ms: Annotated[int, Ge(1), Le(INT64_MAX)] = INT64_MAX
    """Under `compact`: a partition with a record that is older and was never cleaned is cleaned,
    whatever its share is. For that the open file is closed early (`log.close_early_ms`)."""

    record_validation: RecordValidation = "all"
    """Whether every record of a produced batch is looked at (`all`), as Kafka does, or what the
    batch says of itself alone (`header`). A batch that lies about its records stops consumers.
    Records of compacted topics are always looked at: each must have a key."""

    record_unpacked_bytes_max: Annotated[int, Ge(UNPACKED_BYTES_MIN), Le(UNPACKED_BYTES_MAX)] = (
        UNPACKED_BYTES_MAX
    )
    """Largest size of a batch once it is decompressed, where it is looked into. The default is
    what readers take; besides, above 4 MiB a batch may not unpack to more than 1,000 times its
    size."""

    message_type: MessageTypeName = MIXED
    """Kind of messages that RocketMQ's gRPC clients may send to a topic; `MIXED`: all of them."""

    message_trace_percent: Annotated[float, Ge(-1), Le(100), Not(_is_below_zero)] = -1.0
    """Of so many messages of a topic in a hundred it is traced what becomes of them; 0: of none,
    -1: as `broker.message_trace_percent` says. It counts for what happens from then on."""

    @property
    def deletes(self) -> bool:
        """Whether retention deletes records."""
        return "delete" in self.cleanup_policy

    @property
    def is_compacted(self) -> bool:
        """Whether the newest record of each key is kept, and others go."""
        return "compact" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker stamps batches with the time of the append."""
        return self.message_timestamp_type == "LogAppendTime"


_ROWS = (
    TopicConfigKey(
        key="retention.ms",
        config_type=ConfigType.LONG,
        broker_names=(
            BrokerName("log.retention.ms"),
            BrokerName("log.retention.minutes", 60_000),
            BrokerName("log.retention.hours", HOUR_MS),
        ),
        documentation="Records older than this many milliseconds may be deleted; -1 keeps them.",
        parse=keys.number(-1, INT64_MAX),
    ),
    TopicConfigKey(
        key="retention.bytes",
        config_type=ConfigType.LONG,
        broker_names=(BrokerName("log.retention.bytes"),),
        documentation="Size of a partition above which its oldest records are deleted; -1: none.",
        parse=keys.retention_bytes,
    ),
    TopicConfigKey(
        key="max.message.bytes",
        config_type=ConfigType.INT,
        broker_names=(BrokerName("message.max.bytes"),),
        documentation="Largest record batch, after compression, that is accepted.",
        parse=keys.number(0, INT32_MAX),
        differs="more than 64 MiB means 64 MiB",
    ),
    TopicConfigKey(
        key="compression.type",
        config_type=ConfigType.STRING,
        broker_names=(BrokerName("compression.type"),),
        documentation="Codec in which batches are stored; 'producer' keeps the producer's codec.",
        parse=keys.one_of(*COMPRESSION_TYPES),
    ),
    TopicConfigKey(
        key="compression.gzip.level",
        config_type=ConfigType.INT,
        broker_names=(BrokerName("compression.gzip.level"),),
        documentation="Level of gzip where compression.type is gzip; -1 is the library's own.",
        parse=keys.gzip_level,
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key="compression.lz4.level",
        config_type=ConfigType.INT,
        broker_names=(BrokerName("compression.lz4.level"),),
        documentation="Level of lz4 where compression.type is lz4; 9 is the fast compressor.",
        parse=keys.number(1, 17),
        differs="levels below 3 mean 3, above 12 they mean 12: the library has no others",
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key="compression.zstd.level",
        config_type=ConfigType.INT,
        broker_names=(BrokerName("compression.zstd.level"),),
        documentation="Level of zstd where compression.type is zstd.",
        parse=keys.number(-131_072, 22),
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key="message.timestamp.type",
        config_type=ConfigType.STRING,
        broker_names=(BrokerName("log.message.timestamp.type"),),
        documentation="CreateTime: the producer's time. LogAppendTime: the time of the append.",
        parse=keys.one_of(*TIMESTAMP_TYPES),
    ),
    TopicConfigKey(
        key="message.timestamp.before.max.ms",
        config_type=ConfigType.LONG,
        broker_names=(BrokerName("log.message.timestamp.before.max.ms"),),
        documentation="How far before the broker's time a record's timestamp may lie.",
        parse=keys.number(0, INT64_MAX),
    ),
    TopicConfigKey(
        key="message.timestamp.after.max.ms",
        config_type=ConfigType.LONG,
        broker_names=(BrokerName("log.message.timestamp.after.max.ms"),),
        documentation="How far after the broker's time a record's timestamp may lie.",
        parse=keys.number(0, INT64_MAX),
    ),
    TopicConfigKey(
        key="min.insync.replicas",
        config_type=ConfigType.INT,
        broker_names=(BrokerName("min.insync.replicas"),),
        documentation="Replicas that must be in step for a write with acks=all to be accepted.",
        parse=keys.number(1, INT32_MAX),
    ),
    TopicConfigKey(
        key="cleanup.policy",
        config_type=ConfigType.LIST,
        broker_names=(BrokerName("log.cleanup.policy"),),
        documentation=(
            "What happens to old records: 'delete' deletes them by retention, 'compact' keeps the"
            " newest of each key. With neither they are kept."
        ),
        parse=keys.cleanup_policy,
        differs=(
            "`compact` is true where a node moves closed files (log.level0_ms, log.level0_bytes);"
            " elsewhere every record is kept, and the node says so in its log"
        ),
    ),
    TopicConfigKey(
        key=UNCLEAN,
        config_type=ConfigType.BOOLEAN,
        documentation=(
            "Whether a member that may lack records can become master. It is decided for each"
            " replica set, by `penstock set unclean`, and can not be changed here."
        ),
        parse=keys.boolean,
        broker_names=(BrokerName(UNCLEAN),),
        fixed_default="false",
        differs=(
            "a property of the replica set: taken where all sets of the topic have it so, refused"
            " else; the answer is true where one of them allows it"
        ),
    ),
    TopicConfigKey(
        key=REMOTE,
        config_type=ConfigType.BOOLEAN,
        documentation="Whether the records that are kept are copied into the object store, too.",
        parse=keys.boolean,
        fixed_default="false",
        differs=(
            "`true` is refused where controller.tiered_topics is off, and for compacted topics;"
            " switching it off needs remote.log.delete.on.disable=true, which deletes what the"
            " store has"
        ),
    ),
    *local.ROWS,
    TopicConfigKey(
        key="delete.retention.ms",
        config_type=ConfigType.LONG,
        broker_names=(BrokerName("log.cleaner.delete.retention.ms"),),
        documentation="How long a delete is kept in a compacted topic after the first cleaning.",
        parse=keys.number(0, INT64_MAX),
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key="min.compaction.lag.ms",
        config_type=ConfigType.LONG,
        broker_names=(BrokerName("log.cleaner.min.compaction.lag.ms"),),
        documentation="Records of a compacted topic that are younger are not cleaned.",
        parse=keys.number(0, INT64_MAX),
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key="max.compaction.lag.ms",
        config_type=ConfigType.LONG,
        broker_names=(BrokerName("log.cleaner.max.compaction.lag.ms"),),
        documentation="A compacted partition with an older record not yet cleaned is cleaned.",
        parse=keys.number(1, INT64_MAX),
        differs="only records of closed files are cleaned, however old others are",
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key="min.cleanable.dirty.ratio",
        config_type=ConfigType.DOUBLE,
        broker_names=(BrokerName("log.cleaner.min.cleanable.ratio"),),
        documentation="A compacted partition is cleaned when more than this share of it is new.",
        parse=keys.ratio,
        is_since_level_2=True,
    ),
    *without_effect.ROWS,
    TopicConfigKey(
        key="penstock.record.validation",
        config_type=ConfigType.STRING,
        broker_names=(BrokerName("topic.record_validation"),),
        documentation=(
            "all: every record of a batch is checked, as Kafka does; header: none is, but where"
            " cleanup.policy has compact."
        ),
        parse=keys.one_of(*RECORD_VALIDATIONS),
    ),
    TopicConfigKey(
        key="penstock.record.unpacked.bytes.max",
        config_type=ConfigType.INT,
        broker_names=(BrokerName("topic.record_unpacked_bytes_max"),),
        documentation="Largest size of a batch once decompressed, where its records are checked.",
        parse=keys.number(UNPACKED_BYTES_MIN, UNPACKED_BYTES_MAX),
    ),
    *message_keys.ROWS,
)
TOPIC_CONFIGS: Mapping[str, TopicConfigKey] = MappingProxyType({row.key: row for row in _ROWS})
assert {row.field for row in _ROWS if row.fixed_default is None} == set(
    TopicSettings.__dataclass_fields__
)
assert not TOPIC_CONFIGS.keys() & REFUSED_KEYS.keys()

OVERRIDES_LEVEL = 2
"""Of the metadata; see `needs_level_2`."""
VALUE_BYTES_MAX = 32_767
"""Of an override, as in Kafka: an answer has no room for a longer one. Values grow by APPEND."""
SINCE_LEVEL_2 = frozenset(row.key for row in _ROWS if row.is_since_level_2)
"""Keys at which an older release stops when it replays them: set once all nodes know them."""
_BEFORE_LEVEL_2 = {
    "cleanup.policy": keys.one_of("delete"),
    "max.message.bytes": keys.number(0, MAX_MESSAGE_BYTES_MAX),
    "min.insync.replicas": keys.number(1, 32_767),
}
"""What older releases read of keys that take more now."""


def needs_level_2(key: str, text: str) -> bool:
    """Whether a release before feature level 2 stops at this checked override."""
    if key in SINCE_LEVEL_2:
        return True
    parse = _BEFORE_LEVEL_2.get(key)
    if parse is None:
        return False
    try:
        parse(text)
    except ValueError:
        return True
    return False


def find_key(key: str) -> TopicConfigKey:
    """Return the row of `key`. Raises InvalidConfig for a key that there is not."""
    row = TOPIC_CONFIGS.get(key)
    if row is not None:
        return row
    raise InvalidConfig(key, REFUSED_KEYS.get(key, "unknown topic configuration"))


def check_override(key: str, value: str | None, *, level: int) -> str:
    """Return the text to keep for an override. Raises InvalidConfig when it can not be.

    `level` is that of the metadata: below 2 an earlier release may have to read the override.
    """
    row = find_key(key)
    if value is None:
        raise InvalidConfig(key, "a null value can not be set; delete the key instead")
    try:
        text = str(row.parse(value.strip()))
    except ValueError as error:
        raise InvalidConfig(key, f"invalid value {value[:100]!r}: {error}") from error
    if len(text.encode()) > VALUE_BYTES_MAX:
        raise InvalidConfig(key, f"a value has at most {VALUE_BYTES_MAX} bytes")
    if level < OVERRIDES_LEVEL and key != UNCLEAN and needs_level_2(key, text):
        raise InvalidConfig(
            key,
            f"{text} needs level {OVERRIDES_LEVEL} of the metadata, which is at {level}: raise it"
            " with `penstock cluster upgrade` once every node runs this release",
        )
    return text


def take_facts(
    overrides: dict[str, str], unclean: Mapping[ReplicaSetId, bool], *, has_tier: bool
) -> None:
    """Take out of checked overrides what is a fact and no override, and check what goes together.

    `unclean` says of each replica set of the topic whether it allows unclean elections; `has_tier`
    whether the nodes have an object store. Raises InvalidConfig where the cluster is not as an
    override says.
    """
    wanted = overrides.pop(UNCLEAN, None)
    for set_id, is_allowed in sorted(unclean.items()):
        if wanted is not None and is_allowed != (wanted == "true"):
            switch = "on" if wanted == "true" else "off"
            raise InvalidConfig(
                UNCLEAN,
                f"is a property of replica sets, and set {set_id} has it otherwise: change the set"
                f" with `penstock set unclean {set_id} {switch}`, or leave the key out",
            )
    if overrides.get(REMOTE) == "true":
        if not has_tier:
            reason = "topics of this cluster are not copied: controller.tiered_topics is off"
            raise InvalidConfig(REMOTE, reason)
        if "compact" in overrides.get("cleanup.policy", ""):
            raise InvalidConfig(REMOTE, "compacted topics are not copied")
    least, most = overrides.get("min.compaction.lag.ms"), overrides.get("max.compaction.lag.ms")
    if int(least or 0) > int(most or INT64_MAX):
        raise InvalidConfig("min.compaction.lag.ms", f"{least} is more than the maximum, {most}")


def resolve(overrides: Mapping[str, str], defaults: TopicSettings) -> TopicSettings:
    """Return the settings of a topic with these overrides.

    Overrides were checked before they became records; one that this release does not know raises
    InvalidConfig.
    """
    if not overrides:
        return defaults
    fields: dict[str, Value] = {}
    for key, text in overrides.items():
        row = find_key(key)
        try:
            value = row.parse(text)
        except ValueError as error:
            raise InvalidConfig(key, str(error)) from error
        if row.fixed_default is None:
            fields[row.field] = value
    return replace(defaults, **fields)  # type: ignore[arg-type]  # types by table
