"""The high watermark of a partition, found without blocking the loop.

It is where the confirm position lies in the partition. Memory knows that, except where the position
is in a segment that closed long ago: then an index is read from the disk, for those who asked. What
is found is the high watermark as of when the look-up began: it is never too high, since confirmed
records stay.

Source: ours. In Kafka each partition has its high watermark as an offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, Position
from penstock.storage.read.needs_disk import Turn, at_once

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition
    from penstock.replica.replica_set import ReplicaSetMember


class End(NamedTuple):
    """Where something ends (exclusive): an offset of the partition, a position of the set's log."""

    offset: Offset
    position: Position


def confirm_position(hosted: HostedPartition) -> Position:
    """Return the position (exclusive) up to which the set's log is confirmed."""
    return hosted.member.confirm_position


def knows_the_end(hosted: HostedPartition) -> bool:
    """Whether the high watermark covers all that earlier masters may have confirmed (KIP-207)."""
    return knows_the_ends(hosted.member)


def knows_the_ends(member: ReplicaSetMember) -> bool:
    """Whether that is so of all partitions of a set."""
    return member.confirm_position >= member.epoch_start


def find_high_watermark(
    hosted: HostedPartition,
    done: Callable[[Offset | None, PlatformError | None], None],
    turn: Turn = at_once,
) -> None:
    """Call `done(offset, error)`, at once if memory can tell, or later."""
    member, log = hosted.member, hosted.log
    known = member.high_watermark(log)
    if known is not None:
        done(known, None)
        return
    try:
        member.log.find_offset_at(log, member.confirm_position, done, turn)
    except PlatformError as error:
        done(None, error)
