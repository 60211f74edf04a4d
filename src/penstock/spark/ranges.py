"""Offset ranges: the work of a task, the size of a batch, splitting long ranges.

Pure arithmetic. Starts are inclusive, ends exclusive, as everywhere. The JSON form of offsets is
that of Spark's Kafka source, `{"topic": {"0": 23}}`. Keys are sorted, because Spark compares
offsets as text.
"""

import heapq
import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from penstock.spark.errors import OptionError

OffsetJson = dict[str, dict[str, int]]


class PartitionName(NamedTuple):
    """One partition by the name of its topic, as in options and checkpoints."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetRange(NamedTuple):
    """The records of one partition in [start, end)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def name(self) -> PartitionName:
        return PartitionName(self.topic, self.partition)

    @property
    def length(self) -> int:
        """Offsets in the range; never negative. Gaps (control records) count too."""
        return max(0, self.end - self.start)


Offsets = dict[PartitionName, int]


def ranges_between(start: Mapping[PartitionName, int], end: Offsets) -> list[OffsetRange]:
    """Return the non-empty ranges from `start` to `end`, in order of topic and partition."""
    found = (OffsetRange(name.topic, name.partition, start[name], end[name]) for name in end)
    return sorted(part for part in found if part.start < part.end)


def split_ranges(
    ranges: Iterable[OffsetRange], *, ranges_min: int = 0, records_max: int | None = None
) -> list[OffsetRange]:
    """Cut long ranges until there are `ranges_min` and none is longer than `records_max`.

    The longest part is cut first; a range of one offset stays whole, so there can be fewer
    parts than asked for. Parts of one range differ by at most one offset in length.
    """
    whole = [part for part in ranges if part.length > 0]
    counts = [-(-part.length // records_max) if records_max else 1 for part in whole]
    longest = [(-whole[at].length / counts[at], at) for at in range(len(whole))]
    heapq.heapify(longest)
    missing = ranges_min - sum(counts)
    while missing > 0 and longest and longest[0][0] < -1:
        _, at = heapq.heappop(longest)
        counts[at] += 1
        heapq.heappush(longest, (-whole[at].length / counts[at], at))
        missing -= 1
    return [cut for part, count in zip(whole, counts, strict=True) for cut in _cut(part, count)]


def _cut(part: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [part.start + part.length * step // count for step in range(count + 1)]
    return [part._replace(start=low, end=high) for low, high in pairwise(edges) if low < high]


def admit(start: Offsets, latest: Offsets, records_max: int | None) -> Offsets:
    """Return the end of a batch that takes about `records_max` records from `start` on.

    Every partition gets a share by its lag, and at least one record if it has lag, so that none
    starves; with more partitions than `records_max` the batch therefore exceeds the limit a little.
    Ends are never above `latest`, nor below `start`, also if a log has become shorter.

    Source: the rule of Spark's KafkaMicroBatchStream.rateLimit.
    """
    lags = {name: max(0, end - start.get(name, end)) for name, end in latest.items()}
    total = sum(lags.values())
    if records_max is None or total <= records_max:
        return {name: max(end, start.get(name, end)) for name, end in latest.items()}
    return {
        name: start.get(name, latest[name]) + min(lag, max(lag > 0, records_max * lag // total))
        for name, lag in lags.items()
    }


def offsets_to_json(offsets: Mapping[PartitionName, int]) -> OffsetJson:
    """Return the nested form with sorted keys; partitions are sorted as numbers."""
    nested: OffsetJson = {}
    for name in sorted(offsets):
        nested.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return nested


def offsets_from_json(text: str | OffsetJson, *, option: str) -> Offsets:
    """Parse the nested form, e.g. `{"t": {"0": 5}}`. Raises OptionError naming `option`."""
    example = 'write it like {"topic": {"0": 23, "1": -2}}'
    try:
        nested = json.loads(text) if isinstance(text, str) else text
        return {
            PartitionName(topic, int(partition)): _whole_number(value)
            for topic, partitions in nested.items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise OptionError(f"{option}: {text!r} can not be read; {example}") from error


def partitions_from_json(text: str, *, option: str) -> list[PartitionName]:
    """Parse `{"t": [0, 1]}` (the `assign` option). Raises OptionError."""
    try:
        nested = json.loads(text)
        return sorted(
            PartitionName(topic, _whole_number(partition))
            for topic, partitions in nested.items()
            for partition in partitions
        )
    except (ValueError, AttributeError, TypeError) as error:
        example = 'write it like {"topic": [0, 1]}'
        raise OptionError(f"{option}: {text!r} can not be read; {example}") from error


def _whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value
