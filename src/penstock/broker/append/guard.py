"""The guard of a transaction's first batch in a partition; transactional.py has its rules.

Source: KIP-890, Kafka `VerificationGuard`.
"""

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, ProducerEpoch
from penstock.transactions.state import NO_NUMBER


class Guard:
    """One partition's wait for the coordinator, for one producer."""

    __slots__ = (
        "is_verified",
        "leader_epoch",
        "lowest_sequence",
        "number",
        "producer_epoch",
        "refusal",
        "waiting",
    )

    def __init__(
        self, leader_epoch: LeaderEpoch, producer_epoch: ProducerEpoch, sequence: int
    ) -> None:
        self.leader_epoch = leader_epoch
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        """Of the batches that have come: those behind it must not pass it."""
        self.waiting = 0
        """Requests that have not appended yet."""
        self.is_verified = False
        self.number = NO_NUMBER
        """Of the transaction that the partition is in, as its coordinator counts those of its id;
        NO_NUMBER if it has not told, as in version 2, where epochs tell them apart."""
        self.refusal: PlatformError | None = None
        """Why the coordinator did not confirm the partition."""

    def confirm(self, number: int) -> None:
        """Note that the partition is in the transaction, and which one that is."""
        self.is_verified = True
        self.number = max(self.number, number)
