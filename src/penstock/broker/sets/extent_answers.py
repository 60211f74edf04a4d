"""Gives extents to a member of a set that takes over what cleaning has left here.

What extents have is confirmed, so nothing of it may still be cut.

Source: docs/adr/0114; the asking side is range_repairs.py.
"""

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, ReplicaSetId, TopicId, TopicPartition
from penstock.broker.broker import Broker
from penstock.broker.sets.outcome import outcome
from penstock.coordinator.calls.extents import (
    PIECE_BYTES,
    BatchesCode,
    ExtentRequest,
    ExtentResponse,
)
from penstock.extents.layout import ENTRY
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.pieces import ExtentPieces, piece_bytes


class ExtentAnswers:
    """The handler of one broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def give(self, question: ExtentRequest) -> ExtentResponse:
        """Answer with a piece of the extent of the asked offset."""
        member = self._broker.members.get(ReplicaSetId(question.replica_set_id))
        if member is None or not _follows(member, question.leader_epoch):
            return ExtentResponse(code=BatchesCode.NOT_HERE)
        key = TopicPartition(TopicId(question.topic_id), question.partition)
        pieces = member.log.splitting.pieces
        extent = pieces.extent_at(key, question.offset)
        if extent is None:
            return ExtentResponse(code=BatchesCode.NOT_HERE)
        marks = pieces.marks(key)
        try:
            piece = await _read(pieces, extent, question.skip)
        except PlatformError:
            return ExtentResponse(code=BatchesCode.UNREADABLE)
        return ExtentResponse(
            code=BatchesCode.OK,
            entry=ENTRY.pack(*extent.entry),
            first_offset=extent.first_offset,
            end_offset=extent.end_offset,
            rewritten_end=marks.rewritten_end,
            fingerprint=marks.fingerprint,
            piece=piece,
            total_bytes=piece_bytes(extent),
        )


def _follows(member: ReplicaSetMember, leader_epoch: LeaderEpoch) -> bool:
    is_of_it = member.role is not Role.IDLE and member.leader_epoch == leader_epoch
    return is_of_it and not member.log.is_busy


async def _read(pieces: ExtentPieces, extent: Extent, skip: int) -> bytes:
    """Read a piece off the loop. Raises PlatformError."""
    piece: bytes = await outcome(lambda done: pieces.read(extent, skip, PIECE_BYTES, done))
    return piece
