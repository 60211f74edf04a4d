"""All movers of a run, those who watch their positions, and what must be true in the end.

    committed positions    never go back, and are those of the last transaction that was committed
    output, committed      each record before these positions once, in its order; none behind them
    a position             is stable again within the time-out of its transaction, and a bound

A coordinator that stood still may tell a mover positions that are old (ADR 0026). Nothing keeps a
group without members from moving records again then: such a mover may do so, and lose none.

Source: KIP-98, KIP-447.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from simulator.clients.feeder import INPUT, PARTITIONS, Feeder
from simulator.clients.mover import OUTPUT, Fetched, Mover, as_commits, fetch_positions
from simulator.clients.reading.committed_reader import CommittedReader
from simulator.clients.transaction_link import TIMEOUT_MS
from simulator.clients.transactions import create_topic
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, pause
from simulator.history import Commit, Rules
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation

UNSTABLE_NS_MAX = (TIMEOUT_MS + 5_000) * 1_000_000
"""On a sound cluster: the time-out, and the time to notice it and to write all markers."""
FINDINGS_MAX = 3
"""Of a mover and partition."""
Start = Callable[[str, list[Coroutine[Any, Any, None]]], Process]


@dataclass(slots=True)
class Unstable:
    """For how long positions were not stable, in one transaction."""

    transaction: int
    since_ns: int
    until_ns: int


@dataclass(slots=True, kw_only=True)
class PositionWatcher:
    """Asks for the positions of one mover again and again."""

    world: ClientWorld
    random: Random
    mover: Mover
    commits: list[Commit] = field(default_factory=list)
    unstable: list[Unstable] = field(default_factory=list)
    last: Fetched | None = None
    """The last answer in which all was stable."""
    _is_stable: bool = True

    async def run(self) -> None:
        """Ask until the run is over."""
        while not self.world.is_over:
            try:
                number = self.mover.transaction_count
                self._take(number, await self._fetch(self.mover.name))
                await self._fetch(self.mover.aside)
            except LinkFailed:
                pass
            await pause(self.random)

    async def _fetch(self, group: str) -> Fetched:
        fetched = await fetch_positions(self.world, self.random, group)
        self.commits += as_commits(group, fetched)
        return fetched

    def _take(self, transaction: int, fetched: Fetched) -> None:
        """Note a position that is not stable; `transaction` was the mover's when asked."""
        if fetched.is_stable:
            self.last, self._is_stable = fetched, True
            return
        is_same = not self._is_stable and self.unstable[-1].transaction == transaction
        self._is_stable = False
        if is_same:
            self.unstable[-1].until_ns = fetched.end_ns
        else:
            self.unstable.append(Unstable(transaction, fetched.begun_ns, fetched.end_ns))

    @property
    def final(self) -> dict[int, int] | None:
        """The stable positions after the mover has come to its end; None: not known yet."""
        idle_ns = self.mover.idle_ns
        if idle_ns is None or self.last is None or self.last.begun_ns <= idle_ns:
            return None
        return {one: max(offset, 0) for one, (_, offset) in sorted(self.last.positions.items())}


