"""A master of shares that stood still, with its clock or without it (ADR 0026).

With its clock: for what was left of its lease it hands out what its successor's clients have
acknowledged. Judges let that pass, and nothing else of it: what is said of such records is never
taken, and nobody else hands them out again. Without it: it hands out nothing.
"""

import asyncio
import contextlib
from collections.abc import Awaitable

import pytest

from simulator.clients.remoting import popper
from simulator.clients.remoting.cast import TOPIC, RemotingCast
from simulator.clients.remoting.popper import Popper
from simulator.clients.wire import LinkFailed
from simulator.history.events import Rules
from simulator.history.shares import ShareNotes, judge_shares
from simulator.kernel.process import Process
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from tests.sim.test_directed_sets import cut

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHAPE = Shape(partitions=1, producers=1, records_per_second=10, sharers=1, remoting=1, grpc=1)
ASLEEP_S, CUT_S = 8.0, 1.0
"""The lease ends meanwhile, by the clocks of others."""
ASKS, ASK_S = 10, 0.02
ENOUGH, MEANWHILE, SOME = 50, 100, 3
"""Acknowledgements before, and those to the successor; records that nobody has been handed yet."""

SEEDS = 6


class Late:
    """A popper that asks who led when it last heard of it."""

    def __init__(self, run: Run) -> None:
        assert run.clients.remoting is not None
        self.cast: RemotingCast = run.clients.remoting
        self.notes = ShareNotes()
        self._run = run
        self._popper = Popper(
            world=run.clients.world,
            name="late",
            random=run.simulation.random("late"),
            topic=TOPIC,
            notes=self.notes,
        )

    async def _do(self, work: Awaitable[None]) -> None:
        async def main(_: Process) -> None:
            await work

        await self._run.simulation.start("client-late", "late", main).ended

    async def hear(self) -> tuple[str, str]:
        """Return a set with queues of the topic, and the host of its master."""
        heard: list[tuple[str, str]] = []

        async def ask() -> None:
            while not heard:
                with contextlib.suppress(LinkFailed):
                    self._popper.failed(LinkFailed("it is asked anew"))
                    route = await self._popper.route(TOPIC)
                    heard.extend(
                        (one.broker, route.masters[one.broker].rpartition(":")[0])
                        for one in route.queues
                        if one.broker in route.masters
                    )
                await asyncio.sleep(ASK_S)

        await self._do(ask())
        return heard[0]

    def _its(self, sleeper: str) -> set[int]:
        return {one.place[0] for one in self.cast.pops.handed if one.told_by == sleeper}

    def has_something(self, sleeper: str) -> bool:
        """Whether its partitions have records that nobody has been handed yet."""
        its, handed = self._its(sleeper), {one.place for one in self.cast.pops.handed}
        written = self.cast.watcher.reads[TOPIC]
        return sum(one[0] in its and one not in handed for one in written) >= SOME

    def settled_elsewhere(self, sleeper: str) -> int:
        """Return how many records of its partitions others have handed out, and know as over."""
        pops = self.cast.pops
        its, others = self._its(sleeper), [one for one in pops.handed if one.told_by != sleeper]
        handed = {one.place for one in others}
        return sum(
            one.place[0] in its and one.place in handed for one in pops.settled if one.is_taken
        )

    async def pop(self, broker: str) -> None:
        """Pop from it a few times, and acknowledge what comes."""

        async def ask() -> None:
            for _ in range(ASKS):
                with contextlib.suppress(LinkFailed):
                    if had := await self._popper._pop(broker):
                        await self._popper._ack_all(broker, had)
                await asyncio.sleep(ASK_S)

        await self._do(ask())


def late_to(kind: FaultKind, seed: int = 1) -> tuple[Run, Late]:
    """Let a master stand still; ask it when it goes on, before it hears of its successor."""
    runs: list[tuple[Run, Late]] = []

    async def schedule(run: Run) -> None:
        late = Late(run)
        runs.append((run, late))
        await run.until(lambda: len(late.cast.pops.settled) > ENOUGH, 60)
        broker, sleeper = await late.hear()
        await run.until(lambda: late.has_something(sleeper), 60)
        wake = run.faults.begin(Fault(kind=kind, at_ms=0, lasting_ms=0, targets=(sleeper,)))
        assert wake is not None
        cut(run, [sleeper], [host for host in run.cluster.servers if host != sleeper])
        await asyncio.sleep(ASLEEP_S)
        await run.until(lambda: late.settled_elsewhere(sleeper) >= MEANWHILE, 60)
        wake()
        await late.pop(broker)
        await asyncio.sleep(CUT_S)
        run.cluster.weather.clear()
        late.cast.pops.handed.extend(late.notes.handed)

    result = run_plan(Plan(seed=seed, shape=SHAPE), schedule)
    assert not result.findings, result.findings[:3]
    return runs[0]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the others leave something to hand out."""
    monkeypatch.setattr(popper, "IDLE_SECONDS", (0.8, 1.2))
    monkeypatch.setattr(popper, "POLL_MS", (0, 0))


@pytest.mark.usefixtures("slow")
def test_a_master_whose_clock_stood_still_hands_out_what_is_over_and_takes_no_word_of_it() -> None:
    # Where the lease was nearly over when the clock stopped, nothing is handed out.
    schedules = (late_to(FaultKind.SUSPEND, seed) for seed in range(1, SEEDS))
    run, late = next((run, late) for run, late in schedules if late.notes.handed)
    pops = late.cast.pops
    assert judge_shares(ShareNotes(late.notes.handed, pops.settled), {}, Rules())
    assert late.notes.settled
    assert not any(one.is_taken for one in late.notes.settled)
    assert run.clients.grpc is not None
    for notes in (pops, run.clients.sharers.notes, *run.clients.grpc.pops.values()):
        assert {one.told_by for one in notes.handed} <= {*run.cluster.servers}, "told by nobody"
        assert notes.handed


@pytest.mark.usefixtures("slow")
def test_a_master_that_stood_still_and_can_know_it_hands_out_nothing() -> None:
    _, late = late_to(FaultKind.PAUSE)
    assert not late.notes.handed
