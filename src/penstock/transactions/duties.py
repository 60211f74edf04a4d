"""Which partitions still have to hear how a transaction has ended.

Source: Kafka `TransactionMarkerChannelManager` (`topicPartitions` of a pending transaction).
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.coordinator.masterships import Masterships
from penstock.transactions.messages import MarkerDuty, Markers
from penstock.transactions.state import TopicPartitionName, Transaction, TransactionState

BESIDE_MAX = 16
"""Partitions of a transaction, at most, that may have their markers in the turn of its decision."""
TO_MARK = 15
"""A marker is appended in 150 us; a unit of portions is 10."""


class _Open(NamedTuple):
    """A duty of a partition of the internal topic, and the partitions that have not heard."""

    partition: int
    duty: MarkerDuty
    left: set[TopicPartitionName]


class Duties:
    """The duties of one coordinator, by transactional id."""

    __slots__ = ("_beside", "_later", "_left", "_markers", "_masterships", "_of_partition")

    def __init__(self, markers: Markers, masterships: Masterships) -> None:
        self._markers = markers
        self._masterships = masterships
        self._left: dict[str, _Open] = {}
        self._of_partition: dict[int, set[str]] = {}
        """Transactional ids with a duty, by the partition of the internal topic that has them."""
        self._beside: dict[int, dict[str, frozenset[TopicPartitionName]]] = {}
        """By the same, then by transactional id: who has the marker of a decision on its way."""
        self._later: dict[int, dict[str, Transaction]] = {}
        """By the same: decisions whose partitions hear once the answer is on its way."""

    def write_beside(self, partition: int, one: Transaction) -> bool:
        """Write the markers that may stand behind a decision that is not confirmed yet.

        Returns whether no other partition has to hear of it.
        """
        if not one.partitions:
            return True
        if len(one.partitions) > BESIDE_MAX:
            return False
        told = self._markers.write_beside(partition, self._duty(partition, one, one.partitions))
        if told:
            self._beside.setdefault(partition, {})[one.transactional_id] = told
        return told == one.partitions

    def come_behind(self, partition: int) -> bool:
        """Whether the markers of a decision wait until its producer has the answer."""
        return self._markers.come_behind(partition)

    def put_off(self, partition: int, one: Transaction) -> bool:
        """Keep a confirmed decision until its producer has the answer; whether that is due."""
        is_begun = self.is_written_beside(partition, one.transactional_id)
        if is_begun or not self.come_behind(partition):
            return False
        self._later.setdefault(partition, {})[one.transactional_id] = one
        return True

    def taken_up(self, partition: int, transactional_id: str) -> Transaction | None:
        """Return a decision that was put off, once: its partitions are to be told now."""
        return self._later.get(partition, {}).pop(transactional_id, None)

    def is_written_beside(self, partition: int, transactional_id: str) -> bool:
        """Whether the id's transaction is over in some partitions by a decision on its way."""
        return transactional_id in self._beside.get(partition, ())

    def begin(self, partition: int, one: Transaction) -> bool:
        """Have those partitions told that have not heard; return whether there are any.

        Of a decision that is put off they are told later.
        """
        if one.transactional_id in self._later.get(partition, ()):
            return True
        told = self._beside.get(partition, {}).pop(one.transactional_id, frozenset())
        left = one.partitions - told
        if not left:
            return False
        duty = self._duty(partition, one, left)
        self._left[one.transactional_id] = _Open(partition, duty, {*left})
        self._of_partition.setdefault(partition, set()).add(one.transactional_id)
        self._markers.send(partition, duty)
        return True

    def _duty(
        self, partition: int, one: Transaction, partitions: frozenset[TopicPartitionName]
    ) -> MarkerDuty:
        return MarkerDuty(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            coordinator_epoch=self._masterships.epoch_of(partition),
            is_commit=one.state is TransactionState.PREPARE_COMMIT,
            version=one.version,
            number=one.number,
            partitions=partitions,
        )

    def note(self, duty: MarkerDuty, partitions: Iterable[TopicPartitionName]) -> bool:
        """Note that partitions have heard; return whether all have, for the first time."""
        found = self._left.get(duty.transactional_id)
        if found is None or found.duty is not duty:  # transactions of version 1 may look the same
            return False
        found.left.difference_update(partitions)
        if found.left:
            return False
        del self._left[duty.transactional_id]
        others = self._of_partition[found.partition]
        others.remove(duty.transactional_id)
        if not others:
            del self._of_partition[found.partition]
        return True

    def __len__(self) -> int:
        return len(self._left) + sum(map(len, self._later.values()))

    def is_open(self, partition: int, transactional_id: str) -> bool:
        """Whether partitions of the id's transaction have yet to hear."""
        is_put_off = transactional_id in self._later.get(partition, ())
        return is_put_off or transactional_id in self._left

    def cancel(self, partition: int) -> None:
        """Forget the duties of a partition of the internal topic."""
        self._beside.pop(partition, None)
        self._later.pop(partition, None)
        for transactional_id in self._of_partition.pop(partition, ()):
            self._left.pop(transactional_id, None)
        self._markers.cancel(partition)


def cost_beside(one: Transaction) -> int:
    """Return what `write_beside` may cost, in units of portions."""
    return TO_MARK * min(len(one.partitions), BESIDE_MAX)
