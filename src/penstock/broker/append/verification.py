"""Asking a transaction's coordinator whether partitions are in it, before the first batch is taken.

Source: KIP-890 (part 1: verify only; part 2: the question adds them).
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.transactions.state import NO_NUMBER


class WantedPartition(NamedTuple):
    """A partition that a batch is for."""

    topic: str
    partition: int
    topic_id: bytes
    """16 bytes, as this broker knows the topic."""


class Verification(NamedTuple):
    """One question. All partitions are written to by one producer."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    adds: bool
    """Whether partitions that are not in the transaction are added to it."""
    partitions: tuple[WantedPartition, ...]


class Verified(NamedTuple):
    """The coordinator's answer for each partition, as an error code of its protocol.

    0 says that the partition is in the transaction.
    """

    codes: Mapping[WantedPartition, int]
    number: int = NO_NUMBER
    """Of the transaction: see Guard.number."""


class Verifier(Protocol):
    """Knows the coordinators of transactions."""

    async def verify(self, asked: Verification) -> Verified:
        """Return the answer, within some seconds: what can not be reached is said by a code."""

    def verify_here(self, asked: Verification) -> Verified | None:
        """Return the answer at once if this broker coordinates the id and has it in memory.

        None otherwise, and where partitions are to be added, which is written first.
        """
