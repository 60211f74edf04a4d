"""Placement: which replica set hosts a new partition, and which sets are made for it.

Without a manual assignment a partition goes to the set with the fewest partitions among those that
have as many members as the topic has replicas; at equal load to the lowest set id. With n equal
sets that is round robin. If no set has that many members, a set is made for every broker that is
neither fenced nor draining, with members on different machines and racks while there are enough
(spread.py); this topic and later ones are spread over these sets.

A manual assignment names brokers, leader first: it goes to the least loaded set with these members
whose preferred master is the first one, or to a new set.

New sets and the topic are one entry of the metadata log, and commands are handled one by one: of
two topics that need the same new sets the second one finds those of the first. Placement makes a
broker a member of at most `sets_per_broker_max` sets. A set that has lost its master gets no new
partitions, and neither does one whose members are all being drained.

Source: our own; Kafka's StripedReplicaPlacer spreads replicas over brokers, which the sets do here.
A `Placement` serves one command and counts what it has placed so far.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.replica_sets import REPLICAS_MAX
from penstock.controller.commands.spread import (
    Places,
    choose_members,
    places_of,
    spread_ring,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MetadataPolicyViolation,
)
from penstock.controller.metadata.image import NO_EPOCH, NO_MASTER, ClusterImage, ReplicaSetImage


class Placement:
    """The sets and their load, including what the current command has added."""

    __slots__ = (
        "_broker_loads",
        "_config",
        "_image",
        "_loads",
        "_made",
        "_members",
        "_per_broker_max",
    )

    def __init__(self, image: ClusterImage, config: ControllerConfig) -> None:
        self._image = image
        self._config = config
        self._per_broker_max = config.partitions_per_broker_max
        self._members = {
            ReplicaSetId(key): replica_set.replicas
            for key, replica_set in image.replica_sets.items()
        }
        self._made: dict[ReplicaSetId, tuple[BrokerId, ...]] = {}
        self._loads = {key: image.partition_counts.get(key, 0) for key in self._members}
        self._broker_loads = Counter(
            {broker_id: image.partitions_of_broker(broker_id) for broker_id in image.brokers}
        )

    def spread(self, count: int, replication_factor: int) -> tuple[ReplicaSetId, ...]:
        """Return the sets for `count` partitions, and add these to the load.

        Raises:
            InvalidReplicationFactor: no set has that many members, and none can be made.
            MetadataPolicyViolation: a broker would carry more than its limit.
        """
        drafts = _Drafts(self._members, self._config.sets_per_broker_max)
        sets = self._sets_of_size(replication_factor, drafts)
        heap = [(self._loads.get(set_id, 0), set_id) for set_id in sets]
        heapq.heapify(heap)
        chosen: list[ReplicaSetId] = []
        for _ in range(count):
            load, set_id = heap[0]
            chosen.append(set_id)
            heapq.heapreplace(heap, (load + 1, set_id))
        self._add(chosen, drafts)
        return tuple(chosen)

    def assign(self, assignments: Sequence[Sequence[BrokerId]]) -> tuple[ReplicaSetId, ...]:
        """Return the sets for these broker lists, and add the partitions to the load.

        Raises:
            InvalidReplicaAssignment: a list is empty, repeats a broker, names an unknown one, has
                another length than its neighbours, or no set with these members can be made.
            MetadataPolicyViolation: a broker would carry more than its limit.
        """
        chosen: list[ReplicaSetId] = []
        tentative = Counter[ReplicaSetId]()
        drafts = _Drafts(self._members, self._config.sets_per_broker_max)
        carriers: dict[tuple[BrokerId, ...], list[ReplicaSetId]] = {}
        for brokers in assignments:
            self._check_brokers(brokers, len(assignments[0]))
            alike = (brokers[0], *sorted(brokers))  # what a set is found by
            if alike not in carriers:
                carriers[alike] = self._sets_with(brokers, drafts)
            sets = carriers[alike]
            set_id = min(sets, key=lambda one: (self._loads.get(one, 0) + tentative[one], one))
            tentative[set_id] += 1
            chosen.append(set_id)
        self._add(chosen, drafts)
        return tuple(chosen)

    def put(self, set_id: ReplicaSetId) -> None:
        """Add a partition to the load of a set that there is. Raises MetadataPolicyViolation."""
        self._add((set_id,), _Drafts(self._members, self._config.sets_per_broker_max))

    def members(self, set_id: ReplicaSetId) -> tuple[BrokerId, ...]:
        """Return the members of a set, which this command may have made."""
        return self._members[set_id]

    def take_made(self) -> dict[ReplicaSetId, tuple[BrokerId, ...]]:
        """Return the sets made since the last call; their records go before the topic's."""
        made, self._made = self._made, {}
        return made

    def _sets_of_size(self, replication_factor: int, drafts: "_Drafts") -> list[ReplicaSetId]:
        broker_count = len(self._image.brokers)
        if replication_factor > broker_count:
            raise InvalidReplicationFactor(
                f"Replication factor {replication_factor} is larger than the number of brokers,"
                f" {broker_count}."
            )
        sets = [
            set_id
            for set_id, members in self._members.items()
            if len(members) == replication_factor and self._is_usable(set_id)
        ]
        places = places_of(self._image.brokers)
        sets = sets or drafts.ring(self._free_brokers(), replication_factor, places)
        if not sets:
            raise InvalidReplicationFactor(
                f"No replica set with {replication_factor} members can be made:"
                f" {len(self._free_brokers())} brokers are there and not being drained, and"
                f" each may be in {self._config.sets_per_broker_max} sets"
                " (controller.sets_per_broker_max)."
            )
        return sets

    def _is_usable(self, set_id: ReplicaSetId) -> bool:
        replica_set = self._image.replica_sets.get(set_id)
        if replica_set is not None and _is_lost(replica_set):
            return False
        brokers = [self._image.brokers.get(member) for member in self._members[set_id]]
        return any(broker is not None and not broker.is_draining for broker in brokers)

    def _free_brokers(self) -> list[BrokerId]:
        return [
            broker_id
            for broker_id, broker in sorted(self._image.brokers.items())
            if not broker.is_fenced and not broker.is_draining
        ]

    def _check_brokers(self, brokers: Sequence[BrokerId], replication_factor: int) -> None:
        if not brokers:
            raise InvalidReplicaAssignment("A partition is assigned to no broker.")
        if len(brokers) > REPLICAS_MAX:
            raise InvalidReplicaAssignment(
                f"A partition is assigned to {len(brokers)} brokers, more than {REPLICAS_MAX}."
            )
        if len(set(brokers)) != len(brokers):
            raise InvalidReplicaAssignment(f"The assignment {list(brokers)} repeats a broker.")
        if len(brokers) != replication_factor:
            raise InvalidReplicaAssignment("All partitions must have the same number of replicas.")
        for broker_id in brokers:
            if broker_id not in self._image.brokers:
                raise InvalidReplicaAssignment(f"Broker {broker_id} is not registered.")

    def _sets_with(self, brokers: Sequence[BrokerId], drafts: "_Drafts") -> list[ReplicaSetId]:
        """Return the sets with these members whose preferred master is the first of them."""
        wanted = sorted(brokers)
        known = {**self._members, **drafts.made}
        sets = [
            set_id
            for set_id, members in known.items()
            if sorted(members) == wanted and members[0] == brokers[0]
            if set_id in drafts.made or self._is_usable(set_id)
        ]
        if sets:
            return sets
        if not set(wanted).issubset(self._free_brokers()):
            raise InvalidReplicaAssignment(
                f"There is no usable replica set of {list(brokers)}, led by {brokers[0]}, and none"
                " can be made: not all of them are there, or one is being drained."
            )
        if not drafts.has_room(brokers):
            raise InvalidReplicaAssignment(
                f"There is no replica set of {list(brokers)}, led by {brokers[0]}, and one of them"
                f" is in {self._config.sets_per_broker_max} sets already"
                " (controller.sets_per_broker_max)."
            )
        return [drafts.make(tuple(brokers))]

    def _add(self, chosen: Iterable[ReplicaSetId], drafts: "_Drafts") -> None:
        """Check the limits of brokers, then add partitions and new sets to the load."""
        added = Counter(chosen)
        known = {**self._members, **drafts.made}
        per_broker = Counter[BrokerId]()
        for set_id, count in added.items():
            for broker_id in known[set_id]:
                per_broker[broker_id] += count
        for broker_id, count in per_broker.items():
            load = self._broker_loads[broker_id]
            if load + count > self._per_broker_max:
                raise MetadataPolicyViolation(
                    f"Broker {broker_id} carries {load} partitions; {count} more would pass its"
                    f" limit of {self._per_broker_max}."
                )
        self._broker_loads.update(per_broker)
        self._members |= drafts.made
        self._made |= drafts.made
        for set_id in drafts.made:
            self._loads[set_id] = 0
        for set_id, count in added.items():
            self._loads[set_id] += count


