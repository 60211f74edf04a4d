"""Raft members over disks that forget, a network in memory, and a clock that tests turn.

Messages take 1 ms and disk operations 2 ms of a time that only passes in `run`.
"""

import errno
import heapq
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from random import Random
from typing import TypeVar

from harness.first_start import first_start
from penstock.base.ids import PeerId
from penstock.base.ports import Buffer, Cancellable, Lane
from penstock.controller.replicated_log import Leadership
from penstock.raft.configuration import Configuration
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.ports import RaftPorts
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.storage import RaftStorage
from penstock.runtime.raft.transport import Address, RaftReceiver
from tests.controller.replicated_group_contract import GroupHarness
from tests.controller.replicated_log_contract import LogHarness, Machine
from tests.runtime.crash_disk import CrashDisk, CrashFile

T = TypeVar("T")

MESSAGE_MS = 1
DISK_MS = 2


class ReservingFile(CrashFile):
    """Space that is set aside counts against the disk's room, as writing does."""

    def allocate(self, size: int) -> None:
        if size > self._disk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        if size > len(self.data):
            super().allocate(size)


class ReservingDisk(CrashDisk):
    def open(self, path: str, *, create: bool = False) -> CrashFile:
        if create and path not in self.files:
            self.files[path] = ReservingFile(self)
        return super().open(path, create=create)


class _Call:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualLoop:
    """Time and callbacks of a whole test, in order of their time."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.turns = 0
        """Callbacks that were called: each has a turn of its own."""
        self._calls: list[tuple[int, int, _Call]] = []
        self._numbers = count()

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1000

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        call = _Call(callback)
        heapq.heappush(self._calls, (self.now_ms + delay_ms, next(self._numbers), call))
        return call

    def run(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; stop early when `until()` is true. Returns whether it was."""
        end_ms = self.now_ms + duration_ms
        while self._calls and self._calls[0][0] <= end_ms:
            if until():
                return True
            self.now_ms, _, call = heapq.heappop(self._calls)
            if call.callback is not None:
                self.turns += 1
                call.callback()
        self.now_ms = end_ms
        return until()


class Process:
    """Scheduler and Offload of one process: what it has scheduled dies with it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.is_alive = True
        self.is_disk_slow = False

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        return self.call_later(0, callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        def run() -> None:
            if self.is_alive:
                callback()

        return self._loop.after(delay_ms, run)

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        del lane  # one thing after the other

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001  handed on, as a worker does
                failure = error
                self.call_soon(lambda: done(None, failure))
            else:
                self.call_soon(lambda: done(result, None))

        self.call_later(10_000 if self.is_disk_slow else DISK_MS, run)


class MemoryTransport:
    """One member's links. A member can be reached by whom it dials, and by who dials it."""

    def __init__(self, network: "MemoryNetwork", own_id: int) -> None:
        self._network = network
        self._own_id = own_id
        self.receiver: RaftReceiver | None = None
        self.dialled: Mapping[PeerId, Address] = {}
        self.is_closed = False

    def start(self, receiver: RaftReceiver) -> None:
        self.receiver = receiver

    def set_peers(self, addresses: Mapping[PeerId, Address]) -> None:
        self.dialled = dict(addresses)

    def send(self, peer_id: int, *frame: Buffer) -> None:
        self._network.carry(self._own_id, peer_id, b"".join(frame))

    def close(self) -> None:
        self.is_closed = True
        self._network.leave(self._own_id)


