"""Keys of groups and of client metrics: taken, checked and given back.

Those of consumer groups have an effect. Kafka's tools and Streams set the others as well; what they
are for is not here, and each says so in its documentation.

Source: Kafka 4.2 `GroupConfig` with the bounds that brokers have by default
(`group.consumer.min.session.timeout.ms` and so on), `ClientMetricsConfigs` (KIP-714).
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT32_MAX, Parse, number, one_of
from penstock.configs.resource_keys import (
    ResourceKey,
    client_patterns,
    name_list,
    offset_reset,
)

_SHARE = "there are no share groups"
_STREAMS = "there are no streams groups; Kafka Streams uses the classic protocol"
_TELEMETRY = "metrics of clients are not taken"


def _row(  # noqa: PLR0917  the columns of the tables below
    key: str, config_type: ConfigType, parse: Parse, default: str, about: str, why: str
) -> ResourceKey:
    return ResourceKey(
        key=key,
        config_type=config_type,
        parse=parse,
        default=default,
        documentation=f"{about} Has no effect in Penstock: {why}.",
        no_effect=why,
    )


def _time(key: str, bounds: tuple[int, int], default: int, about: str) -> ResourceKey:
    return ResourceKey(
        key=key,
        config_type=ConfigType.INT,
        parse=number(*bounds),
        default=str(default),
        documentation=about,
    )


def _int(key: str, bounds: tuple[int, int], default: int, about: str, why: str) -> ResourceKey:
    return _row(key, ConfigType.INT, number(*bounds), str(default), about, why)


_SESSION, _HEARTBEAT = (45_000, 60_000), (5_000, 15_000)
_SESSION_TEXT = "How long a member may be silent, in ms."
_HEARTBEAT_TEXT = "How often a member says that it is there, in ms."
_PACED_TEXT = (
    "Where it is not set: every second; with more than 1,000 members on a coordinator less often,"
    " at most every 5 s."
)
_RESET = "Where a share group begins that has no position."
_ISOLATION = "Whether records of open and aborted transactions are delivered."
_STANDBY = "Copies of state that are kept ready, of each task."
_DELAY = "How long the first assignment of a new group waits for more members, in ms."

_GROUP_ROWS = (
    _time("consumer.session.timeout.ms", _SESSION, 45_000, _SESSION_TEXT),
    _time("consumer.heartbeat.interval.ms", _HEARTBEAT, 5_000, f"{_HEARTBEAT_TEXT} {_PACED_TEXT}"),
    _time("share.session.timeout.ms", _SESSION, 45_000, _SESSION_TEXT),
    _time("share.heartbeat.interval.ms", _HEARTBEAT, 5_000, f"{_HEARTBEAT_TEXT} {_PACED_TEXT}"),
    _int(
        "share.record.lock.duration.ms",
        (15_000, 60_000),
        30_000,
        "How long a record that a member has got is held for it, in ms.",
        _SHARE,
    ),
    _row("share.auto.offset.reset", ConfigType.STRING, offset_reset, "latest", _RESET, _SHARE),
    _row(
        "share.isolation.level",
        ConfigType.STRING,
        one_of("read_committed", "read_uncommitted"),
        "read_uncommitted",
        _ISOLATION,
        _SHARE,
    ),
    _int("streams.session.timeout.ms", _SESSION, 45_000, _SESSION_TEXT, _STREAMS),
    _int("streams.heartbeat.interval.ms", _HEARTBEAT, 5_000, _HEARTBEAT_TEXT, _STREAMS),
    _int("streams.num.standby.replicas", (0, 2), 0, _STANDBY, _STREAMS),
    _int("streams.initial.rebalance.delay.ms", (0, INT32_MAX), 3_000, _DELAY, _STREAMS),
)
GROUP_CONFIGS: Mapping[str, ResourceKey] = MappingProxyType({one.key: one for one in _GROUP_ROWS})

_WHICH = "Prefixes of the metrics that clients send; empty for none, '*' for all."
_OFTEN = "How often clients send them, in ms."
_WHOSE = "Which clients send them, as NAME=PATTERN; empty for all."

_METRICS_ROWS = (
    _row("metrics", ConfigType.LIST, name_list, "", _WHICH, _TELEMETRY),
    _int("interval.ms", (100, 3_600_000), 300_000, _OFTEN, _TELEMETRY),
    _row("match", ConfigType.LIST, client_patterns, "", _WHOSE, _TELEMETRY),
)
METRICS_CONFIGS: Mapping[str, ResourceKey] = MappingProxyType(
    {one.key: one for one in _METRICS_ROWS}
)
