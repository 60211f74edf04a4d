"""The replica sets that a cluster should have: as many per broker as it has data directories.

Every broker is preferred master of `directory_count` sets; their members are it and the next ones
in the ring, as many as the replication factor says. That spreads masters, and slaves too. The ring
is that of ids; it keeps machines and racks apart where they are known (spread.py).

    brokers 1 2 3, factor 2, one directory each:   (1 2)  (2 3)  (3 1)

Sets with fewer members do not count: they are made for topics with a smaller factor (placement.py),
and each broker should still have its own. Larger ones count. With fewer brokers than the factor no
set is planned: a set with two of three replicas would silently give less than was configured.

Source: our own; consistent hashing's successor lists have the same shape. Only the image is used:
whether a broker is alive at the moment does not change where sets belong.
"""

from collections import Counter

from penstock.base.ids import BrokerId
from penstock.controller.commands.spread import choose_members, places_of, spread_ring
from penstock.controller.metadata.image import ClusterImage


def plan_sets(image: ClusterImage, replication_factor: int) -> tuple[tuple[BrokerId, ...], ...]:
    """Return the members of the sets that are missing, preferred master first."""
    places = places_of(image.brokers)
    able = [
        broker_id
        for broker_id, broker in image.brokers.items()
        if not broker.is_fenced and not broker.is_draining
    ]
    ring = spread_ring(able, places)
    if len(ring) < replication_factor:
        return ()
    large = [
        replica_set
        for replica_set in image.replica_sets.values()
        if len(replica_set.replicas) >= replication_factor
    ]
    counts = Counter(one.replicas[0] for one in large)
    missing: list[tuple[BrokerId, ...]] = []
    for broker_id in sorted(ring):
        wanted = image.brokers[broker_id].directory_count - counts[broker_id]
        if wanted > 0:  # called often, and a set is rarely missing
            missing += [choose_members(broker_id, ring, replication_factor, places)] * wanted
    return tuple(missing)
