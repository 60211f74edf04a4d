"""Whether this broker serves a partition to a fetch, and what there is to tell beside records.

Source: Kafka `ReplicaManager.readFromLog`; KIP-320 (leader epochs), KIP-392 (slaves), KIP-595
(diverging epochs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.ids import NO_OFFSET, LeaderEpoch, Offset, Position
from penstock.broker.errors import TierUnavailable, UnknownPartition
from penstock.broker.fetch.epoch_ends import EpochEnd
from penstock.broker.fetch.partition_read import NO_PREFERENCE, PartitionRead, WantedPartition
from penstock.broker.fetch.slave_reads import ReplicaSelector
from penstock.broker.partitions import HostedPartition, check_leader_epoch
from penstock.broker.tier.reach import NO_STORE, first_offset, is_tiered
from penstock.broker.tier.view import TierClient, TierView
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.errors import NotMaster
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk
from penstock.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def has_ended(member: ReplicaSetMember, leader_epoch: LeaderEpoch) -> bool:
    """Whether the end of that mastership is known here.

    A slave may still be receiving records of the newest epoch in its log, so that the end there is
    not final: a consumer that has read more of it from the master has not diverged.
    """
    if member.role is Role.MASTER:
        return 0 <= leader_epoch != member.leader_epoch
    return 0 <= leader_epoch < member.epochs.latest


def has_records(
    read: PartitionRead,
    hosted: HostedPartition,
    selector: ReplicaSelector | None,
    ends: tuple[Offset, Offset],
    tier: TierView | None,
) -> bool:
    """Whether a partition that is served has records for this fetch.

    `ends`: of what is confirmed, and of what this consumer may read.
    """
    end, readable = ends
    wanted = read.wanted
    member, log = hosted.member, hosted.log
    is_slave = member.role is not Role.MASTER
    read.high_watermark = end
    start = first_offset(hosted, tier)
    if is_slave and is_tiered(hosted):
        start = None if tier is None else tier.reads.told_start(hosted)
    read.log_start_offset = NO_OFFSET if start is None else start
    offset = wanted.fetch_offset
    if is_slave and selector is not None:
        selector.check_slave(hosted, offset)
    elif not (start or 0) <= offset <= log.log_end_offset:  # a start not known yet refuses nothing
        raise OffsetOutOfRange(offset, start or 0, log.log_end_offset)
    if read.epoch_end is not None:
        read.diverging = diverging(read.epoch_end, wanted)
        read.is_told = read.diverging is not None
    elif selector is not None and not is_slave:
        is_there = offset >= log.log_start_offset or start is not None
        read.preferred = selector.preferred(hosted, offset) if is_there else NO_PREFERENCE
        read.is_told = read.preferred != NO_PREFERENCE
    return offset < readable and not read.is_told


def find_records(
    broker: Broker, read: PartitionRead, limit: int, position: Position, client: TierClient
) -> Chunk | NeedsDisk | None:
    """Return the records that `has_records` has told of; None: the tier is still read for them.

    Offsets without records are passed over; what follows them may be in the log.
    """
    hosted, offset = read.hosted, read.wanted.fetch_offset
    assert hosted is not None
    while offset < hosted.log.log_start_offset:
        if broker.tier is None:
            raise TierUnavailable(NO_STORE)
        chunk = broker.tier.reads.fetch(client, hosted, offset, limit)
        if chunk is None or chunk.size:
            return chunk
        assert chunk.next_offset > offset, "what has no records gets on"
        offset = Offset(chunk.next_offset)
    read.begins_at = offset
    found = broker.read_ahead.take(hosted.log, offset, limit, position)
    if found is None:
        found = hosted.member.log.read(hosted.log, offset, limit, position)
        broker.stats.fetch_cold_reads += isinstance(found, NeedsDisk)
    return found


def served(read: PartitionRead, selector: ReplicaSelector | None) -> HostedPartition:
    """Return the partition if this broker serves it in its present role. Raises otherwise."""
    hosted = read.hosted
    if hosted is None:
        raise read.why_absent
    if hosted.is_dropped:
        raise UnknownPartition
    if read.wanted.leader_epoch >= 0:
        check_leader_epoch(hosted.member, read.wanted.leader_epoch)
    role = hosted.member.role
    if role is not Role.MASTER and (selector is None or role is not Role.SLAVE):
        raise NotMaster
    return hosted


def diverging(end: EpochEnd, wanted: WantedPartition) -> tuple[int, int] | None:
    """KIP-595: the fetcher's last epoch ended before its fetch offset, so its log has diverged."""
    if end.leader_epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
        return end
    return None
