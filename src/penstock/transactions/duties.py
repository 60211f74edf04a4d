"""Which partitions still have to hear how a transaction has ended.

Source: Kafka `TransactionMarkerChannelManager` (`topicPartitions` of a pending transaction).
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.transactions.messages import MarkerDuty, Markers, Tenure
from penstock.transactions.state import TopicPartitionName, Transaction, TransactionState


class _Open(NamedTuple):
    """A duty of a partition of the internal topic, and the partitions that have not heard."""

    partition: int
    duty: MarkerDuty
    left: set[TopicPartitionName]


class Duties:
    """The duties of one coordinator, by transactional id."""

    __slots__ = ("_left", "_markers", "_of_partition", "_tenure")

    def __init__(self, markers: Markers, tenure: Tenure) -> None:
        self._markers = markers
        self._tenure = tenure
        self._left: dict[str, _Open] = {}
        self._of_partition: dict[int, set[str]] = {}
        """Transactional ids with a duty, by the partition of the internal topic that has them."""

    def begin(self, partition: int, one: Transaction) -> bool:
        """Have the partitions of a transaction told; return whether there are any."""
        if not one.partitions:
            return False
        duty = MarkerDuty(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            coordinator_epoch=self._tenure.epoch_of(partition),
            is_commit=one.state is TransactionState.PREPARE_COMMIT,
            version=one.version,
            number=one.number,
            partitions=one.partitions,
        )
        self._left[one.transactional_id] = _Open(partition, duty, {*one.partitions})
        self._of_partition.setdefault(partition, set()).add(one.transactional_id)
        self._markers.send(partition, duty)
        return True

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
        return len(self._left)

    def is_open(self, transactional_id: str) -> bool:
        """Whether partitions of the id's transaction have yet to hear."""
        return transactional_id in self._left

    def cancel(self, partition: int) -> None:
        """Forget the duties of a partition of the internal topic."""
        for transactional_id in self._of_partition.pop(partition, ()):
            self._left.pop(transactional_id, None)
        self._markers.cancel(partition)
