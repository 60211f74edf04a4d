"""What is asked about transactions, between who coordinates them and who leads their partitions.

    MarkersRequest ─► MarkersResponse    write these transaction markers to partitions led there
    VerifyRequest  ─► VerifyResponse     is the partition in that transaction; or add it

Source: Kafka, WriteTxnMarkers and AddPartitionsToTxn between brokers (KIP-98, KIP-890, KIP-1228).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from penstock.base.ids import (
    NO_LEADER_EPOCH,
    CoordinatorEpoch,
    LeaderEpoch,
    ProducerEpoch,
    ProducerId,
)
from penstock.coordinator.calls.asking import FRAME_BYTES_MAX, Asks, Told

ENTRIES_MAX: Final = 2_000
"""Transactions of one MarkersRequest: four times what is sent, for later releases."""
PARTITIONS_MAX: Final = 10_000
"""Partitions of one VerifyRequest: twice what a transaction may have. Long topic names reach
FRAME_BYTES_MAX before."""


class MarkedPartition(NamedTuple):
    """A partition that a marker goes to."""

    topic_id: bytes
    """16 bytes."""
    partition: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """Of the mastership that is asked: none but that writes the marker. -1: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerEntry:
    """The end of one transaction, for some of its partitions."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: CoordinatorEpoch
    is_commit: bool
    transaction_version: int
    number: int = 0
    """Of the transaction, among those of its id; 0 if it is not told."""
    partitions: tuple[MarkedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersResponse(Told):
    """`codes[i][j]` is that of partition j of entry i."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"codes": ENTRIES_MAX}

    codes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersRequest(Asks[MarkersResponse]):
    """Write these markers."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"entries": ENTRIES_MAX}

    entries: tuple[MarkerEntry, ...]

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (marked.topic_id for entry in self.entries for marked in entry.partitions)

    def fits(self, answer: MarkersResponse) -> bool:
        """As in Asks."""
        asked = [len(entry.partitions) for entry in self.entries]
        return asked == [len(codes) for codes in answer.codes]


class AskedPartition(NamedTuple):
    """A partition that a batch is for."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResponse(Told):
    """One code for each partition, in their order."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"codes": PARTITIONS_MAX}

    codes: tuple[int, ...]
    number: int = 0
    """Of the transaction that they are in, among those of its id: told to who verifies only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest(Asks[VerifyResponse]):
    """Are these partitions in the transaction; unless `is_verify_only`, add those that are not."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {
        "partitions": PARTITIONS_MAX,
        "topic_ids": PARTITIONS_MAX,
    }

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_verify_only: bool
    partitions: tuple[AskedPartition, ...]
    topic_ids: tuple[bytes, ...] = ()
    """By what ids the asking broker knows the topics, in the order in which `partitions` first
    names them; 16 bytes each. Empty if it does not tell."""

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return self.topic_ids

    def fits(self, answer: VerifyResponse) -> bool:
        """As in Asks."""
        return len(self.partitions) == len(answer.codes)
