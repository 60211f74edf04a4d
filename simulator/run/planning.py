"""Draws a seed's plan: the cluster, and the faults with their times.

Faults begin every 0.3 to 1.5 s and may overlap. Kinds are drawn with weights: those that have found
the most bugs in such systems are the most frequent, kills and partitions of leaders. The shape is
drawn too: layout, members of a set, policy, segment size.

    all hosts      combined: n1 n2 n3 (broker and controller)     apart: b1 b2 b3, c1 c2 c3

Damage (a lying sync, a flipped bit) is injected on one host of a run, with no other fault from
2.5 s before until 3 s after it: a copy can be repaired only while the others are whole. Variants
that only some seeds have are in variants.py.

Source: the twelve scenarios of the published chaos runs of RocketMQ's controller mode (kill, pause,
80 % loss, partition, ring, bridge, each on brokers, controllers and both) and the kinds they lack.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from simulator.faults.disk_faults import FULL_AT
from simulator.faults.voter_faults import REFUSALS
from simulator.run.plan import DAMAGE, Fault, FaultKind, Plan, Shape
from simulator.run.variants import varied

GAP_MS = (300, 1_500)
LASTING_MS = (100, 2_500)
DAMAGE_SHARE = 0.05
ALONE_BEFORE_MS, ALONE_AFTER_MS = 2_500, 3_000


def hosts_of(shape: Shape) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (hosts with a broker, hosts with a controller)."""
    if shape.is_apart:
        return ("b1", "b2", "b3"), ("c1", "c2", "c3")
    return ("n1", "n2", "n3"), ("n1", "n2", "n3")


def make_plan(seed: int, *, faults: int = 12) -> Plan:
    """Return the plan of a seed with about this many faults."""
    draw = random.Random(f"plan-{seed}")  # noqa: S311  reproducible on purpose
    shape = make_shape(draw)
    return varied(Plan(seed=seed, shape=shape, faults=_faults(draw, shape, faults)))


def make_shape(draw: random.Random) -> Shape:
    """Draw a cluster."""
    replication_factor = draw.choices((3, 2), (3, 1))[0]
    policies = ("all", "quorum", "k-of-n", "adaptive") if replication_factor == 3 else ("all",)
    weights = (6, 2, 1, 1)[: len(policies)]
    policy = draw.choices(policies, weights)[0]
    retention_bytes = draw.choice((-1, -1, 40_000))
    return Shape(
        is_apart=draw.random() < 0.4,
        replication_factor=replication_factor,
        policy=policy,
        min_insync_replicas=draw.choices((1, 2), (2, 1))[0],
        partitions=draw.choice((1, 2, 3)),
        producers=draw.choice((1, 2)),
        pipeline=draw.choice((1, 2, 4)),
        stock_clients=draw.random() < 0.1 and retention_bytes < 0,
        segment_bytes=draw.choice((65_536, 131_072, 1_048_576)),
        snapshot_after_bytes=draw.choice((2_048, 16_384, 4 << 20)),
        preferred_master_delay_ms=draw.choice((-1, 500, 2_000)),
        records_per_second=draw.choice((20, 60, 100)),
        retention_bytes=retention_bytes,
        is_churning=draw.random() < 0.4,
    )


def _faults(draw: random.Random, shape: Shape, count: int) -> tuple[Fault, ...]:
    menu = Menu(draw, shape)
    at_ms, quiet_ms = 0, 0
    found: list[Fault] = []
    for _ in range(count):
        if draw.random() < DAMAGE_SHARE:
            fault = menu.damage(max(at_ms, quiet_ms + ALONE_BEFORE_MS))
            at_ms = fault.end_ms + ALONE_AFTER_MS
        else:
            fault = menu.draw(at_ms)
            at_ms += draw.randint(*GAP_MS)
        quiet_ms = max(quiet_ms, fault.end_ms)
        found.append(fault)
    return tuple(found)