class MemoryNetwork:
    """Loses what tests say, and doubles and delays if asked to."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self.members: dict[int, MemoryTransport] = {}
        self.cut_off: set[int] = set()
        self.loss = 0.0
        self.jitter_ms = 0
        self.frames = 0

    def join(self, member_id: int) -> MemoryTransport:
        transport = self.members[member_id] = MemoryTransport(self, member_id)
        return transport

    def leave(self, member_id: int) -> None:
        """Close all links of a member: the others hear of it, unless the network is cut."""
        self.members.pop(member_id, None)
        if member_id in self.cut_off:
            return
        for other_id, other in list(self.members.items()):
            if other_id not in self.cut_off:
                self._loop.after(MESSAGE_MS, partial(self._lost, other, member_id))

    def carry(self, source: int, target: int, frame: bytes) -> None:
        self.frames += 1
        if self.cut_off & {source, target} or self._random.random() < self.loss:
            return
        sender, receiver = self.members.get(source), self.members.get(target)
        if sender is None or receiver is None:
            return
        if target not in sender.dialled and source not in receiver.dialled:
            return
        delay_ms = MESSAGE_MS + self._random.randrange(self.jitter_ms + 1)
        self._loop.after(delay_ms, lambda: self._deliver(source, receiver, frame))

    @staticmethod
    def _deliver(source: int, target: MemoryTransport, frame: bytes) -> None:
        if not target.is_closed and target.receiver is not None:
            target.receiver.on_frame(PeerId(source), memoryview(frame))

    @staticmethod
    def _lost(target: MemoryTransport, peer_id: int) -> None:
        if not target.is_closed and target.receiver is not None:
            target.receiver.on_peer_lost(PeerId(peer_id))


class RaftMember:
    """One process: its disk outlives it."""

    def __init__(self, cluster: "RaftCluster", member_id: int) -> None:
        self._cluster = cluster
        self.member_id = PeerId(member_id)
        self.disk = ReservingDisk()
        self.process = Process(cluster.loop)
        self.machine = Machine()
        self.log: RaftLog | None = None
        self.leaderships: list[Leadership] = []
        self.fenced: list[Exception] = []

    def open(self, config: RaftLogConfig | None = None) -> RaftLog:
        cluster = self._cluster
        assert self.log is None, "one process at a time has the disk"
        self.process = Process(cluster.loop)
        storage = RaftStorage(
            self.disk, "metadata", own_id=self.member_id, first=first_start(cluster.voters)
        )
        log = RaftLog(
            self.member_id,
            storage,
            cluster.network.join(self.member_id),
            RaftPorts(
                offload=self.process,
                scheduler=self.process,
                random_below=cluster.random.randrange,
            ),
            config or cluster.config,
        )
        log.on_leadership = self._on_leadership
        log.on_fenced = self.fenced.append
        self.log = log
        return log

    def start(self) -> RaftLog:
        """Open and start with a machine that has nothing."""
        log = self.open()
        self.machine = Machine()
        log.start(self.machine)
        return log

    def crash(self, *, power: bool = True) -> None:
        """Kill the process; without power the disk forgets what was not synced."""
        self.process.is_alive = False
        self._cluster.network.leave(self.member_id)
        self.log = None
        if power:
            self.disk.crash()

    @property
    def leads(self) -> bool:
        return self.log is not None and self.log.leadership.is_leader

    def _on_leadership(self, leadership: Leadership) -> None:
        self.leaderships.append(leadership)
        if leadership.is_leader:
            self._cluster.note_leader(self.member_id, leadership.term)


class RaftCluster:
    """Voters 1, 2, ... and whoever else is started."""

    def __init__(
        self, voters: int = 3, *, seed: int = 1, config: RaftLogConfig | None = None
    ) -> None:
        self.loop = VirtualLoop()
        self.random = Random(seed)
        self.network = MemoryNetwork(self.loop, self.random)
        self.config = config or RaftLogConfig()
        self.voters = Configuration.of(
            {PeerId(one): f"host-{one}:9093" for one in range(1, voters + 1)}
        )
        self.members: dict[int, RaftMember] = {}
        self.leader_of_term: dict[int, int] = {}
        for member_id in self.voters.voter_ids:
            self.member(member_id)

    def member(self, member_id: int) -> RaftMember:
        if member_id not in self.members:
            self.members[member_id] = RaftMember(self, member_id)
        return self.members[member_id]

    def start(self, *member_ids: int) -> None:
        for member_id in member_ids or tuple(self.members):
            self.member(member_id).start()

    def run(self, duration_ms: int) -> None:
        self.loop.run(duration_ms)

    def wait(self, until: Callable[[], bool], within_ms: int = 30_000) -> None:
        assert self.loop.run(within_ms, until), "it did not happen"

    def leader(self, *, among: tuple[int, ...] = (), within_ms: int = 30_000) -> RaftMember:
        """Wait until one leads; cut-off ones that think they lead are not meant."""
        candidates = [
            member
            for member_id, member in self.members.items()
            if (not among or member_id in among) and member_id not in self.network.cut_off
        ]
        self.wait(lambda: any(candidate.leads for candidate in candidates), within_ms)
        return max((candidate for candidate in candidates if candidate.leads), key=_term)

    def note_leader(self, member_id: int, term: int) -> None:
        assert self.leader_of_term.setdefault(term, member_id) == member_id, "two in one term"


def _term(member: RaftMember) -> int:
    assert member.log is not None
    return member.log.leadership.term


class OneVoterHarness(LogHarness):
    """A voter alone."""

    def __init__(self) -> None:
        self.cluster = RaftCluster(1)

    @property
    def member(self) -> RaftMember:
        return self.cluster.member(1)

    def open(self) -> RaftLog:
        return self.member.open()

    def run(self) -> None:
        self.cluster.run(2_000)

    def crash(self) -> None:
        self.member.crash()


class LeaderHarness(LogHarness):
    """A voter that leads two others. They are taken down with it and come back with it."""

    def __init__(self) -> None:
        self.cluster = RaftCluster(3, config=RaftLogConfig())

    def open(self) -> RaftLog:
        self.cluster.start(2, 3)
        self.cluster.network.cut_off = set()
        return self.cluster.member(1).open()

    def start(self, log: "object", machine: Machine) -> None:
        assert isinstance(log, RaftLog)
        log.start(machine)
        self.run()
        others = [self.cluster.member(2), self.cluster.member(3)]
        for _ in range(20):
            if log.leadership.is_leader:
                return
            for other in others:
                if other.log is not None and other.leads:
                    other.log.voters.transfer(PeerId(1), lambda _: None)
            self.run()
        raise AssertionError("member 1 did not come to lead")

    def run(self) -> None:
        self.cluster.run(2_000)

    def crash(self) -> None:
        for member_id in (1, 2, 3):
            if self.cluster.member(member_id).process.is_alive:
                self.cluster.member(member_id).crash()


class RaftGroupHarness(GroupHarness):
    """Three voters, 1 to 3; any other id is a learner."""

    def __init__(self) -> None:
        self.cluster = RaftCluster(3)

    def open(self, member_id: int) -> RaftLog:
        return self.cluster.member(member_id).open()

    def run(self) -> None:
        self.cluster.run(5_000)

    def crash(self, member_id: int) -> None:
        self.cluster.member(member_id).crash()

    def cut_off(self, member_id: int) -> None:
        self.cluster.network.cut_off.add(member_id)

    def heal(self) -> None:
        self.cluster.network.cut_off.clear()
