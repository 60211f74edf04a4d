"""Where the records of a mastership end in one partition, found without blocking the loop.

The end of a recent mastership is in memory; that of an old one is looked up in the partition's
stores. It never changes during the present mastership.

Source: KIP-101, KIP-320; Kafka `LeaderEpochFileCache.endOffsetFor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch
from penstock.storage.read.needs_disk import Turn, at_once
from penstock.storage.stores.port import EpochEnd, EpochEndFound

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition

__all__ = ["EpochEnd", "EpochEndFound", "find_epoch_end"]


def find_epoch_end(
    hosted: HostedPartition, leader_epoch: LeaderEpoch, done: EpochEndFound, turn: Turn = at_once
) -> None:
    """Call `done(end, error)`, at once or later; both are None if no such epoch is known."""
    member, log = hosted.member, hosted.log
    if leader_epoch > member.epochs.latest:
        done(None, None)
        return
    known = member.epochs.end_of(leader_epoch, member.log.end_position)

    def found(end: EpochEnd | None, error: PlatformError | None) -> None:
        if end is None and error is None and known is not None:
            end = EpochEnd(known.leader_epoch, log.log_start_offset)  # none of its records are kept
        if end is not None:
            end = end._replace(end_offset=max(end.end_offset, log.log_start_offset))
        done(end, error)

    try:
        member.log.find_epoch_end(log, leader_epoch, found, turn)
    except PlatformError as error:
        done(None, error)
