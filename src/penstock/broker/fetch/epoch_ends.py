"""Where the records of a mastership end in one partition, found without waiting on the loop.

The end of a recent mastership is known from memory; that of an old one stands in the index file of
a closed segment. It never changes while the present mastership lasts.

Source: KIP-101, KIP-320; Kafka `LeaderEpochFileCache.endOffsetFor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Position

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition


class EpochEnd(NamedTuple):
    """The largest known epoch at or below the one asked for, and its end (exclusive)."""

    leader_epoch: int
    end_offset: int


EpochEndFound = Callable[["EpochEnd | None", "PlatformError | None"], None]


def find_epoch_end(hosted: HostedPartition, leader_epoch: int, done: EpochEndFound) -> None:
    """Call `done(end, error)`, at once or later; both are None where no such epoch is known."""
    member, log = hosted.member, hosted.log
    found = member.epochs.end_of(LeaderEpoch(leader_epoch), Position(member.log.end_position))
    if found is None:
        done(None, None)
        return

    def at_offset(offset: int | None, error: PlatformError | None) -> None:
        if offset is None:
            done(None, error)
        else:
            done(EpochEnd(found.leader_epoch, max(offset, log.log_start_offset)), None)

    try:
        member.log.find_offset_at(log, found.start_position, at_offset)
    except PlatformError as error:
        done(None, error)
