"""What a member of a replica set asks of another where a file of its second level is damaged.

    BatchesRequest ─► BatchesResponse   the batches of a partition from an offset on, in pieces
    ExtentRequest ─► ExtentResponse     the extent of an offset, as cleaning has left it, in pieces

A batch may be larger than a message: whoever has a part of one asks for what follows it.

Source: docs/adr/0109, docs/adr/0114.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from penstock.base.ids import LeaderEpoch
from penstock.coordinator.calls.asking import SMALL_BYTES_MAX, Asks, Told

PIECE_BYTES = 48 << 10
"""Batches in one answer: with the rest of the message it is decoded at once."""


class BatchesCode(IntEnum):
    """What became of the question; the numbers are on the wire."""

    OK = 0
    NOT_HERE = 1
    """The member does not have the offset, or not yet, or follows another mastership."""
    REWRITTEN = 2
    """The member has cleaned that range: its batches are others."""
    UNREADABLE = 3
    """They are damaged there too, or can not be read now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesResponse(Told):
    """A part of whole batches; see BatchesCode for what `code` says."""

    BYTES_MAX: ClassVar[int] = PIECE_BYTES + SMALL_BYTES_MAX

    code: int
    batches: bytes = b""
    total_bytes: int = 0
    """Of the whole batches, what was skipped included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesRequest(Asks[BatchesResponse]):
    """Give the batches of a partition from the one that begins at `offset` on."""

    replica_set_id: int
    leader_epoch: LeaderEpoch
    """Of the mastership that both follow."""
    topic_id: bytes
    """16 bytes."""
    partition: int
    offset: int
    end_offset: int
    """Exclusive; what lies behind it is not needed."""
    skip: int = 0
    """Bytes of these batches that are there already."""

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (self.topic_id,)

    def fits(self, answer: BatchesResponse) -> bool:
        """As in Asks: no more bytes than are left."""
        return _are_left(self.skip, len(answer.batches), answer.total_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentResponse(Told):
    """A piece of an extent: of its summary and then its blocks. `code`: of BatchesCode."""

    BYTES_MAX: ClassVar[int] = PIECE_BYTES + SMALL_BYTES_MAX

    code: int
    entry: bytes = b""
    """As in the directory of its file."""
    first_offset: int = -1
    """Of what is held of it, inclusive."""
    end_offset: int = -1
    """Exclusive."""
    rewritten_end: int = -1
    """Up to where cleaning has rewritten the partition, exclusive; -1: nothing."""
    fingerprint: int = 0
    """Another number when any of what was rewritten is another extent."""
    piece: bytes = b""
    total_bytes: int = 0
    """Of all pieces, what was skipped included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentRequest(Asks[ExtentResponse]):
    """Give the extent of a partition that has `offset` in its range."""

    replica_set_id: int
    leader_epoch: LeaderEpoch
    """Of the mastership that both follow."""
    topic_id: bytes
    """16 bytes."""
    partition: int
    offset: int
    skip: int = 0
    """Bytes of it that are there already."""

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (self.topic_id,)

    def fits(self, answer: ExtentResponse) -> bool:
        """As in Asks: no more bytes than are left."""
        return _are_left(self.skip, len(answer.piece), answer.total_bytes)


def _are_left(skip: int, size: int, total: int) -> bool:
    """Whether so many bytes are left of all behind those that are skipped."""
    return skip + size <= max(total, skip)
