"""Predicts a consumer's next fetch from the one that is being answered.

    room for all        each partition continues after what it got
    some left out       in a session (KIP-227) these come first, those served go last; without one
                        clients begin with the second partition next time (librdkafka)

A wrong prediction costs a useless read. So it is used only if the last one was right: the first
partition that got records was expected at that offset.

Source: ours; librdkafka `rd_kafka_broker_fetch_toppars` for the order without sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.ids import Offset
from penstock.storage.commit_log.set_log import NO_MORE

if TYPE_CHECKING:
    from penstock.broker.fetch.partition_read import PartitionRead
    from penstock.broker.partitions import HostedPartition


class Upcoming(NamedTuple):
    """A partition of the next fetch: its offset, and the most bytes for it."""

    hosted: HostedPartition
    offset: Offset
    max_bytes: int


def was_expected(reads: Iterable[PartitionRead]) -> bool:
    """Whether this fetch continues where an earlier one was expected to."""
    for read in reads:
        if read.size and read.hosted is not None:
            return read.hosted.next_fetch_offset == read.wanted.fetch_offset
    return False


def upcoming(
    reads: Sequence[PartitionRead], *, has_left_out: bool, has_session: bool
) -> Iterator[Upcoming]:
    """Yield the next fetch's partitions in order; each may get fewer bytes, or not be fetched."""
    for read in _in_next_order(reads, has_session) if has_left_out else reads:
        offset, max_bytes = _goes_on_at(read), read.wanted.max_bytes
        if read.hosted is not None and offset != NO_MORE and max_bytes > 0:
            yield Upcoming(read.hosted, Offset(offset), max_bytes)


def _in_next_order(reads: Sequence[PartitionRead], has_session: bool) -> Iterable[PartitionRead]:
    if has_session:
        return sorted(reads, key=lambda read: read.size > 0)
    return (*reads[1:], reads[0])


def _goes_on_at(read: PartitionRead) -> int:
    if read.size:
        return read.next_offset
    return read.wanted.fetch_offset if read.wanted.fetch_offset < read.high_watermark else NO_MORE
