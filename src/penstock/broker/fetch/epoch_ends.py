"""Where the records of a mastership end in one partition, found without blocking the loop.

The end of a recent mastership is in memory; that of an old one is looked up in the partition's
stores. It never changes during the present mastership.

Source: KIP-101, KIP-320; Kafka `LeaderEpochFileCache.endOffsetFor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset
from penstock.broker.errors import TierUnavailable
from penstock.broker.tier.reach import NO_STORE, NOT_KNOWN, is_tiered
from penstock.storage.read.needs_disk import Turn, at_once
from penstock.storage.stores.port import EpochEnd, EpochEndFound
from penstock.tier.read.epochs import epoch_end
from penstock.tier.retention import first_offset

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition
    from penstock.broker.tier.view import TierView

__all__ = ["EpochEnd", "EpochEndFound", "find_epoch_end"]


def find_epoch_end(
    hosted: HostedPartition,
    leader_epoch: LeaderEpoch,
    done: EpochEndFound,
    turn: Turn = at_once,
    tier: TierView | None = None,
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
        if error is None and is_tiered(hosted):
            end, error = _below(hosted, leader_epoch, end, tier)
        done(end, error)

    try:
        member.log.find_epoch_end(log, leader_epoch, found, turn)
    except PlatformError as error:
        done(None, error)


def _below(
    hosted: HostedPartition, leader_epoch: LeaderEpoch, own: EpochEnd | None, tier: TierView | None
) -> tuple[EpochEnd | None, PlatformError | None]:
    """Return what the tier tells where the log has no record of the epoch, or of an earlier one."""
    local_start, key = hosted.log.log_start_offset, hosted.log.topic_partition
    if own is not None and own.end_offset > local_start:
        return own, None
    manifest = None if tier is None else tier.manifest(hosted.member, key)
    if manifest is None:
        return None, TierUnavailable(NO_STORE if tier is None else NOT_KNOWN)
    start = Offset(first_offset(manifest, local_start))
    if start == local_start:
        return own, None
    below = epoch_end(manifest, leader_epoch, local_start)
    if own is not None and below is not None and below.end_offset >= local_start:
        return own, None  # the log knows of masterships without a batch
    if below is None:
        return None if own is None else own._replace(end_offset=start), None
    return EpochEnd(LeaderEpoch(below.leader_epoch), Offset(max(below.end_offset, start))), None