class Movers:
    """All movers of a run; `count` of them, of both versions in turn."""

    def __init__(self, simulation: Simulation, world: ClientWorld, count: int) -> None:
        self._world = world
        self._random = simulation.random("movers")
        first = self._random.randrange(2)
        self.feeder = Feeder(world=world, random=simulation.random("feeder"))
        self.movers = [
            Mover(
                world=world,
                name=f"mover{number}",
                random=simulation.random(f"mover{number}"),
                version=1 + (first + number) % 2,
                feeder=self.feeder,
            )
            for number in range(count)
        ]
        self.watchers = [
            PositionWatcher(world=world, random=simulation.random(f"watcher-{one.name}"), mover=one)
            for one in self.movers
        ]
        self.reader = CommittedReader(
            world=world,
            name="moved-reader",
            random=simulation.random("moved-reader"),
            topic=OUTPUT,
            offsets=dict.fromkeys(range(PARTITIONS), 0),
        )

    def start(self, start: Start) -> list[Process]:
        """Start them; returns the processes of those that write."""
        start("moved-reader", [self.reader.run()])
        start("position-watchers", [one.run() for one in self.watchers])
        feeder = start("feeder", [self._feed()])
        return [feeder, *[start(one.name, [self._move(one)]) for one in self.movers]]

    async def _feed(self) -> None:
        await create_topic(self._world, self._random, INPUT, PARTITIONS)
        await self.feeder.run()

    async def _move(self, one: Mover) -> None:
        await create_topic(self._world, one.random, OUTPUT, PARTITIONS)
        await one.run()

    def stuck(self) -> Iterator[str]:
        """Name the movers that wait, and for what."""
        for one in self.movers:
            if one.idle_ns is None:
                yield f"{one.name} of version {one.version} waits: {one.link.last_error}"

    def behind(self) -> list[str]:
        """Name what is open in the output or in positions, or not read yet."""
        waiting = [one.mover.name for one in self.watchers if one.final is None]
        return [*self.reader.behind(), *[f"{one}: its positions are not stable" for one in waiting]]

    def commits(self, rules: Rules) -> list[Commit]:
        """Return what was committed and fetched, but of movers that were told what may be old."""
        return [
            commit
            for watcher in self.watchers
            if not _may_go_back(watcher.mover, rules)
            for commit in (
                *watcher.commits,
                *watcher.mover.commits,
                *[
                    each
                    for returned in watcher.mover.returns
                    for each in as_commits(watcher.mover.name, returned)
                ],
            )
        ]

    def unstable(self, quiet_ns: int) -> Iterator[str]:
        """Name the positions that were unstable for too long after this time."""
        for watcher in self.watchers:
            for one in watcher.unstable:
                lasting_ns = one.until_ns - max(one.since_ns, quiet_ns)
                if lasting_ns > UNSTABLE_NS_MAX:
                    seconds = lasting_ns / 1e9
                    yield f"{watcher.mover.name}: positions are not stable for {seconds:.1f} s"

    def judge(self, rules: Rules) -> list[str]:
        """Return what is wrong with what was moved, once everything is read."""
        findings: list[str] = []
        for watcher in self.watchers:
            mover, final = watcher.mover, watcher.final
            if final is None:
                continue
            moved = _moved(mover.name, self.reader)
            may_go_back = _may_go_back(mover, rules)
            for partition, offset in final.items():
                where = f"{mover.name} in partition {partition}"
                if offset != mover.positions[partition]:
                    committed = mover.positions[partition]
                    findings.append(f"{where} stands at {offset}, and {committed} was committed")
                values = moved[partition]
                written = self.feeder.written[partition]
                findings += [f"{where}: {text}" for text in _changed(values, written)]
                offsets = [each for each, _ in values]
                if may_go_back:
                    offsets = sorted(set(offsets))
                findings += [f"{where}: {text}" for text in judge_moved(offsets, offset)]
        return findings


def _may_go_back(mover: Mover, rules: Rules) -> bool:
    return any(rules.may_be_old(one.told_by, one.begun_ns, one.end_ns) for one in mover.returns)


def _moved(name: str, reader: CommittedReader) -> dict[int, list[tuple[int, str]]]:
    """Return (offset in the input, value) of what a mover has moved, as it was read."""
    moved: dict[int, list[tuple[int, str]]] = {one: [] for one in range(PARTITIONS)}
    for place, values in reader.read.items():
        for value in values:
            mover, partition, offset, text = value.split("/")
            if mover == name and int(partition) == place:
                moved[place].append((int(offset), text))
    return moved


def _changed(values: list[tuple[int, str]], written: dict[int, str]) -> list[str]:
    """Name records that are not what was acknowledged."""
    wrong = [(offset, text) for offset, text in values if written.get(offset, text) != text]
    return [
        f"{text} of offset {offset} was written as {written[offset]}"
        for offset, text in wrong[:FINDINGS_MAX]
    ]


def judge_moved(offsets: list[int], end: int) -> list[str]:
    """Return what is wrong with moved records: their offsets in the order of the output.

    `end` is the committed position, exclusive. Each record before it is to be there once, in order.
    """
    there = set(offsets)
    beyond = sorted(there.difference(range(end)))
    missing = [one for one in range(end) if one not in there]
    findings = [f"{one} was moved, and the position is {end}" for one in beyond[:FINDINGS_MAX]]
    findings += [
        f"{one} was not moved, and the position is {end}" for one in missing[:FINDINGS_MAX]
    ]
    counts = sorted(one for one in there if offsets.count(one) > 1)
    findings += [f"{one} was moved {offsets.count(one)} times" for one in counts[:FINDINGS_MAX]]
    if not findings and offsets != sorted(offsets):
        findings.append("what was moved is out of order")
    return findings
