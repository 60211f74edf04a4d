"""Faults of the object store: the way of a host to it, and what lies in it."""

from collections.abc import Callable, Mapping
from random import Random

from penstock.tier.names import parse_name
from simulator.kernel.distant_store import Mood
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault, FaultKind

Heal = Callable[[], None]

MOODS = tuple(Mood)
"""By the amount of a fault."""


class StoreFaults:
    """See the module, and doing.py."""

    def __init__(self, cluster: SimCluster, draw: Random) -> None:
        self._cluster = cluster
        self._random = draw

    def kinds(self) -> Mapping[FaultKind, Callable[[Fault], Heal | None]]:
        """Return what begins each kind of fault."""
        return {FaultKind.STORE: self._store, FaultKind.OBJECT_FLIP: self._object_flip}

    def heal_all(self) -> None:
        """Make every way good, and every object sound."""
        store = self._cluster.store
        store.moods.clear()
        for name in store.damaged:
            store.mend(name)

    def _store(self, fault: Fault) -> Heal | None:
        if not self._cluster.shape.is_tiered:
            return None
        mood, moods = MOODS[fault.amount % len(MOODS)], self._cluster.store.moods
        hosts = self._cluster.hosts(fault.targets)
        for host in hosts:
            moods.setdefault(host, []).append(mood)

        def heal() -> None:
            for host in hosts:
                if mood in moods.get(host, ()):
                    moods[host].remove(mood)

        return heal if hosts else None

    def _object_flip(self, _: Fault) -> Heal | None:
        store = self._cluster.store
        names = [name for name in store.bucket.objects if parse_name(name) is not None]
        sound = sorted({*names} - store.damaged)
        if not sound:
            return None
        name = self._random.choice(sound)
        size = len(store.bucket.objects[name][0])
        store.flip_bit(name, self._random.randrange(size), self._random.randrange(8))
        return lambda: store.mend(name)
