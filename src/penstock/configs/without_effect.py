"""Topic configurations of Kafka that are taken, checked and given back, and do nothing here.

Kafka Streams, MirrorMaker and Terraform set them on every topic: refusing would stop tools that do
not depend on them. Each says why it does nothing, in its documentation and in the log of the nodes
when it is set. Source: Kafka 4.2 `LogConfig` (ranges, defaults) and `ServerTopicConfigSynonyms`.
"""

from penstock.configs import keys
from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT32_MAX, INT64_MAX, BrokerName, TopicConfigKey

HOUR_MS = 3_600_000
_SHARED_LOG = (
    "all partitions of a replica set share one commit log, whose segments are settings of the node"
    " (log.segment_bytes)"
)
_FLUSH = (
    "the flush policy is a setting of the node, and by default every acknowledged write is on"
    " stable storage"
)
_THROTTLE = (
    "the rate of a broker (leader.replication.throttled.rate) holds for all copies to members that"
    " are not in step, listed or not, as the partitions of a replica set are copied together"
)


def _row(  # noqa: PLR0917  the columns of the table below
    key: str,
    config_type: ConfigType,
    parse: keys.Parse,
    default: str,
    names: tuple[str | BrokerName, ...],
    why: str,
) -> TopicConfigKey:
    return TopicConfigKey(
        key=key,
        config_type=config_type,
        documentation=f"Has no effect in Penstock: {why}.",
        parse=parse,
        broker_names=tuple(BrokerName(name) if isinstance(name, str) else name for name in names),
        fixed_default=default,
        no_effect=why,
        is_since_level_2=True,
    )


def _int(key: str, least: int, default: int, name: str, why: str) -> TopicConfigKey:
    parse = keys.number(least, INT32_MAX)
    return _row(key, ConfigType.INT, parse, str(default), (name,), why)


def _long(
    key: str, least: int, default: int, names: tuple[str | BrokerName, ...], why: str
) -> TopicConfigKey:
    parse = keys.number(least, INT64_MAX)
    return _row(key, ConfigType.LONG, parse, str(default), names, why)


def _flag(key: str, names: tuple[str, ...], why: str) -> TopicConfigKey:
    return _row(key, ConfigType.BOOLEAN, keys.boolean, "false", names, why)


def _throttle(key: str) -> TopicConfigKey:
    return _row(key, ConfigType.LIST, keys.throttled_replicas, "", (), _THROTTLE)


ROWS = (
    _int("segment.bytes", 1 << 20, 1 << 30, "log.segment.bytes", _SHARED_LOG),
    _long(
        "segment.ms",
        1,
        168 * HOUR_MS,
        ("log.roll.ms", BrokerName("log.roll.hours", HOUR_MS)),
        _SHARED_LOG,
    ),
    _long(
        "segment.jitter.ms",
        0,
        0,
        ("log.roll.jitter.ms", BrokerName("log.roll.jitter.hours", HOUR_MS)),
        _SHARED_LOG,
    ),
    _int("segment.index.bytes", 4, 10 << 20, "log.index.size.max.bytes", _SHARED_LOG),
    _int("index.interval.bytes", 0, 4096, "log.index.interval.bytes", _SHARED_LOG),
    _long("file.delete.delay.ms", 0, 60_000, ("log.segment.delete.delay.ms",), _SHARED_LOG),
    _flag("preallocate", ("log.preallocate",), _SHARED_LOG),
    _long("flush.messages", 1, INT64_MAX, ("log.flush.interval.messages",), _FLUSH),
    _long(
        "flush.ms",
        0,
        INT64_MAX,
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        _FLUSH,
    ),
    _throttle("leader.replication.throttled.replicas"),
    _throttle("follower.replication.throttled.replicas"),
)
