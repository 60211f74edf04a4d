"""The scenarios: which row of the published ones each is, whom it hits, and what it promises.

    promise   meaning                                                   measured from
    NEVER     writes never stop                                         the fault
    ELECTION  writes come back while the fault lasts                    the fault
    HEAL      writes come back once it is mended                        the mending

APART: three brokers and three controllers, six hosts. INSIDE: three nodes with controllers in them.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from reliability.faults import chaos_network as network
from reliability.faults.chaos_disk import Failing, Full, Lying, Slow, Unpowered
from reliability.faults.chaos_process import Cramped, Jumped, Killed, Starved, Stopped, Unhandled
from reliability.faults.chaos_stage import Injection, Stage


class Layout(Enum):
    """Where the controllers are."""

    APART = "apart"
    INSIDE = "combined"


class Promise(Enum):
    """When writes go on; with the seconds within which every client has to notice that."""

    NEVER = ("never stop", 15.0)
    ELECTION = ("come back during the fault", 30.0)
    HEAL = ("come back after it", 60.0)

    @property
    def seconds(self) -> float:
        """How long every client may wait at most."""
        return self.value[1]

    @property
    def text(self) -> str:
        """What it says, for the report."""
        return self.value[0]


class Need(Enum):
    """What a scenario can not do without."""

    WORLD = "network namespaces and loop disks"
    TAMPERING = "strace"
    GROUPS = "control groups"
    CLOCK = "a C compiler"


class Scenario(NamedTuple):
    """One kind of fault."""

    name: str
    row: str
    """Of the published scenarios; '+' for what they lack."""
    promise: Promise
    make: Callable[[Stage], Injection]
    layouts: frozenset[Layout] = frozenset(Layout)
    needs: frozenset[Need] = frozenset()
    may_end: bool = False
    """Whether a process that is hit may end by itself."""


_APART = frozenset({Layout.APART})
_WORLD = frozenset({Need.WORLD})


def _most_controllers(stage: Stage) -> tuple[int, ...]:
    """Return a random majority, and every other time all."""
    ids = stage.controllers
    return stage.majority(ids) if stage.chooser.random() < 0.5 else ids


def _most_of_both(stage: Stage) -> tuple[int, ...]:
    """Return a majority of the brokers, and one of the controllers where they are apart."""
    others = stage.majority(stage.controllers) if stage.controllers else ()
    return (*stage.majority(stage.brokers), *others)


def _leader_and_active(stage: Stage) -> tuple[int, ...]:
    return tuple(sorted({stage.leader(), stage.active_controller()}))


Hit = type[Killed] | type[Stopped]


def _ended(word: str, rows: tuple[str, str, str], hit: Hit) -> tuple[Scenario, ...]:
    """Return the scenarios of kill -9, or of SIGSTOP."""
    never, election, heal = Promise.NEVER, Promise.ELECTION, Promise.HEAL
    return (
        Scenario(
            f"{word}-brokers", rows[0], election, lambda s: hit(s, s.majority(s.brokers)), _APART
        ),
        Scenario(
            f"{word}-controllers", rows[1], never, lambda s: hit(s, _most_controllers(s)), _APART
        ),
        Scenario(f"{word}-both", rows[2], heal, lambda s: hit(s, _most_of_both(s))),
        Scenario(f"{word}-leader", "+", election, lambda s: hit(s, (s.leader(),))),
        Scenario(f"{word}-active", "+", never, lambda s: hit(s, (s.active_controller(),)), _APART),
        Scenario(
            f"{word}-leader-and-active",
            "+",
            election,
            lambda s: hit(s, _leader_and_active(s)),
            _APART,
        ),
    )


def _networks() -> tuple[Scenario, ...]:
    never, heal = Promise.NEVER, Promise.HEAL

    def on(
        name: str,
        row: str,
        promise: Promise,
        make: Callable[[Stage], Injection],
        layouts: frozenset[Layout] = frozenset(Layout),
    ) -> Scenario:
        return Scenario(name, row, promise, make, layouts, _WORLD)

    return (
        on("loss-brokers", "C-7", heal, lambda s: network.loss(s, s.brokers, s.brokers), _APART),
        on(
            "loss-controllers",
            "C-8",
            never,
            lambda s: network.loss(s, s.controllers, s.controllers),
            _APART,
        ),
        on(
            "loss-between", "C-9", heal, lambda s: network.loss(s, s.brokers, s.controllers), _APART
        ),
        on(
            "loss-nodes",
            "C-7+8+9",
            heal,
            lambda s: network.loss(s, s.brokers, s.brokers),
            frozenset({Layout.INSIDE}),
        ),
        on("partition-brokers", "C-10", heal, lambda s: network.partition(s, s.brokers), _APART),
        on(
            "partition-controllers",
            "C-11",
            never,
            lambda s: network.partition(s, s.controllers),
            _APART,
        ),
        on("partition-both", "C-12", heal, lambda s: network.partition(s, s.everybody)),
        on("ring", "C-13", heal, lambda s: network.ring(s, s.everybody)),
        on("bridge", "C-14", heal, lambda s: network.bridge(s, s.everybody)),
        on("one-way", "+", heal, lambda s: network.one_way(s, s.everybody)),
        on("delay", "+", heal, lambda s: network.delay(s, s.everybody)),
        on("resets", "+", never, lambda s: network.reset(s, s.everybody)),
    )


def _disks() -> tuple[Scenario, ...]:
    election, heal = Promise.ELECTION, Promise.HEAL
    strace = _WORLD | {Need.TAMPERING}
    both = frozenset(Layout)
    return (
        Scenario("disk-full", "+", heal, lambda s: Full(s, s.leader()), both, _WORLD, True),
        Scenario("eio", "+", heal, lambda s: Failing(s, s.leader()), both, strace, True),
        Scenario("slow-sync", "+", heal, lambda s: Slow(s, s.leader()), both, strace),
        Scenario(
            "lying-sync", "+", election, lambda s: Lying(s, s.one(s.brokers)), both, strace, True
        ),
        Scenario(
            "power-one", "+", election, lambda s: Unpowered(s, (s.leader(),)), both, _WORLD, True
        ),
        Scenario("power-all", "+", heal, lambda s: Unpowered(s, s.everybody), both, _WORLD, True),
    )


def _starved() -> tuple[Scenario, ...]:
    heal, both = Promise.HEAL, frozenset(Layout)
    groups = frozenset({Need.WORLD, Need.GROUPS})
    clock = frozenset({Need.WORLD, Need.CLOCK})
    return (
        Scenario("clock", "+", Promise.NEVER, lambda s: Jumped(s, s.one(s.brokers)), both, clock),
        Scenario("cpu", "+", heal, lambda s: Starved(s, s.leader()), both, groups),
        Scenario("memory", "+", heal, lambda s: Cramped(s, s.leader()), both, groups, True),
        Scenario("descriptors", "+", heal, lambda s: Unhandled(s, s.leader()), both, _WORLD),
    )


SCENARIOS = {
    one.name: one
    for one in (
        *_ended("kill", ("C-1", "C-2", "C-3"), Killed),
        *_ended("stop", ("C-4", "C-5", "C-6"), Stopped),
        *_networks(),
        *_disks(),
        *_starved(),
    )
}
