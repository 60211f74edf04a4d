"""Gives batches to a member of a set whose second level is damaged, from whichever store has them.

    at or above the log start    from the log, or its second level
    below it                     from the tier, where this member leads: local retention has freed
                                 the disks of them, and a file still has them beside what is needed

Source: docs/adr/0109, 0124; the asking side is extent_repairs.py.
"""

import asyncio
from contextlib import suppress

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, ReplicaSetId, TopicId, TopicPartition
from penstock.base.ports import Buffer
from penstock.broker.broker import Broker
from penstock.coordinator.calls.extents import (
    PIECE_BYTES,
    BatchesCode,
    BatchesRequest,
    BatchesResponse,
)
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk
from penstock.storage.index.partition_log import PartitionLog
from penstock.tier.errors import NotInTier, TierError


class BatchAnswers:
    """The handler of one broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def give(self, question: BatchesRequest) -> BatchesResponse:
        """Answer with whole batches from the asked offset on, or with a piece of them.

        Nothing above the confirm position is given, which may still be cut.
        """
        member = self._broker.members.get(ReplicaSetId(question.replica_set_id))
        partition = None if member is None else _partition_of(member, question)
        if member is None or partition is None:
            return _refusal(BatchesCode.NOT_HERE)
        where = partition.topic_partition, question.offset, question.end_offset
        if member.log.splitting.damage.is_rewritten(*where):
            return _refusal(BatchesCode.REWRITTEN)
        if question.offset < partition.log_start_offset:
            return await self._from_tier(member, partition.topic_partition, question)
        with suppress(PlatformError):
            chunk = await _read(member, partition, Offset(question.offset))
            if not chunk.size or chunk.first_offset != question.offset:
                return _refusal(BatchesCode.NOT_HERE)
            return _piece(chunk.data, question.skip)
        return _refusal(BatchesCode.UNREADABLE)

    async def _from_tier(
        self, member: ReplicaSetMember, key: TopicPartition, question: BatchesRequest
    ) -> BatchesResponse:
        tier = self._broker.tier
        if tier is None or member.role is not Role.MASTER:
            return _refusal(BatchesCode.NOT_HERE)
        try:
            return _piece(await tier.read(member, key, question.offset), question.skip)
        except NotInTier:
            return _refusal(BatchesCode.NOT_HERE)
        except TierError:
            return _refusal(BatchesCode.UNREADABLE)


def _partition_of(member: ReplicaSetMember, question: BatchesRequest) -> PartitionLog | None:
    """Return the partition if it reaches the offset and the member follows the mastership."""
    is_of_it = member.role is not Role.IDLE and member.leader_epoch == question.leader_epoch
    if not is_of_it or member.log.is_busy:
        return None
    key = TopicPartition(TopicId(question.topic_id), question.partition)
    partition = member.log.partitions.get(key)
    if partition is None:
        return None
    return partition if question.offset < partition.log_end_offset else None


async def _read(member: ReplicaSetMember, partition: PartitionLog, offset: Offset) -> Chunk:
    """Read about a piece, from the disk if need be. Raises PlatformError."""
    found = member.log.read(partition, offset, PIECE_BYTES, member.confirm_position)
    if not isinstance(found, NeedsDisk):
        return found
    loaded: asyncio.Future[Chunk] = asyncio.get_running_loop().create_future()

    def done(chunk: Chunk | None, error: PlatformError | None) -> None:
        if loaded.done():
            return
        if chunk is not None:
            loaded.set_result(chunk)
        elif error is not None:
            loaded.set_exception(error)

    found.load(done)
    return await loaded


def _piece(batches: Buffer, skip: int) -> BatchesResponse:
    view = memoryview(batches)
    piece = bytes(view[skip : skip + PIECE_BYTES])
    return BatchesResponse(code=BatchesCode.OK, batches=piece, total_bytes=len(view))


def _refusal(code: BatchesCode) -> BatchesResponse:
    return BatchesResponse(code=code)
