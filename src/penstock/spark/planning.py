"""Planning: turn options into offset ranges.

This module asks brokers for partitions and offsets and reads no records. The rules are those of
Spark's Kafka source, if it has one: the precedence of the options; offsets given by partition must
name all partitions; a timestamp after the last record means an error or the end.
"""

import re
from collections.abc import Iterable, Mapping

from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import DataLost, OptionError
from penstock.spark.options import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    BoundSpec,
    SourceOptions,
)
from penstock.spark.ranges import OffsetRange, Offsets, PartitionName, ranges_between, split_ranges
from penstock.spark.warnings import warn


def subscribed(access: BrokerAccess, options: SourceOptions) -> list[PartitionName]:
    """Return the partitions to read, sorted. Raises OptionError for a missing topic."""
    if options.assign:
        for name in options.assign:
            if name.partition not in access.partitions(name.topic):
                raise OptionError(f"assign: topic {name.topic} has no partition {name.partition}")
        return list(options.assign)
    topics: Iterable[str] = options.subscribe
    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        topics = sorted(topic for topic in access.topics() if pattern.fullmatch(topic))
    return [
        PartitionName(topic, partition)
        for topic in topics
        for partition in access.partitions(topic)
    ]


def batch_ranges(access: BrokerAccess, options: SourceOptions) -> list[OffsetRange]:
    """Return the ranges of a batch query, one per partition, without empty ones."""
    names = subscribed(access, options)
    low = access.earliest(names)
    start = starting_offsets(access, names, options, earliest=low)
    end = _resolve(access, names, options.ending, side="ending")
    high = access.latest(names)  # after the ends: what was written meanwhile is not lost
    wanted = ranges_between(start, end)
    _check_decided(access, wanted, high, options)
    return [part for part in (_kept(part, low, high, options) for part in wanted) if part.length]


def _check_decided(
    access: BrokerAccess, wanted: Iterable[OffsetRange], high: Offsets, options: SourceOptions
) -> None:
    """Raise OptionError for an end behind the last stable offset: a transaction is open there."""
    if options.isolation != READ_COMMITTED:
        return
    beyond = [part for part in wanted if part.end > high[part.name]]
    replicated = access.high_watermarks([part.name for part in beyond])
    for part in beyond:
        if part.end <= replicated[part.name]:
            raise OptionError(
                f"endingOffsets: of {part.name} it is decided up to offset {high[part.name]} what"
                f" is committed, not up to {part.end}; end there, wait for the open transaction, or"
                f" read with isolation={READ_UNCOMMITTED}"
            )


def _kept(part: OffsetRange, low: Offsets, high: Offsets, options: SourceOptions) -> OffsetRange:
    """Return the part of the range that the log has; raise or warn if some of it is gone."""
    name = part.name
    if part.start < low[name]:
        lost(name, wanted=part.start, found=low[name], fail=options.fail_on_data_loss)
    if part.end > high[name]:
        lost(name, wanted=part.end, found=high[name], fail=options.fail_on_data_loss)
    start = max(part.start, low[name])
    return part._replace(start=start, end=max(start, min(part.end, high[name])))


def lost(name: PartitionName, *, wanted: int, found: int, fail: bool) -> None:
    """Raise DataLost, or only warn if `fail` is false."""
    error = DataLost(name.topic, name.partition, wanted=wanted, found=found)
    if fail:
        raise error
    warn(f"{error}; continuing, since failOnDataLoss is false")


def task_ranges(ranges: Iterable[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    """Return the ranges of the tasks."""
    return split_ranges(
        ranges, ranges_min=options.ranges_min, records_max=options.records_per_range_max
    )


def starting_offsets(
    access: BrokerAccess,
    names: list[PartitionName],
    options: SourceOptions,
    *,
    earliest: Mapping[PartitionName, int] | None = None,
) -> Offsets:
    """Return the offset at which each partition begins, with EARLIEST and LATEST resolved."""
    found = _resolve(access, names, options.starting, side="starting", earliest=earliest)
    missing = [name for name, offset in found.items() if offset < 0]
    if missing and options.timestamp_without_match == "error":
        raise OptionError(
            f"no record of {missing[0]} has the starting timestamp or a later one; with"
            " startingOffsetsByTimestampStrategy=latest reading begins at the end there"
        )
    return found | (access.latest(missing) if missing else {})


def _resolve(
    access: BrokerAccess,
    names: list[PartitionName],
    spec: BoundSpec,
    *,
    side: str,
    earliest: Mapping[PartitionName, int] | None = None,
) -> Offsets:
    """Return one offset per partition; -1 if no record is at or after a starting timestamp."""
    if spec.timestamp_ms is not None:
        found = access.at_timestamp(dict.fromkeys(names, spec.timestamp_ms))
    elif spec.by_timestamp is not None:
        _check_complete(spec.by_timestamp, names, f"{side}OffsetsByTimestamp")
        found = access.at_timestamp({name: spec.by_timestamp[name] for name in names})
    else:
        if spec.offsets is not None:
            _check_complete(spec.offsets, names, f"{side}Offsets")
        wanted = spec.offsets or dict.fromkeys(names, spec.special)
        first = [name for name in names if wanted[name] == EARLIEST]
        last = [name for name in names if wanted[name] == LATEST]
        known = earliest or access.earliest(first)
        special = {name: known[name] for name in first} | access.latest(last)
        return {name: special.get(name, wanted[name]) for name in names}
    if side == "ending":
        after_all = [name for name in names if found[name] < 0]
        found |= access.latest(after_all) if after_all else {}
    return found


def _check_complete(given: Offsets, names: list[PartitionName], option: str) -> None:
    missing = sorted(set(names) - set(given))
    if missing:
        raise OptionError(f"{option} must name all partitions; {missing[0]} is missing")
    strange = sorted(set(given) - set(names))
    if strange:
        raise OptionError(f"{option} names {strange[0]}, which is not read")
