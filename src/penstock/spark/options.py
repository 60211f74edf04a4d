"""Options of `format("penstock")`, checked and typed.

Names and meanings are those of Spark's Kafka source and sink, so that a job is ported by changing
the format. An option that is not supported raises OptionError and is never silently ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from penstock.spark.errors import OptionError
from penstock.spark.ranges import (
    Offsets,
    PartitionName,
    offsets_from_json,
    partitions_from_json,
)
from penstock.spark.security import (
    OPTION_NAMES as SECURITY_NAMES,
)
from penstock.spark.security import (
    SecurityOptions,
    refuse_secrets,
    security_options,
)
from penstock.spark.tier.options import OPTION_NAMES, TierOptions, tier_options

EARLIEST = -2
LATEST = -1
"""Special offsets in the JSON of startingOffsets and endingOffsets, as in Kafka's ListOffsets."""

_BOOTSTRAP_NAMES = ("kafka.bootstrap.servers", "bootstrap.servers", "bootstrap")
_COMMON = (*_BOOTSTRAP_NAMES, "path", "brokertimeout", *SECURITY_NAMES)
_SOURCE = (
    *("subscribe", "subscribepattern", "assign"),
    *("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"),
    *("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
    *("startingoffsetsbytimestampstrategy", "failondataloss", "skipcorrupt"),
    *("includeheaders", "isolation", "kafka.isolation.level"),
    *("minpartitions", "maxrecordsperpartition"),
    *("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"),
    *OPTION_NAMES,
)
_SINK = (
    *("topic", "checkpointlocation", "queryname", "compression", "batchbytes"),
    *("delivery", "transactiontimeout"),
)
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
"""Kafka's names of isolation levels."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
_TRANSACTION_TIMEOUT = "15m"
"""The longest that brokers allow (Kafka's transaction.max.timeout.ms), if they are not told
otherwise: the time for which a job may be down, between its decision and its end, at no cost."""
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Codec names and their numbers in a batch."""
_INT32_MAX = (1 << 31) - 1
_DURATION = re.compile(r"^\s*(\d+)\s*(ms|s|sec|second|m|min|minute|h|hour)?s?\s*$", re.IGNORECASE)
_DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSpec:
    """Where reading begins or ends. The first field that is set is used."""

    timestamp_ms: int | None = None
    """For all partitions: the first record with this timestamp or a later one."""
    by_timestamp: Offsets | None = None
    """For each partition: the first record with this timestamp or a later one."""
    offsets: Offsets | None = None
    """Offsets partition by partition; EARLIEST and LATEST are allowed."""
    special: int = EARLIEST
    """EARLIEST or LATEST for all partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a reader."""

    bootstrap: str
    security: SecurityOptions = field(default_factory=SecurityOptions)
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str | None = None
    assign: tuple[PartitionName, ...] = ()
    starting: BoundSpec
    ending: BoundSpec
    timestamp_without_match: str = "error"
    """`error` or `latest`: what to do if no record is at or after startingTimestamp."""
    fail_on_data_loss: bool = True
    skip_corrupt: bool = False
    """Skip batches that can not be read, with a line in the log, instead of failing."""
    include_headers: bool = False
    isolation: str = READ_COMMITTED
    ranges_min: int = 0
    records_per_range_max: int | None = None
    records_per_trigger_max: int | None = None
    records_per_trigger_min: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    """Longest wait for `minOffsetsPerTrigger`; Spark's default of 15 minutes."""
    broker_timeout_seconds: float = 60.0
    tier: TierOptions = field(default_factory=TierOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a writer."""

    bootstrap: str
    security: SecurityOptions = field(default_factory=SecurityOptions)
    topic: str | None = None
    """Topic for all rows; overrides the column `topic`."""
    compression: str = "none"
    batch_bytes: int = 512 << 10
    broker_timeout_seconds: float = 60.0
    delivery: str = EXACTLY_ONCE
    transaction_timeout_ms: int = 15 * 60_000
    checkpoint: str | None = None
    """A stream's checkpointLocation; needed for exactly once."""

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == EXACTLY_ONCE


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check and type the options of a reader. Raises OptionError."""
    options = _lowered(given, allowed=(*_COMMON, *_SOURCE), side="source")
    if streaming:
        _refuse(options, "ending", "has no meaning in a stream")
    else:
        _refuse(options, "maxoffsetspertrigger", "is for streams")
        _refuse(options, "minoffsetspertrigger", "is for streams")
    subscribe, pattern, assign = _subscription(options)
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError("startingOffsetsByTimestampStrategy: error or latest")
    return SourceOptions(
        bootstrap=_bootstrap(options),
        security=security_options(options),
        subscribe=subscribe,
        subscribe_pattern=pattern,
        assign=assign,
        starting=_bound(options, "starting", LATEST if streaming else EARLIEST, streaming),
        ending=_bound(options, "ending", LATEST, streaming),
        timestamp_without_match=strategy,
        fail_on_data_loss=_truth(options, "failondataloss", default=True),
        skip_corrupt=_truth(options, "skipcorrupt", default=False),
        include_headers=_truth(options, "includeheaders", default=False),
        isolation=_isolation(options),
        ranges_min=_count(options, "minpartitions") or 0,
        records_per_range_max=_count(options, "maxrecordsperpartition"),
        records_per_trigger_max=_count(options, "maxoffsetspertrigger"),
        records_per_trigger_min=_count(options, "minoffsetspertrigger"),
        trigger_delay_ms_max=_duration_ms(options.get("maxtriggerdelay", "15m")),
        broker_timeout_seconds=_duration_ms(options.get("brokertimeout", "60s")) / 1000,
        tier=tier_options(options),
    )


def _isolation(options: Mapping[str, str]) -> str:
    names = ("isolation", "kafka.isolation.level")
    given = {options[name].strip().lower() for name in names if options.get(name)}
    if len(given) > 1:
        raise OptionError("give one of isolation and kafka.isolation.level")
    found = given.pop() if given else READ_COMMITTED
    if found not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise OptionError(f"isolation: {READ_COMMITTED} or {READ_UNCOMMITTED}, not {found!r}")
    return found


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check and type the options of a writer. Raises OptionError."""
    options = _lowered(given, allowed=(*_COMMON, *_SINK), side="sink")
    compression = options.get("compression", "none").lower()
    if compression not in CODECS:
        raise OptionError(f"compression {compression}: choose one of {', '.join(CODECS)}")
    return SinkOptions(
        bootstrap=_bootstrap(options),
        security=security_options(options),
        topic=options.get("topic") or options.get("path") or None,
        compression=compression,
        batch_bytes=_count(options, "batchbytes") or (512 << 10),
        broker_timeout_seconds=_duration_ms(options.get("brokertimeout", "60s")) / 1000,
        delivery=_delivery(options, streaming=streaming),
        transaction_timeout_ms=_transaction_timeout_ms(options),
        checkpoint=options.get("checkpointlocation") if streaming else None,
    )


def _delivery(options: Mapping[str, str], *, streaming: bool) -> str:
    delivery = options.get("delivery", EXACTLY_ONCE).strip().lower()
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise OptionError(f"delivery: {EXACTLY_ONCE} or {AT_LEAST_ONCE}, not {delivery!r}")
    if streaming and delivery == EXACTLY_ONCE and not options.get("checkpointlocation"):
        raise OptionError(
            f"delivery={EXACTLY_ONCE} records its decisions with the checkpoint: say where with"
            ' .option("checkpointLocation", DIRECTORY) on the writer (a setting of the session does'
            f' not reach the sink), or choose .option("delivery", "{AT_LEAST_ONCE}")'
        )
    return delivery


def _transaction_timeout_ms(options: Mapping[str, str]) -> int:
    timeout_ms = _duration_ms(options.get("transactiontimeout", _TRANSACTION_TIMEOUT))
    if not 1_000 <= timeout_ms <= _INT32_MAX:
        raise OptionError("transactionTimeout: at least 1s, and at most 24 days")
    return timeout_ms


def _lowered(given: Mapping[str, str], *, allowed: tuple[str, ...], side: str) -> dict[str, str]:
    options = {name.lower(): value for name, value in given.items()}
    refuse_secrets(options)
    for name in options:
        if name in allowed:
            continue
        if name.startswith("kafka."):
            raise OptionError(
                f"option {name}: of Kafka's own client settings only kafka.bootstrap.servers, those"
                " of TLS and SASL by librdkafka's names and, in a source, kafka.isolation.level are"
                " supported here; leave it out or use Spark's Kafka connector"
            )
        near = get_close_matches(name, allowed, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OptionError(f"option {name} is not known to the penstock {side}{hint}")
    return options


def _refuse(options: Mapping[str, str], prefix: str, why: str) -> None:
    for name in options:
        if name.startswith(prefix):
            raise OptionError(f"option {name} {why}; leave it out")


def _bootstrap(options: Mapping[str, str]) -> str:
    given = {options[name].strip() for name in _BOOTSTRAP_NAMES if options.get(name)}
    if not given:
        raise OptionError('name the brokers: .option("bootstrap", "HOST:PORT[,HOST:PORT]")')
    if len(given) > 1:
        raise OptionError(f"give one bootstrap option, not {' and '.join(sorted(given))}")
    return given.pop()


def _subscription(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], str | None, tuple[PartitionName, ...]]:
    ways = [name for name in ("subscribe", "subscribepattern", "assign") if options.get(name)]
    if not ways and options.get("path"):
        return (options["path"],), None, ()
    if len(ways) != 1:
        raise OptionError("give exactly one of subscribe, subscribePattern and assign")
    value = options[ways[0]]
    if ways[0] == "subscribe":
        topics = tuple(sorted({topic.strip() for topic in value.split(",")} - {""}))
        if not topics:
            raise OptionError("subscribe: name at least one topic")
        return topics, None, ()
    if ways[0] == "assign":
        assigned = tuple(partitions_from_json(value, option="assign"))
        if not assigned:
            raise OptionError("assign: name at least one partition")
        return (), None, assigned
    try:
        re.compile(value)
    except re.error as error:
        raise OptionError(f"subscribePattern {value}: {error}") from error
    return (), value, ()


def _bound(options: Mapping[str, str], side: str, default: int, streaming: bool) -> BoundSpec:
    """Read the three ways to give one bound, in Spark's order of precedence."""
    text = options.get(f"{side}timestamp")
    if text is not None:
        if not text.strip().isdigit():
            raise OptionError(f"{side}Timestamp: milliseconds since 1970, not {text!r}")
        return BoundSpec(timestamp_ms=int(text))
    text = options.get(f"{side}offsetsbytimestamp")
    if text is not None:
        return BoundSpec(by_timestamp=offsets_from_json(text, option=f"{side}OffsetsByTimestamp"))
    text = options.get(f"{side}offsets")
    forbidden = EARLIEST if side == "ending" else LATEST
    if text is None:
        return BoundSpec(special=default)
    if text.strip().lower() in ("earliest", "latest"):
        special = EARLIEST if text.strip().lower() == "earliest" else LATEST
        if special == forbidden and not streaming:
            raise OptionError(f"{side}Offsets can not be {text.strip().lower()} in a batch query")
        return BoundSpec(special=special)
    offsets = offsets_from_json(text, option=f"{side}Offsets")
    if not streaming and forbidden in offsets.values():
        raise OptionError(f"{side}Offsets can not be {forbidden} in a batch query")
    if any(offset < EARLIEST for offset in offsets.values()):
        raise OptionError(f"{side}Offsets: an offset, -2 (earliest) or -1 (latest)")
    return BoundSpec(offsets=offsets)


def _truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {name}: true or false, not {text!r}")
    return text.lower() == "true"


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise OptionError(f"option {name}: a whole number above 0, not {text!r}")
    return int(text)


def _duration_ms(text: str) -> int:
    match = _DURATION.match(text)
    if not match:
        raise OptionError(f"{text!r} is no duration; write it like 500ms, 30s or 15m")
    unit = (match.group(2) or "ms").lower()
    return int(match.group(1)) * _DURATION_MS["ms" if unit == "ms" else unit[0]]
