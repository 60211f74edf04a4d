"""Markers: the end of a transaction in the partitions that this broker leads.

    coordinator ─► check its epoch, and the producer's ─► append ─► wait until the set confirms it

A marker that is refused for the producer's epoch is given up: a newer transaction has begun. One
of version 2 that comes again is not written again: nothing is open, and the epoch that it brings
is the known one. One of version 1 is, since it looks like that of the next transaction; but not
while that is open here, which the numbers of both tell (docs/adr/0091).

Source: Kafka `KafkaApis.handleWriteTxnMarkersRequest`, `ProducerAppendInfo.checkProducerEpoch`;
KIP-98, KIP-890 (epochs of markers), KAFKA-19999.
"""

from penstock.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Position, ProducerId
from penstock.broker.errors import CoordinatorFenced
from penstock.broker.partitions import HostedPartition, check_leader_epoch
from penstock.storage.errors import ProducerFenced
from penstock.storage.index.transactions import TransactionEnd
from penstock.transactions.state import BUMPING_VERSION, NO_NUMBER

ANY_EPOCH = NO_LEADER_EPOCH


def append_marker(
    hosted: HostedPartition,
    ended: TransactionEnd,
    version: int,
    *,
    number: int = NO_NUMBER,
    leader_epoch: LeaderEpoch = ANY_EPOCH,
) -> Position:
    """Append a marker; return the position up to which the set has to confirm the log.

    `number` is that of the transaction, `leader_epoch` that of the mastership that was asked.

    Raises NotMaster, FencedLeaderEpoch, UnknownLeaderEpoch, NotEnoughReplicas, CoordinatorFenced,
    ProducerFenced, StorageError.
    """
    member = hosted.member
    if not member.is_master:
        member.check_writable()
    check_leader_epoch(member, leader_epoch)
    member.check_in_step(hosted.topic.rules.min_insync_replicas)
    if _is_overtaken(hosted, ended.producer_id, number):
        return member.log.end_position
    if not _is_there(hosted, ended, version):
        member.log.transactions.append_marker(hosted.log, ended)
        if hosted.on_marker is not None:
            hosted.on_marker(ended)
        if hosted.waiters:
            member.watch(member.log.end_position, hosted)
    hosted.guards.pop(ended.producer_id, None)
    hosted.open_numbers.pop(ended.producer_id, None)
    return member.log.end_position


def _is_overtaken(hosted: HostedPartition, producer_id: ProducerId, number: int) -> bool:
    """Whether a newer transaction is open here, or verified: so this one's marker was written.

    A number that an earlier mastership has noted says nothing: others have written since.
    """
    leader_epoch, newest = hosted.open_numbers.get(producer_id, (ANY_EPOCH, NO_NUMBER))
    if leader_epoch != hosted.member.leader_epoch:
        newest = NO_NUMBER
    guard = hosted.guards.get(producer_id)
    if guard is not None and guard.leader_epoch == hosted.member.leader_epoch:
        newest = max(newest, guard.number)
    return NO_NUMBER < number < newest


def _is_there(hosted: HostedPartition, ended: TransactionEnd, version: int) -> bool:
    """Whether the partition has the marker already. Raises CoordinatorFenced, ProducerFenced."""
    known = hosted.log.producers.known(ended.producer_id)
    if known is None:
        return False
    if ended.coordinator_epoch < known.coordinator_epoch:
        raise CoordinatorFenced(ended.coordinator_epoch, known.coordinator_epoch)
    is_open = known.first_open_offset >= 0
    is_known = ended.producer_epoch == known.epoch
    is_too_old = ended.producer_epoch < known.epoch
    if is_too_old or (version >= BUMPING_VERSION and is_known and is_open):
        raise ProducerFenced(ended.producer_id, ended.producer_epoch, known.epoch)
    is_same = ended.coordinator_epoch == known.coordinator_epoch
    return version >= BUMPING_VERSION and is_known and is_same
