"""Whether this broker serves a partition to a fetch, and what there is to tell beside records.

Source: Kafka `ReplicaManager.readFromLog`; KIP-320 (leader epochs), KIP-392 (slaves), KIP-595
(diverging epochs).
"""

from penstock.base.ids import Offset
from penstock.broker.errors import UnknownPartition
from penstock.broker.fetch.epoch_ends import EpochEnd
from penstock.broker.fetch.partition_read import NO_PREFERENCE, PartitionRead, WantedPartition
from penstock.broker.fetch.slave_reads import ReplicaSelector
from penstock.broker.partitions import HostedPartition, check_leader_epoch
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.errors import NotMaster
from penstock.storage.errors import OffsetOutOfRange


def has_ended(member: ReplicaSetMember, leader_epoch: int) -> bool:
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
    end: Offset,
    readable: Offset,
) -> bool:
    """Whether a partition that is served has records for this fetch, below `readable`."""
    wanted = read.wanted
    member, log = hosted.member, hosted.log
    is_slave = member.role is not Role.MASTER
    read.high_watermark = end
    read.log_start_offset = log.log_start_offset
    offset = wanted.fetch_offset
    if is_slave and selector is not None:
        selector.check_slave(hosted, offset)
    elif not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
    if read.epoch_end is not None:
        read.diverging = diverging(read.epoch_end, wanted)
        read.is_told = read.diverging is not None
    elif selector is not None and not is_slave:
        read.preferred = selector.preferred(hosted, offset)
        read.is_told = read.preferred != NO_PREFERENCE
    return offset < readable and not read.is_told


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
