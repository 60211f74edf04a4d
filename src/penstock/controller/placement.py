"""Placement: which replica set hosts a new partition.

Without a manual assignment a partition goes to the set with the fewest partitions among those that
have as many members as the topic wants replicas; at equal load to the lowest set id. With n equal
sets that is round robin. A manual assignment names brokers, and is carried by the least loaded set
whose members are exactly these. A set that has lost its master gets nothing new.

Source: our own; Kafka's StripedReplicaPlacer spreads replicas over brokers, which the sets have
done already. A `Placement` lives for one command and counts what the command placed so far.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.controller.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MetadataPolicyViolation,
)
from penstock.controller.image import NO_EPOCH, NO_MASTER, ClusterImage, ReplicaSetImage


class Placement:
    """The load of all sets with what the running command has added to it."""

    __slots__ = ("_broker_loads", "_image", "_loads", "_per_broker_max")

    def __init__(self, image: ClusterImage, per_broker_max: int) -> None:
        self._image = image
        self._per_broker_max = per_broker_max
        self._loads = dict(image.partition_counts)
        self._broker_loads = Counter(
            {broker_id: image.partitions_of_broker(broker_id) for broker_id in image.brokers}
        )

    def spread(self, count: int, replication_factor: int) -> tuple[int, ...]:
        """Return the sets for `count` partitions and count them in.

        Raises:
            InvalidReplicationFactor: no set has that many members.
            MetadataPolicyViolation: a broker would carry more than its limit.
        """
        heap = [(self._loads[set_id], set_id) for set_id in self._sets_of_size(replication_factor)]
        heapq.heapify(heap)
        chosen: list[int] = []
        for _ in range(count):
            load, set_id = heap[0]
            chosen.append(set_id)
            heapq.heapreplace(heap, (load + 1, set_id))
        self._add(chosen)
        return tuple(chosen)

    def assign(self, assignments: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Return the sets that carry these broker lists and count them in.

        Raises:
            InvalidReplicaAssignment: a list is empty, repeats a broker, names an unknown one, has
                another length than its neighbours, or no set has these members.
            MetadataPolicyViolation: a broker would carry more than its limit.
        """
        chosen: list[int] = []
        tentative = Counter[int]()
        for brokers in assignments:
            self._check_brokers(brokers, len(assignments[0]))
            sets = self._sets_with(brokers)
            set_id = min(sets, key=lambda one: (self._loads[one] + tentative[one], one))
            tentative[set_id] += 1
            chosen.append(set_id)
        self._add(chosen)
        return tuple(chosen)

    def _sets_of_size(self, replication_factor: int) -> list[int]:
        broker_count = len(self._image.brokers)
        if replication_factor > broker_count:
            raise InvalidReplicationFactor(
                f"Replication factor {replication_factor} is larger than the number of brokers,"
                f" {broker_count}."
            )
        sets = [
            set_id
            for set_id, replica_set in self._image.replica_sets.items()
            if len(replica_set.replicas) == replication_factor and not _is_lost(replica_set)
        ]
        if not sets:
            usable = [one for one in self._image.replica_sets.values() if not _is_lost(one)]
            sizes = sorted({len(one.replicas) for one in usable})
            raise InvalidReplicationFactor(
                f"No replica set has {replication_factor} members; there are sets with"
                f" {', '.join(map(str, sizes)) or 'none'}."
            )
        return sets

    def _check_brokers(self, brokers: Sequence[int], replication_factor: int) -> None:
        if not brokers:
            raise InvalidReplicaAssignment("A partition is assigned to no broker.")
        if len(set(brokers)) != len(brokers):
            raise InvalidReplicaAssignment(f"The assignment {list(brokers)} repeats a broker.")
        if len(brokers) != replication_factor:
            raise InvalidReplicaAssignment("All partitions must have the same number of replicas.")
        for broker_id in brokers:
            if broker_id not in self._image.brokers:
                raise InvalidReplicaAssignment(f"Broker {broker_id} is not registered.")

    def _sets_with(self, brokers: Sequence[int]) -> list[int]:
        wanted = sorted(brokers)
        sets = [
            set_id
            for set_id, replica_set in self._image.replica_sets.items()
            if sorted(replica_set.replicas) == wanted and not _is_lost(replica_set)
        ]
        if not sets:
            raise InvalidReplicaAssignment(f"No replica set has exactly the members {wanted}.")
        return sets

    def _add(self, chosen: Iterable[int]) -> None:
        added = Counter(chosen)
        per_broker = Counter[int]()
        for set_id, count in added.items():
            for broker_id in self._image.replica_sets[set_id].replicas:
                per_broker[broker_id] += count
        for broker_id, count in per_broker.items():
            load = self._broker_loads[broker_id]
            if load + count > self._per_broker_max:
                raise MetadataPolicyViolation(
                    f"Broker {broker_id} carries {load} partitions; {count} more would pass its"
                    f" limit of {self._per_broker_max}."
                )
        self._broker_loads.update(per_broker)
        for set_id, count in added.items():
            self._loads[set_id] += count


def _is_lost(replica_set: ReplicaSetImage) -> bool:
    """Whether the set had a master and has none; a new set has not had one yet."""
    return replica_set.master == NO_MASTER and replica_set.leader_epoch != NO_EPOCH
