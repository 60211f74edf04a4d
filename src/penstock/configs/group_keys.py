"""Keys of groups and of client metrics: taken, checked and given back.

Those of client metrics have an effect on brokers that take them (`broker.client_metrics`).

Source: Kafka 4.2 `GroupConfig` with the bounds that brokers have by default
(`group.consumer.min.session.timeout.ms` and so on), `ClientMetricsConfigs` (KIP-714).
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT32_MAX, Parse, boolean, number, one_of
from penstock.configs.resource_keys import (
    ResourceKey,
    client_patterns,
    name_list,
    offset_reset,
)

STREAMS_SESSION = "streams.session.timeout.ms"
STREAMS_INTERVAL = "streams.heartbeat.interval.ms"
STREAMS_STANDBYS = "streams.num.standby.replicas"
STREAMS_DELAY = "streams.initial.rebalance.delay.ms"
POP_TOPICS = "rmq.pop.topics"
POP_DELIVERIES = "rmq.pop.deliveries.max"
POP_ORDERED = "rmq.pop.ordered"


def _row(key: str, config_type: ConfigType, parse: Parse, default: str, about: str) -> ResourceKey:
    return ResourceKey(
        key=key, config_type=config_type, parse=parse, default=default, documentation=about
    )


def _own(key: str, bounds: tuple[int, int], default: int, about: str) -> ResourceKey:
    return ResourceKey(
        key=key,
        config_type=ConfigType.INT,
        parse=number(*bounds),
        default=str(default),
        documentation=about,
    )


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
_DELAY = (
    "How long the first assignment of a new group waits for more members, in ms. Where it is not"
    " set: groups.streams_initial_delay_ms of the coordinator, 500 ms."
)
_POP_TOPICS = (
    "Topics that RocketMQ's push consumers of the group pop, where they ask the broker for their"
    " queues; of all others they pull. Set by SET_MESSAGE_REQUEST_MODE, too."
)
_POP_DELIVERIES = (
    "How often a message is popped by RocketMQ's clients of the group before it is a dead letter."
)
_POP_ORDERED = (
    "Whether RocketMQ's clients of the group get the messages of a message group one after another:"
    " the next one once the one before is over. It holds for queues in which the group begins from"
    " then on; those in which it has begun stay as they are."
)

_GROUP_ROWS = (
    _own("consumer.session.timeout.ms", _SESSION, 45_000, _SESSION_TEXT),
    _own("consumer.heartbeat.interval.ms", _HEARTBEAT, 5_000, f"{_HEARTBEAT_TEXT} {_PACED_TEXT}"),
    _own("share.session.timeout.ms", _SESSION, 45_000, _SESSION_TEXT),
    _own("share.heartbeat.interval.ms", _HEARTBEAT, 5_000, f"{_HEARTBEAT_TEXT} {_PACED_TEXT}"),
    _own(
        "share.record.lock.duration.ms",
        (15_000, 60_000),
        30_000,
        "How long a record that a member has got is held for it, in ms.",
    ),
    ResourceKey(
        key="share.auto.offset.reset",
        config_type=ConfigType.STRING,
        parse=offset_reset,
        default="latest",
        documentation=_RESET,
    ),
    ResourceKey(
        key="share.isolation.level",
        config_type=ConfigType.STRING,
        parse=one_of("read_committed", "read_uncommitted"),
        default="read_uncommitted",
        documentation=_ISOLATION,
    ),
    _own(STREAMS_SESSION, _SESSION, 45_000, _SESSION_TEXT),
    _own(STREAMS_INTERVAL, _HEARTBEAT, 5_000, f"{_HEARTBEAT_TEXT} {_PACED_TEXT}"),
    _own(STREAMS_STANDBYS, (0, 2), 0, _STANDBY),
    _own(STREAMS_DELAY, (0, INT32_MAX), 3_000, _DELAY),
    ResourceKey(
        key=POP_TOPICS,
        config_type=ConfigType.LIST,
        parse=name_list,
        default="",
        documentation=_POP_TOPICS,
    ),
    _own(POP_DELIVERIES, (1, 254), 17, _POP_DELIVERIES),
    ResourceKey(
        key=POP_ORDERED,
        config_type=ConfigType.BOOLEAN,
        parse=boolean,
        default="false",
        documentation=_POP_ORDERED,
    ),
)
GROUP_CONFIGS: Mapping[str, ResourceKey] = MappingProxyType({one.key: one for one in _GROUP_ROWS})

_WHICH = "Prefixes of the metrics that clients send; empty for none, '*' for all."
_OFTEN = "How often clients send them, in ms; of several that a client matches the shortest counts."
_WHOSE = "Which clients send them, as NAME=PATTERN with a pattern of RE2; empty for all."

_METRICS_ROWS = (
    _row("metrics", ConfigType.LIST, name_list, "", _WHICH),
    _row("interval.ms", ConfigType.INT, number(100, 3_600_000), "300000", _OFTEN),
    _row("match", ConfigType.LIST, client_patterns, "", _WHOSE),
)
METRICS_CONFIGS: Mapping[str, ResourceKey] = MappingProxyType(
    {one.key: one for one in _METRICS_ROWS}
)
