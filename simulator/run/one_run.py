"""One run: form a cluster, write and read, inject faults, check everything.

    form ─► write ─► faults (safety is checked throughout) ─► heal ─► liveness ─► read all ─► judge

The same plan gives the same run, callback by callback, in any process and with any hash seed. A run
ends at the first violated invariant.

Source: the split into safety under faults and liveness after them is TigerBeetle's VOPR.
"""

import asyncio
import importlib
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.controller.metadata.image import NO_MASTER, ReplicaSetImage
from penstock.node.node import Node
from simulator.checks.audited import Lives
from simulator.checks.equal_state import differences, kept_for_long
from simulator.checks.final_maps import judge_maps, read_logs
from simulator.checks.groups.states import GroupStates
from simulator.checks.invariants import Invariants
from simulator.checks.pages import Pages
from simulator.checks.remains import Remains
from simulator.checks.tier.at_rest import TierAtRest
from simulator.checks.tier.promises import TierPromises
from simulator.clients.all_clients import Clients
from simulator.clients.grpc.cast import GrpcCast
from simulator.clients.grpc.soon import renewed_soon
from simulator.clients.keyed import TOPIC as KEYED_TOPIC
from simulator.clients.remoting.cast import RemotingCast
from simulator.clients.shares.sharers import LOCK_MS
from simulator.clients.world import now_ns
from simulator.faults.doing import Faults, Heal
from simulator.faults.store_switches import switched_keys
from simulator.history import LOSSES
from simulator.history.remoting.events import Clock
from simulator.kernel.loop import BoundExceeded, Deadlock
from simulator.kernel.simulation import Simulation, simulate
from simulator.run.cluster import NotFormed, SimCluster
from simulator.run.last_scrub import LastScrub
from simulator.run.plan import OPERATIONS, Fault, FaultKind, Plan
from simulator.run.server import Server
from simulator.run.topology import (
    LEASE_MS,
    ROOT,
    ROOTS_PASSWORD,
    TOKENS_FILE,
    TOKENS_SECRET,
    USERS_FILE,
    WALL_START_MS,
    clock_rate,
)
from simulator.trials.raft_walks import RaftWalks

LOOK_SECONDS = 0.03
LIVENESS_SECONDS = 20.0
"""After everything is healed: until all is answered, all is read, all replicas are equal."""
REMOTING_SECONDS = 10.0
"""More, for what is delayed, or asked for by its master alone."""
GRPC_SECONDS = 20.0
"""And for what nobody else gets for ten seconds."""
IN_STEP_SECONDS = 5.0
"""After an operator's wish on a sound cluster."""
WISH_SECONDS = 0.3
NOT_WISHED = frozenset({FaultKind.CHANGE_VOTERS, FaultKind.SPREAD, FaultKind.TRIAL}).union(
    {FaultKind.LEVEL, FaultKind.GIVE_UP, FaultKind.NO_COPIES}
)
WISHES = tuple(one for one in OPERATIONS if one not in NOT_WISHED)
SCHEDULE_SECONDS = 0.002
SECRET = b"the simulated cluster's secret\n"
STEPS_MAX = 20_000_000


@dataclass(slots=True, kw_only=True)
class RunResult:
    """What a run came to. Equal plans give equal results, but for `cpu_s`."""

    plan: Plan
    digest: str = ""
    steps: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    """Kind -> how often it hit something."""
    missed: int = 0
    """Faults that hit nothing, and do not count."""
    sent: int = 0
    acked: int = 0
    refused: int = 0
    """Sent with a replaced epoch or out of order, and refused as it should."""
    read: int = 0
    checks: int = 0
    findings: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    """What happened, for people to read."""

    @property
    def fault_count(self) -> int:
        """Faults that hit something; what operators ask for is none, and may be refused."""
        return sum(count for kind, count in self.faults.items() if kind not in OPERATIONS)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.findings


Schedule = Callable[["Run"], Coroutine[Any, Any, None]]
"""What is done to the cluster of a run, where a plan can not say it."""


