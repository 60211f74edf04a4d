"""Keys of brokers that change while a broker runs, and those of Kafka's that do nothing here.

    key                        changes
    Kafka's dynamic ones       the node's setting of the same meaning, or nothing (`no_effect`)
    section.field              a setting of the node's own that can change without a restart
    listener.name.NAME.…       limits of one listener (listener_keys.py)

A setting changes under one name: Kafka's where that is dynamic there, else its own. All other names
are read-only; a node knows them (node/settings/kafka_names.py), this table does not. The bounds are
those of the setting, or narrower.

Source: Kafka 4.2 `DynamicBrokerConfig.AllDynamicConfigs`, `QuotaConfig` (throttles), KIP-226.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from types import MappingProxyType

from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT32_MAX, INT64_MAX, Parse, boolean, number, split_list
from penstock.configs.keys import one_of as words
from penstock.configs.resource_keys import ResourceKey
from penstock.controller.resource_config.listener_keys import listener_key
from penstock.controller.topic_config.local import LOCAL_BYTES, LOCAL_MS
from penstock.controller.topic_config.table import TOPIC_CONFIGS, UNCLEAN

_COUNT = re.compile(r"[0-9]{1,10}")
_INT, _LONG = ConfigType.INT, ConfigType.LONG
_THREADS = "a node has one event loop, and as many threads as its disks need"
_CLEANER = "one housekeeper for each node cleans, one partition at a time"
_CLEANER_RATE = "the rate is that of the housekeeper, log.housekeeper_bytes_per_second"
_CLEANER_PAUSE = "the housekeeper looks every second for what is to be cleaned"
_FOLLOWERS = "masters send copies, and leader.replication.throttled.rate is what holds them"
_LOCAL = "is said of each topic, since its records may then be in the object store alone: set {}"
_DIRECTORIES = "a replica set is not moved between the directories of a node"
_TRANSACTIONS = "the first batch of a transaction in a partition is always verified"

REFUSED_BROKER_KEYS: Mapping[str, str] = MappingProxyType(
    {
        UNCLEAN: "is a property of replica sets: change a set with `penstock set unclean`",
        "log.local.retention.ms": _LOCAL.format(LOCAL_MS),
        "log.local.retention.bytes": _LOCAL.format(LOCAL_BYTES),
    }
)
"""Names that a user may know, each with what to do instead."""


def _of_topics() -> Iterator[ResourceKey]:
    """The defaults of topics, each under the strongest of its broker names."""
    for row in TOPIC_CONFIGS.values():
        name = row.broker_names[0] if row.broker_names else None
        if name is None or name.unit != 1 or name.name in REFUSED_BROKER_KEYS:
            continue
        yield ResourceKey(
            key=name.name,
            config_type=row.config_type,
            parse=row.parse,
            documentation=f"Default of topics for {row.key}. {row.documentation}",
            default=row.fixed_default or "",
            setting="" if row.fixed_default is not None else f"topic.{row.field}",
            no_effect=row.no_effect,
        )


def _setting(
    key: str, parse: Parse, about: str, *, kind: ConfigType = _INT, setting: str = ""
) -> ResourceKey:
    return ResourceKey(
        key=key, config_type=kind, parse=parse, documentation=about, setting=setting or key
    )


def _idle(key: str, default: str, why: str, *, kind: ConfigType, parse: Parse) -> ResourceKey:
    return ResourceKey(
        key=key,
        config_type=kind,
        parse=parse,
        documentation=f"Has no effect in Penstock: {why}.",
        default=default,
        no_effect=why,
    )


def _threads(key: str, default: int, why: str = _THREADS) -> ResourceKey:
    return _idle(key, str(default), why, kind=_INT, parse=number(1, INT32_MAX))


def _fraction(text: str) -> str:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError("must not be negative")
    return text


def _address_counts(text: str) -> str:
    """Any list of ADDRESS:COUNT. Names of hosts are refused: no process looks them up."""
    items = split_list(text)
    for item in items:
        address, colon, count = item.rpartition(":")
        ip_address(address.strip("[]"))  # its ValueError says what is wrong
        if not colon or not _COUNT.fullmatch(count) or int(count) > INT32_MAX:
            raise ValueError(f"{item[:100]!r} must be ADDRESS:COUNT with a number from 0")
    return ",".join(items)


_KAFKA_ROWS = (
    _setting(
        "max.connections",
        number(1, INT32_MAX),
        "Open connections in all. Fewer than are open: none is ended, and none is let in.",
        setting="net.connections_max",
    ),
    _setting(
        "max.connections.per.ip",
        number(1, INT32_MAX),
        "Open connections from one address.",
        setting="net.connections_per_address_max",
    ),
    _setting(
        "max.connections.per.ip.overrides",
        _address_counts,
        "Open connections from single addresses, as ADDRESS:COUNT with commas between them.",
        kind=ConfigType.STRING,
        setting="net.connections_per_address_overrides",
    ),
    _setting(
        "max.connection.creation.rate",
        number(1, INT32_MAX),
        "New connections in one second, from all addresses; others are accepted later.",
        setting="net.connection_rate_max",
    ),
    _setting(
        "producer.id.expiration.ms",
        number(1_000, INT32_MAX),
        "A producer id not heard of for this long is forgotten.",
        setting="log.producer_id_expiration_ms",
    ),
    _idle(  # Kafka's tool for reassignments sets it beside the leader's
        "follower.replication.throttled.rate",
        str(INT64_MAX),
        _FOLLOWERS,
        kind=_LONG,
        parse=number(1, INT64_MAX),
    ),
    _setting(
        "leader.replication.throttled.rate",
        number(1, INT64_MAX),
        "Bytes per second that the broker sends to members that are not in step. To have no bound,"
        " delete it or set the largest number.",
        kind=_LONG,
        setting="replication.copy_bytes_per_second",
    ),
    _threads("background.threads", 10),
    _threads("num.io.threads", 8),
    _threads("num.network.threads", 3),
    _threads("num.replica.fetchers", 1),
    _threads("num.recovery.threads.per.data.dir", 2),
    _threads("log.cleaner.threads", 1, _CLEANER),
    _idle(
        "log.cleaner.io.max.bytes.per.second",
        "1.7976931348623157E308",
        _CLEANER_RATE,
        kind=ConfigType.DOUBLE,
        parse=_fraction,
    ),
    _idle(
        "log.cleaner.backoff.ms",
        "15000",
        _CLEANER_PAUSE,
        kind=_LONG,
        parse=number(0, INT64_MAX),
    ),
    _idle(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        str(INT64_MAX),
        _DIRECTORIES,
        kind=_LONG,
        parse=number(0, INT64_MAX),
    ),
    _idle(
        "transaction.partition.verification.enable",
        "true",
        _TRANSACTIONS,
        kind=ConfigType.BOOLEAN,
        parse=boolean,
    ),
)

_OWN_ROWS = (
    _setting(
        "node.log_level",
        words("debug", "info", "warning", "error"),
        "Least level of the lines written to stderr.",
        kind=ConfigType.STRING,
    ),
    _setting(
        "broker.auto_create_topics",
        boolean,
        "Whether a topic is created when a client asks for its metadata.",
        kind=ConfigType.BOOLEAN,
    ),
    _setting(
        "broker.fetch_max_bytes", number(1_024, 256 << 20), "Bytes that one fetch answer may hold."
    ),
    _setting(
        "broker.housekeeping_interval_ms",
        number(100, 3_600_000),
        "How often retention is applied and the internal topic looked at.",
    ),
    _setting(
        "broker.slave_reads",
        words("off", "rack", "lag"),
        "Whether slaves serve consumers, and which. Set it alike on all brokers.",
        kind=ConfigType.STRING,
    ),
    _setting(
        "broker.slave_read_memory_percent",
        number(1, 95),
        "Share of the machine's memory that is trusted to hold the newest records.",
    ),
    _setting(
        "groups.initial_rebalance_delay_ms",
        number(0, INT32_MAX),
        "How long the first join of an empty group waits for more members.",
    ),
    _setting(
        "groups.new_member_join_timeout_ms",
        number(1, INT32_MAX),
        "A new member whose join is parked for this long is removed.",
    ),
    _setting("groups.group_size_max", number(1, INT32_MAX), "Members of one group."),
    _setting("groups.groups_max", number(1, INT32_MAX), "Groups of this coordinator."),
    _setting(
        "groups.member_metadata_bytes_max",
        number(1, INT32_MAX),
        "All protocols of one JoinGroup together.",
    ),
    _setting(
        "groups.member_protocols_max", number(1, INT32_MAX), "Protocols that one member may offer."
    ),
    _setting(
        "groups.offset_metadata_bytes_max",
        number(0, 32_767),
        "Text beside a committed offset.",
    ),
    _setting(
        "groups.offsets_retention_ms",
        number(-1, INT64_MAX),
        "How long offsets of an empty group are kept after its last commit; -1: for ever.",
        kind=_LONG,
    ),
    _setting(
        "log.scrub_bytes_per_second",
        number(0, 1 << 34),
        "How fast all logs together are read in the background to find damage.",
        kind=_LONG,
    ),
    _setting(
        "log.scrub_interval_ms",
        number(0, 1 << 40),
        "Pause of the scrub after it has read everything once.",
        kind=_LONG,
    ),
    _setting(
        "net.connection_rate_per_address_max",
        number(0, INT32_MAX),
        "New connections from one address in one second; 0 switches the limit off.",
    ),
    _setting(
        "net.idle_seconds_max",
        number(0, INT32_MAX),
        "A connection without any request in progress is ended after this; 0 never.",
    ),
    _setting(
        "net.frame_seconds_max",
        number(1, INT32_MAX),
        "Time from the first to the last byte of one request.",
    ),
    _setting(
        "net.write_stall_seconds_max",
        number(1, INT32_MAX),
        "A connection whose peer reads none of its answers for this long is ended.",
    ),
)

BROKER_CONFIGS: Mapping[str, ResourceKey] = MappingProxyType(
    {row.key: row for row in (*_of_topics(), *_KAFKA_ROWS, *_OWN_ROWS)}
)
"""All keys that a broker's configuration, or the default of all brokers, can hold, but those of its
listeners."""

KEY_OF_SETTING: Mapping[str, str] = MappingProxyType(
    {row.setting: key for key, row in BROKER_CONFIGS.items() if row.setting}
)
"""The one name under which a setting changes."""
assert len(KEY_OF_SETTING) == sum(bool(row.setting) for row in BROKER_CONFIGS.values())


def broker_key(key: str) -> ResourceKey | None:
    """Return the row of a key, also of a listener's; None for one that nobody knows."""
    return BROKER_CONFIGS.get(key) or listener_key(key)