class _Drafts:
    """New sets that a topic would need; dropped if the topic is refused."""

    __slots__ = ("_counts", "_led", "_next_id", "_per_broker_max", "made")

    def __init__(
        self, members: Mapping[ReplicaSetId, tuple[BrokerId, ...]], per_broker_max: int
    ) -> None:
        self._counts = Counter(replica for replicas in members.values() for replica in replicas)
        self._led = {(replicas[0], len(replicas)) for replicas in members.values()}
        self._next_id = max(members, default=0) + 1
        self._per_broker_max = per_broker_max
        self.made: dict[ReplicaSetId, tuple[BrokerId, ...]] = {}

    def ring(self, brokers: list[BrokerId], size: int, places: Places) -> list[ReplicaSetId]:
        """Make a set of `size` for each broker that leads none, with its successors in the ring.

        Returns their ids; none with fewer brokers than that.
        """
        if len(brokers) < size:
            return []
        ring = spread_ring(brokers, places)
        leaders = [broker for broker in sorted(brokers) if (broker, size) not in self._led]
        wanted = [choose_members(leader, ring, size, places) for leader in leaders]
        return [self.make(members) for members in wanted if self.has_room(members)]

    def has_room(self, members: Sequence[BrokerId]) -> bool:
        return all(self._counts[member] < self._per_broker_max for member in members)

    def make(self, members: tuple[BrokerId, ...]) -> ReplicaSetId:
        set_id = ReplicaSetId(self._next_id + len(self.made))
        self.made[set_id] = members
        self._counts.update(members)
        return set_id


def _is_lost(replica_set: ReplicaSetImage) -> bool:
    """Whether the set had a master and has none; a new set has not had one yet."""
    return replica_set.master == NO_MASTER and replica_set.leader_epoch != NO_EPOCH