def run_plan(plan: Plan, schedule: Schedule | None = None) -> RunResult:
    """Run a plan and judge it; a `schedule` is followed after the plan's faults."""
    result = RunResult(plan=plan)
    if plan.shape.stock_clients:
        # What it hashes is replaced for the run, and only in modules that are there by then.
        importlib.import_module("simulator.clients.stock")
    begun_s = time.process_time()
    with tempfile.TemporaryDirectory(prefix="penstock-sim-") as directory:
        secret_file = Path(directory) / "secret"
        secret_file.write_bytes(SECRET)
        secret_file.chmod(0o600)
        users_file = secret_file.parent / USERS_FILE
        users_file.write_text(f"{ROOT}:{ROOTS_PASSWORD}\n")
        users_file.chmod(0o600)
        tokens_file = secret_file.parent / TOKENS_FILE
        tokens_file.write_text(f"{TOKENS_SECRET}\n")
        tokens_file.chmod(0o600)

        async def story(simulation: Simulation) -> None:
            run = Run(simulation, plan, secret_file, result)
            garbled = run.cluster.garbled.at_work()
            stale = run.cluster.stale.at_work(run.invariants.tell)
            hearing = run.invariants.hearing(run.cluster.servers), run.tier.hearing()
            with garbled, stale, hearing[0], hearing[1], renewed_soon():
                await run.whole(schedule)

        try:
            outcome = simulate(plan.seed, story, steps_max=STEPS_MAX)
        except (Deadlock, BoundExceeded, NotFormed) as error:
            result.findings.append(f"{type(error).__name__}: {error}")
        else:
            result.digest, result.steps = outcome.digest, outcome.steps
            result.virtual_s = outcome.seconds
            result.findings += [
                f"{failure.at_s:.3f} {failure.process}: {failure.message}: {failure.error!r}"
                for failure in outcome.failures
            ]
    result.cpu_s = time.process_time() - begun_s
    return result


class NotReached(Exception):
    """A schedule did not come to where it wanted to."""