@dataclass(slots=True)
class Menu:
    """What can be ordered for a shape."""

    random: random.Random
    shape: Shape
    damaged_host: str = ""
    """Whose disk loses or changes what is on it, of this run; drawn with the first such fault."""

    def draw(self, at_ms: int) -> Fault:
        """Draw one fault that begins at `at_ms`."""
        menu = self._weights()
        make, _ = self.random.choices(menu, [weight for _, weight in menu])[0]
        return make(at_ms)

    def _weights(self) -> tuple[tuple[Callable[[int], Fault], int], ...]:
        return (
            (self.kill, 20),
            (self.power_off, 10),
            (self.pause, 12),
            (self.partition, 14),
            (self.one_way, 6),
            (self.ring, 4),
            (self.bridge, 4),
            (self.loss, 8),
            (self.latency, 6),
            (self.resets, 6),
            (self.slow_sync, 4),
            (self.sync_error, 4),
            (self.disk_full, 3),
            (self.write_error, 2),
            (self.read_error, 2),
            (self.full_at, 5),
            (self.disk_lost, 4),
            (self.stop, 6),
            (self.suspend, 4),
            (self.clock_step, 2),
            (self.voter_wiped, 4 if self.shape.is_apart else 0),
            (self.metadata_disk, 3),
            (self.change_voters, 3),
            (self.transfer, 4),
            (self.elect, 2),
            (self.policy, 2),
            (self.replace, 3),
            (self.drain, 2),
            (self.status, 1),
        )

    # --- processes -----------------------------------------------------------------------------

    def kill(self, at_ms: int) -> Fault:
        """End one, a majority or all with kill -9."""
        return self._fault(FaultKind.KILL, at_ms, self._victims())

    def power_off(self, at_ms: int) -> Fault:
        """Power loss of one, of a majority, of all."""
        return self._fault(FaultKind.POWER_OFF, at_ms, self._victims())

    def pause(self, at_ms: int) -> Fault:
        """SIGSTOP of one, of a majority, of all controllers."""
        return self._fault(FaultKind.PAUSE, at_ms, self._victims())

    def _victims(self) -> tuple[str, ...]:
        brokers, controllers = hosts_of(self.shape)
        both = tuple(dict.fromkeys((*brokers, *controllers)))
        role = self.random.choices(
            ("master", "slave", "active", "any", "most-brokers", "most-controllers", "most", "all"),
            (8, 3, 4, 3, 3, 2, 2, 2),
        )[0]
        chosen: dict[str, tuple[str, ...]] = {
            "active": ("active",),
            "any": (self.random.choice(both),),
            "most-brokers": self._some(brokers, 2),
            "most-controllers": self._some(controllers, self.random.choice((2, 3))),
            "most": tuple(dict.fromkeys(self._some(brokers, 2) + self._some(controllers, 2))),
            "all": both,
        }
        return chosen.get(role, (f"{role}:{self._set()}",))

    def _some(self, hosts: tuple[str, ...], count: int) -> tuple[str, ...]:
        return tuple(sorted(self.random.sample(hosts, count)))

    def _set(self) -> int:
        return self.random.randrange(3)

    # --- network -------------------------------------------------------------------------------

    def partition(self, at_ms: int) -> Fault:
        """Cut the servers into two sides; often the leader is alone."""
        return self._fault(FaultKind.PARTITION, at_ms, *self._sides())

    def one_way(self, at_ms: int) -> Fault:
        """One side is heard by the other and hears nothing, or the reverse."""
        one, other = self._sides()
        if self.random.random() < 0.5:
            one, other = other, one
        return self._fault(FaultKind.ONE_WAY, at_ms, one, other)

    def ring(self, at_ms: int) -> Fault:
        """Majorities ring."""
        hosts = list(self._servers())
        self.random.shuffle(hosts)
        return self._fault(FaultKind.RING, at_ms, tuple(hosts))

    def bridge(self, at_ms: int) -> Fault:
        """Two halves, and one host that sees both."""
        hosts = list(self._servers())
        self.random.shuffle(hosts)
        half = (len(hosts) - 1) // 2
        return self._fault(FaultKind.PARTITION, at_ms, tuple(hosts[:half]), tuple(hosts[half:-1]))

    def loss(self, at_ms: int) -> Fault:
        """Most packets get lost."""
        return self._fault(FaultKind.LOSS, at_ms, *self._sides(), amount=80)

    def latency(self, at_ms: int) -> Fault:
        """Packets are late."""
        amount = self.random.randint(50, 400)
        return self._fault(FaultKind.LATENCY, at_ms, *self._sides(), amount=amount)

    def resets(self, at_ms: int) -> Fault:
        """Connections are reset every now and then."""
        return self._fault(FaultKind.RESETS, at_ms, *self._sides())

    def _servers(self) -> tuple[str, ...]:
        """Who the network fault is between: brokers, controllers, or all."""
        brokers, controllers = hosts_of(self.shape)
        both = tuple(dict.fromkeys((*brokers, *controllers)))
        return self.random.choice((brokers, controllers, both, both))

    def _sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return two sides of all servers; a role stands for its host, on one side only."""
        brokers, controllers = hosts_of(self.shape)
        kind = self.random.choices(("master", "active", "halves", "planes"), (4, 2, 4, 1))[0]
        if kind == "planes" and self.shape.is_apart:
            return brokers, controllers
        if kind in {"master", "active"}:
            role = f"master:{self._set()}" if kind == "master" else "active"
            return (role,), ("*",)
        hosts = self._servers()
        some = self._some(hosts, self.random.randint(1, len(hosts) - 1))
        return some, tuple(host for host in hosts if host not in some)

    # --- disk and operator ---------------------------------------------------------------------

    def slow_sync(self, at_ms: int) -> Fault:
        """A disk that takes its time."""
        amount = self.random.choice((50, 200, 1_000))
        return self._fault(FaultKind.SLOW_SYNC, at_ms, self._one(), amount=amount)

    def damage(self, at_ms: int) -> Fault:
        """One of: a disk that says that it has written and has not, and then the power goes;
        a bit that turns over on it.
        """
        return Fault(
            kind=self.random.choice(DAMAGE),
            at_ms=at_ms,
            lasting_ms=self.random.randint(200, 1_000),
            targets=(self._damaged(),),
        )

    def sync_error(self, at_ms: int) -> Fault:
        """A sync fails."""
        return self._fault(FaultKind.SYNC_ERROR, at_ms, self._one())

    def disk_full(self, at_ms: int) -> Fault:
        """No space left on one host."""
        return self._fault(FaultKind.DISK_FULL, at_ms, self._one())

    def write_error(self, at_ms: int) -> Fault:
        """A write fails, one of the next."""
        after = self.random.randrange(20)
        return self._fault(FaultKind.WRITE_ERROR, at_ms, self._one(), amount=after)

    def read_error(self, at_ms: int) -> Fault:
        """Some reads fail, and nothing comes from memory."""
        return self._fault(FaultKind.READ_ERROR, at_ms, self._one())

    def full_at(self, at_ms: int) -> Fault:
        """No space for one purpose."""
        purpose = self.random.randrange(len(FULL_AT))
        return self._fault(FaultKind.FULL_AT, at_ms, self._one(), amount=purpose)

    def disk_lost(self, at_ms: int) -> Fault:
        """A new disk, on the one host of the run whose disk has trouble of that sort."""
        return self._fault(FaultKind.DISK_LOST, at_ms, (self._damaged(),))

    def stop(self, at_ms: int) -> Fault:
        """SIGTERM of one, of a majority, of all."""
        return self._fault(FaultKind.STOP, at_ms, self._victims())

    def suspend(self, at_ms: int) -> Fault:
        """A machine is suspended, including its clock."""
        return self._fault(FaultKind.SUSPEND, at_ms, self._one())

    def clock_step(self, at_ms: int) -> Fault:
        """A wall clock is wrong by a second, an hour or a month."""
        amount = self.random.choice((1_000, 3_600_000, 2_592_000_000))
        amount *= self.random.choice((1, -1))
        return self._fault(FaultKind.CLOCK_STEP, at_ms, self._one(), amount=amount)

    def voter_wiped(self, at_ms: int) -> Fault:
        """A controller that is no broker comes back with an empty disk."""
        return self._fault(FaultKind.VOTER_WIPED, at_ms, self._controller())

    def metadata_disk(self, at_ms: int) -> Fault:
        """An operation on a metadata log fails."""
        refusal = self.random.randrange(len(REFUSALS))
        return self._fault(FaultKind.METADATA_DISK, at_ms, self._controller(), amount=refusal)

    def change_voters(self, at_ms: int) -> Fault:
        """A controller without a vote for a while."""
        return self._fault(FaultKind.CHANGE_VOTERS, at_ms, self._controller())

    def _controller(self) -> tuple[str, ...]:
        """Return the role of the leader, or one host by name."""
        _, controllers = hosts_of(self.shape)
        return (self.random.choice(("active", *controllers)),)

    def transfer(self, at_ms: int) -> Fault:
        """A planned transfer."""
        return self._wish(FaultKind.TRANSFER, at_ms, 0)

    def elect(self, at_ms: int) -> Fault:
        """An election that an operator asks for."""
        return self._wish(FaultKind.ELECT, at_ms, 0)

    def policy(self, at_ms: int) -> Fault:
        """Another policy for a while."""
        return self._wish(FaultKind.POLICY, at_ms, self.random.randint(*LASTING_MS))

    def replace(self, at_ms: int) -> Fault:
        """A member is removed and added again."""
        return self._wish(FaultKind.REPLACE, at_ms, self.random.randint(*LASTING_MS))

    def drain(self, at_ms: int) -> Fault:
        """A broker without duties for a while."""
        return self._wish(FaultKind.DRAIN, at_ms, self.random.randint(*LASTING_MS))

    def status(self, at_ms: int) -> Fault:
        """An operator reads the state of the cluster."""
        return self._wish(FaultKind.STATUS, at_ms, 0)

    def _wish(self, kind: FaultKind, at_ms: int, lasting_ms: int) -> Fault:
        amount = self._set()
        return Fault(kind=kind, at_ms=at_ms, lasting_ms=lasting_ms, targets=(), amount=amount)

    def _damaged(self) -> str:
        if not self.damaged_host:
            self.damaged_host = self.random.choice(hosts_of(self.shape)[0])
        return self.damaged_host

    def _one(self) -> tuple[str, ...]:
        brokers, controllers = hosts_of(self.shape)
        any_host = self.random.choice(tuple(dict.fromkeys((*brokers, *controllers))))
        return (self.random.choice((f"master:{self._set()}", f"slave:{self._set()}", any_host)),)

    def _fault(
        self,
        kind: FaultKind,
        at_ms: int,
        targets: tuple[str, ...],
        others: tuple[str, ...] = (),
        *,
        amount: int = 0,
    ) -> Fault:
        lasting_ms = self.random.randint(*LASTING_MS)
        return Fault(
            kind=kind,
            at_ms=at_ms,
            lasting_ms=lasting_ms,
            targets=targets,
            others=others,
            amount=amount,
        )
