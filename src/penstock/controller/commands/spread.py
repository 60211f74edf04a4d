"""Members of a replica set: on different machines and racks while there are enough.

    ring      brokers of one rack stand apart, and of one machine too:   a1 b1 a2 b2
    members   the leader, then its successors in the ring; one that shares a machine with a
              member, or else a rack, is passed over while another does not

Members that cannot be kept apart share a machine or rack: a set with fewer copies than configured
would be worse. `conflicts` names them.

Source: KIP-36 (racks in turn). Machines are our own: several nodes run on one, a core each. A
broker without a machine or a rack shares none with anybody.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, zip_longest
from typing import NamedTuple

from penstock.base.ids import BrokerId
from penstock.controller.metadata.image import BrokerImage


class Place(NamedTuple):
    """Where a broker runs; an empty name means unknown."""

    machine: str = ""
    rack: str = ""


NOWHERE = Place()

Places = Mapping[BrokerId, Place]
"""By broker id; a broker that is not in it shares nothing with anybody."""


def places_of(brokers: Mapping[BrokerId, BrokerImage]) -> dict[BrokerId, Place]:
    """Return where each broker runs."""
    return {key: Place(broker.machine, broker.rack or "") for key, broker in brokers.items()}


def spread_ring(broker_ids: Iterable[BrokerId], places: Places) -> list[BrokerId]:
    """Return the brokers in an order in which neighbours share no machine or rack, if possible.

    Without machines and racks it is the order of their ids.
    """
    racks: dict[str, dict[str, list[BrokerId]]] = {}
    for broker_id in sorted(broker_ids):
        place = places.get(broker_id, NOWHERE)
        machine = place.machine or f"broker {broker_id}"
        racks.setdefault(place.rack, {}).setdefault(machine, []).append(broker_id)
    return _in_turn([_in_turn(list(machines.values())) for machines in racks.values()])


def choose_members(
    leader: BrokerId, ring: Sequence[BrokerId], size: int, places: Places
) -> tuple[BrokerId, ...]:
    """Return a set of `size` led by `leader`: it and the best of its successors in the ring.

    `ring` holds the leader and at least `size` brokers.
    """
    at = ring.index(leader)
    members = [leader]
    left = [*ring[at + 1 :], *ring[:at]]
    while len(members) < size:
        apart = (one for one in left if shared(one, members, places) == (0, 0))
        best = next(apart, None)
        if best is None:
            best = min(left, key=lambda one: shared(one, members, places))  # the first of equals
        left.remove(best)
        members.append(best)
    return tuple(members)


def shared(broker_id: BrokerId, members: Iterable[BrokerId], places: Places) -> tuple[int, int]:
    """Return how many members run on the broker's machine, and how many in its rack."""
    own = places.get(broker_id, NOWHERE)
    others = [places.get(member, NOWHERE) for member in members]
    machines = sum(bool(own.machine) and own.machine == other.machine for other in others)
    racks = sum(bool(own.rack) and own.rack == other.rack for other in others)
    return machines, racks


def conflicts(members: Sequence[BrokerId], places: Places) -> Iterator[str]:
    """Yield, for people, which members of a set share a machine, and which share a rack."""
    for kind in Place._fields:
        together: dict[str, set[BrokerId]] = {}
        for one, other in combinations(members, 2):
            name = getattr(places.get(one, NOWHERE), kind)
            if name and name == getattr(places.get(other, NOWHERE), kind):
                together.setdefault(name, set()).update((one, other))
        for name, brokers in sorted(together.items()):
            yield f"brokers {', '.join(map(str, sorted(brokers)))} are on {kind} {name}"


def _in_turn(groups: list[list[BrokerId]]) -> list[BrokerId]:
    """Take one of each group, then the next of each."""
    rounds = zip_longest(*groups)
    return [one for each in rounds for one in each if one is not None]