class Run:
    """See the module."""

    def __init__(
        self, simulation: Simulation, plan: Plan, secret_file: Path, result: RunResult
    ) -> None:
        self.simulation = simulation
        self._plan = plan
        self._result = result
        self.cluster = SimCluster(simulation, plan.shape, secret_file)
        self.clients = Clients(simulation, plan.shape, self.cluster.brokers)
        self.invariants = Invariants(lambda: simulation.now_s)
        self.tier = TierPromises(self.cluster.store, self.invariants.tell)
        self.pages = Pages(lambda: simulation.now_s, self.invariants.tell)
        self.raft_walks = RaftWalks(simulation.random("raft walks"), self.invariants.tell)
        self.faults = Faults(self.cluster, simulation.random("faults"))
        self.clients.given_up = self.faults.switches.given_up
        self.clients.switched_keys = switched_keys(plan)
        self.tier.give_ups = self.cluster.give_ups
        self._lives = Lives()
        for server in self.cluster.servers.values():
            server.on_started = self._on_started

    def _on_started(self, server: Server) -> None:
        self._lives.started(server, self.simulation.loop.time())
        self.invariants.attach(server)

    async def whole(self, schedule: Schedule | None) -> None:
        """Run the plan from beginning to end; the result has the findings."""
        looking = asyncio.get_running_loop().create_task(self._look())
        is_read = False
        try:
            self.cluster.start()
            await self.cluster.form()
            await self.clients.create_topic()
            self.clients.start()
            await asyncio.sleep(self._plan.settle_ms / 1_000)
            await self._break_things()
            if schedule is not None:
                await schedule(self)
            self.raft_walks.walk(self.cluster.servers.values())
            if not self._has_finding:
                is_read = await self._come_to_rest()
        finally:
            if looking.done() and not looking.cancelled():
                self._found([f"looking has failed: {looking.exception()!r}"])
            looking.cancel()
            self._conclude(is_read=is_read)

    @property
    def _has_finding(self) -> bool:
        return bool(self.invariants.findings or self._complaints())

    def _complaints(self) -> list[str]:
        return [text for server in self.cluster.servers.values() for text in server.complaints]

    async def _look(self) -> None:
        while True:
            self.invariants.look(list(self.cluster.servers.values()))
            self.pages.look(self.cluster.servers.values())
            await asyncio.sleep(LOOK_SECONDS)

    # --- faults --------------------------------------------------------------------------------

    async def _break_things(self) -> None:
        loop = self.simulation.loop
        begun_s = loop.time()
        counts: Counter[str] = Counter()
        for fault in self._plan.faults:
            await asyncio.sleep(max(0.0, begun_s + fault.at_ms / 1_000 - loop.time()))
            if self._has_finding:
                break
            heal = self.faults.begin(fault)
            if heal is None:
                self._result.missed += 1
                continue
            counts[fault.kind] += 1
            loop.call_at(begun_s + fault.end_ms / 1_000, self._heal, fault, heal)
        self._result.faults = dict(counts)
        await self._while(lambda: loop.time() < begun_s + self._plan.end_ms / 1_000)

    def _heal(self, fault: Fault, heal: Heal) -> None:
        self.simulation.note("fault ends", str(fault))
        heal()

    # --- rest ----------------------------------------------------------------------------------

    def _walls_apart_s(self) -> float:
        """Return how far apart wall clocks are: a lock by a fast one ends late by a slow one."""
        rates = [clock_rate(one.host, self._plan.shape) for one in self.cluster.servers.values()]
        return (max(rates) - min(rates)) * asyncio.get_running_loop().time()

    async def _come_to_rest(self) -> bool:
        """Heal, and see everything become available; returns whether all was read."""
        self.simulation.note("heal")
        self.faults.heal_all()
        self.clients.quiet_from_ns = now_ns()
        deadline_s = self.simulation.now_s + LIVENESS_SECONDS
        if self._plan.shape.sharers:
            deadline_s += LOCK_MS / 1_000
        await asyncio.sleep(LOOK_SECONDS)
        self.clients.stop_writing()
        await self._while(lambda: not self.clients.is_idle, deadline_s)
        self._found("writes do not come back: " + text for text in self.clients.stuck())
        await self._while(lambda: bool(self._not_equal()), deadline_s)
        await self._while(LastScrub(self.cluster.servers.values()).hurry, deadline_s)
        await self._while(lambda: bool(self._damaged_files()), deadline_s)
        self._found("not repaired: " + text for text in self._damaged_files())
        await self._while(lambda: bool(self._not_equal()), deadline_s)
        self._found("replicas are not equal: " + text for text in self._not_equal())
        clients, ends = self.clients, self.clients.acked_ends()
        await self._see_done("read", lambda: clients.behind(ends), deadline_s)
        await self._see_done("read", lambda: clients.groups.behind(ends), deadline_s)
        await self._see_done("decided", clients.transactions_behind, deadline_s)
        await self._see_done("settled", clients.sharers.behind, deadline_s + self._walls_apart_s())
        await self._see_done("assigned", clients.tasks_behind, deadline_s)
        for cast, more_s in self._rocketmq():
            later_s = deadline_s + self._walls_apart_s() + more_s
            await self._see_done("settled", cast.behind, later_s)
        await self._see_done("known", clients.access_behind, deadline_s)
        await self._see_done("written", self._rows_behind, deadline_s)
        newer = self.faults.newer
        # What came before may have taken all the time, and partitions are loaded for this.
        await self._while(newer.look, self.simulation.now_s + IN_STEP_SECONDS)
        self._found(newer.missing())
        if self._plan.faults:
            await self._operate()
        self._found(self.faults.upkeep.wrong)
        await self._look_at_remains()
        if self._plan.shape.is_tiered:
            await self._look_at_tier()
        if self.clients.keyed is not None:
            maps = await read_logs(self.cluster.servers.values(), KEYED_TOPIC)
            self._found(judge_maps(maps, self.clients.keyed.values))
        reading = self.clients.read_all()
        # What came before may have taken most of the time: this has its own.
        await self._while(lambda: reading.is_alive, self.simulation.now_s + LIVENESS_SECONDS)
        if reading.is_alive:
            self._found(["the final reader does not come to the end"])
        self.invariants.look(list(self.cluster.servers.values()), is_final=True)
        return not reading.is_alive

    def _rocketmq(self) -> Iterator[tuple[RemotingCast | GrpcCast, float]]:
        """Yield RocketMQ's clients, and how much longer it may take until all is settled."""
        if self.clients.remoting is not None:
            yield self.clients.remoting, REMOTING_SECONDS
        if self.clients.grpc is not None:
            yield self.clients.grpc, GRPC_SECONDS

    async def _see_done(
        self, what: str, behind: Callable[[], Iterable[str]], deadline_s: float
    ) -> None:
        """Wait until nothing is behind; what still is by then is a finding each."""
        await self._while(lambda: any(behind()), deadline_s)
        self._found(f"not {what} in time: {text}" for text in behind())

    def _rows_behind(self) -> list[str]:
        """Name what brokers have to write to topics of rows and have not written yet."""
        servers = self.cluster.servers
        by_id = {node: servers[host] for node, host in self.cluster.brokers.items()}
        counts_on = partial(self._lives.counts_on, by_id, self.cluster.newest_image())
        readers = self.clients.rows.readers
        return [text for one in readers for text in islice(one.behind(counts_on), 1)]

    async def _operate(self) -> None:
        """Ask a sound cluster for what operators ask for; it is in step again within a bound."""
        draw = self.simulation.random("operators at the end")
        for kind in draw.sample(WISHES, 2):
            if self._has_finding or self._result.findings:
                return
            wish = Fault(kind=kind, at_ms=0, lasting_ms=0, targets=(), amount=draw.randrange(3))
            heal = self.faults.begin(wish)
            await asyncio.sleep(WISH_SECONDS)
            if heal is not None:
                heal()
            await asyncio.sleep(LOOK_SECONDS)
            deadline_s = self.simulation.now_s + IN_STEP_SECONDS
            await self._while(lambda: bool(self._not_equal()), deadline_s)
            self._found(f"not in step after {wish.kind}: {text}" for text in self._not_equal())
            self._found(f"{name} was not refused" for name in self.faults.operators.taken)

    async def _look_at_remains(self) -> None:
        remains = Remains(self.cluster.servers.values())
        deadline_s = self.simulation.now_s + IN_STEP_SECONDS
        await self._while(remains.hurry, deadline_s)
        states = GroupStates(list(self.cluster.servers.values()))
        if self._plan.shape.groups or self._plan.shape.movers:
            await self._while(states.look, self.simulation.now_s + IN_STEP_SECONDS)
            self._found(states.findings())
        image = self.cluster.newest_image()
        if image is not None and not self._result.findings:
            self._found(remains.findings(image))
            is_time_right = FaultKind.CLOCK_STEP not in {one.kind for one in self._plan.faults}
            kept = kept_for_long(image) if is_time_right else frozenset()
            self._found(differences(self.cluster.servers.values(), kept))

    async def _look_at_tier(self) -> None:
        """See the tier come to rest, and compare it with the logs."""
        kinds = {fault.kind for fault in self._plan.faults}
        tier = TierAtRest(
            self.cluster.servers.values(),
            self.tier,
            self.cluster.store,
            is_time_right=FaultKind.CLOCK_STEP not in kinds,
        )

        def problems() -> list[str]:
            image = self.cluster.newest_image()
            return ["no broker runs"] if image is None else tier.problems(image)

        # An object waits for its grace, and before that for whoever may still put it.
        await self._while(lambda: bool(problems()), self.simulation.now_s + LIVENESS_SECONDS)
        self._found(f"the tier is not at rest: {text}" for text in problems())
        if (image := self.cluster.newest_image()) is not None:
            self._found(await tier.differences(image))

    def _damaged_files(self) -> list[str]:
        """Name the extent files that are known to be damaged and were not written anew yet."""
        return [
            f"{server.name} set {set_id}: {reason}"
            for server in self.cluster.servers.values()
            if isinstance(server.node, Node) and server.node.manager is not None
            for set_id, member in server.node.manager.members.items()
            for reason in member.log.splitting.damage.files.values()
        ]

    async def until(self, holds: Callable[[], bool], seconds: float = 10.0) -> None:
        """For schedules: wait until it holds. Raises NotReached."""
        deadline_s = self.simulation.now_s + seconds
        while not holds():
            if self.simulation.now_s > deadline_s:
                raise NotReached(f"not within {seconds} s")
            await asyncio.sleep(SCHEDULE_SECONDS)

    async def _while(self, holds: Callable[[], bool], deadline_s: float = math.inf) -> None:
        """Wait as long as it holds; a finding ends it as well."""
        while (  # noqa: ASYNC110  what is waited for has no event
            holds() and self.simulation.now_s < deadline_s and not self._has_finding
        ):
            await asyncio.sleep(LOOK_SECONDS)

    def _not_equal(self) -> list[str]:
        """Name the members that do not hold and confirm what the others do."""
        image = self.cluster.newest_image()
        running = len(self.cluster.nodes())
        if image is None or running < len(self.cluster.brokers):
            return [f"{running} brokers run"]
        if self.cluster.wishes:
            return [f"operators insist on {self.cluster.wishes}"]
        return [
            text
            for replica_set in image.replica_sets.values()
            for text in self._unequal_in(replica_set)
        ]

    def _unequal_in(self, replica_set: ReplicaSetImage) -> list[str]:
        name = f"set {replica_set.replica_set_id}"
        if replica_set.master == NO_MASTER:
            return [f"{name} has no master"]
        if len(replica_set.sync_state_set) < len(replica_set.replicas):
            return [f"{name} has only {replica_set.sync_state_set} in step"]
        found: list[object] = []
        for broker_id in replica_set.replicas:
            node = self.cluster.servers[self.cluster.brokers[broker_id]].node
            manager = node.manager if isinstance(node, Node) else None
            member = None if manager is None else manager.members.get(replica_set.replica_set_id)
            if member is None:
                found.append(f"{name} is not open on broker {broker_id}")
            else:
                found.append((member.log.end_position, member.confirm_position))
        ends = dict.fromkeys(found)
        if len(ends) == 1 and isinstance(found[0], tuple) and found[0][0] == found[0][1]:
            return []
        return [f"{name}: (end, confirmed) of {replica_set.replicas} are {found}"]

    def _found(self, texts: Iterable[str]) -> None:
        self._result.findings += texts

    def _woken(self) -> list[tuple[str, int, int]]:
        """Return from when to when each broker did not know that it had stood still."""
        return [
            (server.name, round(at_s * 1e9), round(at_s * 1e9) + LEASE_MS * 1_000_000)
            for server in self.cluster.servers.values()
            for at_s in server.woken_s
        ]

    def _conclude(self, *, is_read: bool) -> None:
        self.clients.world.woken = self._woken()
        result, report = self._result, self.clients.judge(is_complete=is_read)
        result.findings[:0] = self.invariants.findings + self._complaints()
        result.findings += self.clients.refusals()
        result.findings += self.clients.judge_transactions(is_read=is_read)
        result.findings += self.clients.sharers.judge()
        result.findings += self.clients.judge_tasks()
        for cast, _ in self._rocketmq():
            apart_ms = math.ceil(self._walls_apart_s() * 1_000)
            result.findings += cast.judge(Clock(WALL_START_MS, apart_ms))
        result.findings += self.clients.rows.judge()
        if wrong := self.clients.judge_topics():
            result.findings.append(f"topics: {wrong}")
        result.sent, result.acked, result.read = report.sent, report.acked, report.read
        result.refused = self.clients.refused()
        result.checks = self.invariants.checks
        result.events = [str(event) for event in self.simulation.trace.events]
        result.findings += [
            f"{finding.anomaly.value} in {finding.partition}: {finding.detail}"
            for finding in report.findings
            if is_read or finding.anomaly not in LOSSES
        ]
