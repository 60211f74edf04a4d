"""The sums of a row, and adding a run of batches to rows: the Python twins of `_counts.pyx`.

Source: docs/requirements.md G-24; docs/adr/0119 for the cost.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

NUMBERS: Final = (
    "requests",
    "records",
    "bytes_in",
    "bytes_out",
    "bytes_cold",
    "errors",
    "throttle_ms",
    "timed",
    "latency_us",
    "latency_us_max",
)
"""Names of the sums, in the order of the format."""
RECORD_COUNT_AT: Final = 57
"""Where a batch has its count of records, in four bytes."""


class Counts:
    """The sums of a row; times are of a monotonic clock."""

    __slots__ = NUMBERS

    def __init__(self) -> None:
        self.requests = 0
        self.records = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_cold = 0
        """Of `bytes_out`, what came from the disk."""
        self.errors = 0
        self.throttle_ms = 0
        self.timed = 0
        """Requests whose latency is in the next two; those pipelined behind others are not."""
        self.latency_us = 0
        self.latency_us_max = 0


RowsOfPartitions = Mapping[bytes, Mapping[int, Counts]]
"""By topic as requests name it, and partition."""
Missing = Callable[[bytes, int], Counts]
"""Returns the row of a topic and a partition that are in no table yet."""


def count_batches(
    rows: RowsOfPartitions,
    memory: memoryview,
    parts: Sequence[tuple[bytes, int, int, int]],
    answers: Sequence[tuple[Any, ...]],
    missing: Missing,
) -> None:
    """Add batches to the rows of their partitions: appended ones, or errors.

    `parts` are (topic, partition, start, end) in `memory`; `answers` those of the first of them,
    with the error code as third item.
    """
    for (topic, partition, start, end), answer in zip(parts, answers, strict=False):
        row = rows.get(topic, {}).get(partition)
        if row is None:
            row = missing(topic, partition)
        if answer[2]:
            row.errors += 1
            continue
        at = start + RECORD_COUNT_AT
        row.requests += 1
        row.records += int.from_bytes(memory[at : at + 4], "big")
        row.bytes_in += end - start
