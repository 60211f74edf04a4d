"""Asking a transaction's coordinator whether partitions are in it, before the first batch is taken.

Source: KIP-890 (part 1: verify only; part 2: the question adds them).
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from penstock.transactions.state import TopicPartitionName


class Verification(NamedTuple):
    """One question. All partitions are written to by one producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    """Whether partitions that are not in the transaction are added to it."""
    partitions: tuple[TopicPartitionName, ...]


class Verifier(Protocol):
    """Knows the coordinators of transactions."""

    async def verify(self, asked: Verification) -> Mapping[TopicPartitionName, int]:
        """Return the coordinator's answer for each partition, as an error code of its protocol.

        0 says that the partition is in the transaction. The answer comes within some seconds:
        what can not be reached is said by a code, too.
        """
