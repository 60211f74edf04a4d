"""A mover: reads a topic, writes each record to another one, and its new position with them.

    committed positions ─► read ─► transaction: records, positions ─► commit ─► read on
            ▲                                      │ abort, error, a new instance
            └──────────────────────────────────────┘

So each record is in the output once, whatever happens. At times a new instance takes the id while a
transaction is open, and the old one tries to go on. The last transaction may stay open for ever.

Beside its own group it commits rising positions of another one, inside of transactions and outside
of them: of these the last in the log must win.

Source: KIP-98, KIP-447; Kafka's ExactlyOnceMessageProcessor.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from penstock.protocol.error_codes import ErrorCode
from simulator.clients.feeder import INPUT, PARTITIONS, Feeder, read_input
from simulator.clients.group_wire import NEWER, Positions, Seat, open_coordinator
from simulator.clients.transaction_link import (
    TIMEOUT_MS,
    Fenced,
    Instance,
    Refused,
    TransactionLink,
)
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, now_ns, pause
from simulator.history import NOTHING_COMMITTED, Commit

OUTPUT = "moved"
IDLE_SECONDS = (0.01, 0.15)
REPLACED_SHARE, ABORTED_SHARE, SLOW_SHARE = 0.08, 0.25, 0.03
TWICE_SHARE, ASIDE_SHARE, LEFT_OPEN_SHARE = 0.3, 0.4, 0.5
RETURN_SHARE = 0.15
"""Of commits after which the positions are asked for at once, as by another member of the group."""
FAR = 1_000_000
"""Added to a position that must never count."""
NOWHERE = -1

Records = dict[int, list[tuple[int, str]]]
"""By partition (offset, value), in order."""


class Fetched(NamedTuple):
    """What a coordinator has told of positions."""

    positions: Positions
    told_by: str
    begun_ns: int
    end_ns: int

    @property
    def is_stable(self) -> bool:
        """Whether no position waits for the end of a transaction."""
        return all(code is ErrorCode.NONE for code, _ in self.positions.values())


async def fetch_positions(world: ClientWorld, draw: Random, group: str) -> Fetched:
    """Ask for the stable positions of a group in the input. Raises LinkFailed."""
    link = await open_coordinator(world, draw, group, NEWER)
    try:
        begun_ns = now_ns()
        code, found = await link.fetch(range(PARTITIONS), topic=INPUT)
        if code is not ErrorCode.NONE:
            raise link.link.broken(code.name)
        for told, _ in found.values():
            if told not in {ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT}:
                raise link.link.broken(told.name)
        return Fetched(found, link.host, begun_ns, now_ns())
    finally:
        link.close()


@dataclass(slots=True, kw_only=True)
class Mover:
    """One transactional id, and the group of the same name."""

    world: ClientWorld
    name: str
    random: Random
    version: int
    feeder: Feeder
    link: TransactionLink = field(init=False)
    positions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    """The next to be moved of each partition."""
    commits: list[Commit] = field(default_factory=list)
    returns: list[Fetched] = field(default_factory=list)
    """From where it went on after an abort, an error or a new instance."""
    transaction_count: int = 0
    idle_ns: int | None = None
    """When it has come to its end."""
    _asides: int = 0
    _aside_offset: int = 0

    def __post_init__(self) -> None:
        self.link = TransactionLink(
            world=self.world, name=self.name, random=self.random, version=self.version
        )

    @property
    def aside(self) -> str:
        """The group beside its own; another one once a request to it had no answer."""
        return f"{self.name}-aside-{self._asides}"

    async def run(self) -> None:
        """Move until asked to stop and everything acknowledged is moved."""
        while not self.world.is_over and not self._is_done:
            try:
                instance = await self.link.begin()
                await self._return()
                await self._go_on(instance)
            except Fenced as error:
                self.link.last_error = str(error)
        self.idle_ns = now_ns()

    @property
    def _is_done(self) -> bool:
        is_moved = all(self.positions[one] >= end for one, end in self.feeder.ends.items())
        return self.world.is_stopping and self.feeder.is_idle and is_moved

    async def _go_on(self, instance: Instance) -> None:
        """Move, with one instance or those that take over from it. Raises Fenced."""
        while not self._is_done and not self.world.is_over:
            found = await read_input(self.world, self.random, self.positions)
            if found and not self.world.is_stopping and self.random.random() < REPLACED_SHARE:
                instance = await self._replace(instance, found)
                await self._return()
            elif found:
                is_moved = await self._one(instance, found)
                if not is_moved or self.random.random() < RETURN_SHARE:
                    await self._return()
            await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))
        if self._is_done and self.random.random() < LEFT_OPEN_SHARE:
            await self._leave_open(instance)

    async def _return(self) -> None:
        """Go to the committed positions, once they are stable. Raises Fenced."""
        while not self.world.is_over:
            try:
                fetched = await fetch_positions(self.world, self.random, self.name)
                if fetched.is_stable:
                    self.returns.append(fetched)
                    self.positions = {
                        partition: max(offset, 0)
                        for partition, (_, offset) in sorted(fetched.positions.items())
                    }
                    return
                self.link.last_error = "its positions are not stable"
            except LinkFailed as error:
                self.link.last_error = f"positions: {error}"
            await pause(self.random)
        raise Fenced("the run is over")

    async def _one(self, instance: Instance, found: Records) -> bool:
        """Move some records in a transaction; returns whether it was committed. Raises Fenced."""
        aside: Commit | None = None
        try:
            await self._fill(instance, found)
            if self.random.random() < ASIDE_SHARE:
                aside = await self._commit_aside(instance)
        except Refused as error:
            # The next sequences are not known any more: the next instance begins with new ones.
            await self.link.end(instance, commits=False, is_asked_once=True)
            raise Fenced(f"refused: {error}") from error
        commits = self.world.is_stopping or self.random.random() >= ABORTED_SHARE
        if not self.world.is_stopping and self.random.random() < SLOW_SHARE:
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * TIMEOUT_MS / 1_000)
        begun_ns = now_ns()
        await self.link.end(instance, commits=commits, is_asked_once=True)
        if commits:
            self._note(found, begun_ns, aside)
        return commits

    def _note(self, found: Records, begun_ns: int, aside: Commit | None) -> None:
        to = _behind(found)
        self.positions |= to
        self.commits += [
            Commit(self.name, partition, offset, begun_ns, now_ns())
            for partition, offset in to.items()
        ]
        if aside is not None:
            self.commits.append(aside._replace(end_ns=now_ns()))

    async def _fill(self, instance: Instance, found: Records) -> None:
        """Write records and positions, in either order. Raises Fenced, Refused."""
        self.transaction_count += 1
        is_position_first = self.random.random() < 0.5
        if is_position_first:
            await self._put_positions(instance, found)
        await self.link.add(instance, OUTPUT, found)
        for partition, records in found.items():
            values = [
                f"{self.name}/{partition}/{offset}/{value}".encode() for offset, value in records
            ]
            await self.link.produce(instance, OUTPUT, partition, values)
        if not is_position_first:
            await self._put_positions(instance, found)

    async def _put_positions(self, instance: Instance, found: Records) -> None:
        if self.random.random() < TWICE_SHARE:
            first = {partition: records[0][0] + 1 for partition, records in found.items()}
            await self.link.move(instance, self.name, INPUT, first)
        await self.link.move(instance, self.name, INPUT, _behind(found))

    async def _replace(self, old: Instance, found: Records) -> Instance:
        """Leave a transaction open, let another instance take the id, and try to go on."""
        try:
            await self._fill(old, found)
        except Refused as error:
            raise Fenced(f"refused: {error}") from error
        new = await self.link.begin()
        far = {partition: offset + FAR for partition, offset in _behind(found).items()}
        tries = {
            "commit positions": self.link.move(old, self.name, INPUT, far),
            "commit": self.link.end(old, commits=True, is_asked_once=True),
        }
        for what, tried in tries.items():
            try:
                await tried
            except (Fenced, Refused):
                continue
            self.world.refuse(f"{self.name} could {what} after it was replaced")
        return new

    async def _leave_open(self, instance: Instance) -> None:
        """Begin a transaction that only its time-out ends. Raises Fenced."""
        end = {partition: [(NOWHERE, "left-open")] for partition in self.positions}
        far = {partition: offset + FAR for partition, offset in self.positions.items()}
        try:
            await self._fill(instance, end)
            await self.link.move(instance, self.name, INPUT, far)
        except Refused as error:
            self.link.last_error = str(error)

    async def _commit_aside(self, instance: Instance) -> Commit | None:
        """Commit rising positions of the other group in the transaction, and outside of it.

        Returns the commit that counts once the transaction is committed. Raises Fenced, Refused.
        """
        counts: Commit | None = None
        for is_plain in self.random.choice(((False,), (False, True), (True, False))):
            self._aside_offset += 1
            group, offset, begun_ns = self.aside, self._aside_offset, now_ns()
            if is_plain:
                if not await self._commit_plainly(group, offset, begun_ns):
                    return None
                counts = None
                continue
            try:
                await self.link.move(instance, group, INPUT, {0: offset})
            except (Fenced, Refused):
                self._asides += 1
                raise
            counts = Commit(group, 0, offset, begun_ns, None)
        return counts

    async def _commit_plainly(self, group: str, offset: int, begun_ns: int) -> bool:
        """Commit outside of transactions, once; returns whether it is known to have happened."""
        errors: dict[int, ErrorCode] = {}
        try:
            link = await open_coordinator(self.world, self.random, group, NEWER)
            try:
                errors = await link.commit(Seat(), {0: offset}, topic=INPUT)
            finally:
                link.close()
        except LinkFailed as error:
            self.link.last_error = f"commit: {error}"
        if errors != {0: ErrorCode.NONE}:
            self._asides += 1
            return False
        self.commits.append(Commit(group, 0, offset, begun_ns, now_ns()))
        return True


def _behind(found: Records) -> dict[int, int]:
    """Return the positions behind these records."""
    return {partition: records[-1][0] + 1 for partition, records in found.items()}


def as_commits(group: str, fetched: Fetched) -> list[Commit]:
    """Return what is known of a group once this was fetched; nothing if it is not stable."""
    if not fetched.is_stable:
        return []
    return [
        Commit(
            group,
            partition,
            max(offset, NOTHING_COMMITTED),
            fetched.begun_ns,
            fetched.end_ns,
            is_fetched=True,
            told_by=fetched.told_by,
        )
        for partition, (_, offset) in fetched.positions.items()
    ]
