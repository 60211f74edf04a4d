"""A whole group in memory: members with disks, a network that obeys the test, and the oracle.

The disk holds what was persisted, not what was handed out, so a crash loses what a crash would. The
oracle (`Oracle`) is a dumb twin: it remembers everything that ever was in a log or was applied, and
compares, after every single step, with what the paper promises.
"""

from collections import deque
from collections.abc import Callable, Iterable

from penstock.base.ids import PeerId
from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.errors import RaftError
from penstock.raft.founding import Birth
from penstock.raft.ids import DirectoryId, RaftIndex
from penstock.raft.messages import AppendResponse, Message, VoteRequest, VoteResponse
from penstock.raft.raft import Raft
from penstock.raft.ready import HardState, Leadership, Ready, Role, Snapshot

CONFIG = RaftConfig(heartbeat_ticks=2, election_ticks_min=10, election_ticks_max=20)


def address(peer_id: int) -> str:
    return f"host{peer_id}:9093"


def voters(*ids: int) -> Configuration:
    return Configuration.of({PeerId(peer_id): address(peer_id) for peer_id in ids})


class Disk:
    """What survives a crash."""

    def __init__(self, configuration: Configuration, directory_id: str = "") -> None:
        self.directory_id = directory_id
        self.hard_state = HardState()
        self.snapshot = Snapshot(configuration=configuration)
        self.entries: list[Entry] = []

    def persist(self, ready: Ready) -> None:
        if ready.snapshot is not None:
            self.snapshot, self.entries = ready.snapshot, []
        if ready.entries:
            first = ready.entries[0].index
            self.entries = [e for e in self.entries if e.index < first] + list(ready.entries)
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state

    def term(self, index: int) -> int | None:
        """The term of what is durable at `index`; that of the snapshot for all that it covers."""
        if index <= self.snapshot.index:
            return self.snapshot.term
        return next((e.term for e in self.entries if e.index == index), None)

    def check_promise(self, to: int, message: Message) -> None:
        """Nothing may be said that a crash could take back."""
        durable = self.hard_state
        match message:
            case AppendResponse() if message.is_success:
                assert message.match_index == 0 or self.term(message.match_index) is not None
            case VoteResponse() if message.is_granted and not message.is_pre_vote:
                assert durable.term > message.term or durable.voted_for == to
            case VoteRequest() if not message.is_pre_vote:
                assert durable.term > message.term or durable.voted_for == message.sender
            case _:
                pass

    def keep(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.entries = [e for e in self.entries if e.index > snapshot.index]


class Member:
    """A process: driver and state machine. The state is the list of applied payloads."""

    def __init__(
        self,
        group: "Group",
        peer_id: int,
        disk: Disk,
        config: RaftConfig,
        draw: Callable[[int], int],
    ) -> None:
        self.group = group
        self.peer_id = peer_id
        self.disk = disk
        self.applied: list[bytes] = decode_state(disk.snapshot.data)
        self.applied_entries: list[Entry] = []
        self.reads: list[tuple[int, int]] = []
        self.leaderships: list[Leadership] = []
        self.writing: deque[Ready] = deque()
        self.raft = Raft(
            own_id=PeerId(peer_id),
            config=config,
            random_below=draw,
            hard_state=disk.hard_state,
            snapshot=disk.snapshot,
            entries=tuple(disk.entries),
            birth=Birth(
                directory_id=DirectoryId(disk.directory_id), first_voters=group.first_voters
            ),
        )

    def collect(self) -> bool:
        """Ask for work; send what may go at once. Whether there was any."""
        ready = self.raft.ready()
        if ready is None:
            return False
        for to, message in ready.messages:
            self.group.post(to, message)
        self.writing.append(ready)
        return True

    def write(self) -> bool:
        """Finish the oldest write, and what waits for it. Whether there was any."""
        if not self.writing:
            return False
        ready = self.writing.popleft()
        self.disk.persist(ready)
        for to, message in ready.messages_persisted:
            self.group.post(to, message)
        if ready.snapshot is not None:
            self.applied = decode_state(ready.snapshot.data)
        for entry in ready.committed:
            self.applied_entries.append(entry)
            self.group.oracle.on_applied(self.peer_id, entry)
            if entry.kind is EntryKind.NORMAL:
                self.applied.append(entry.payload)
        self.reads.extend((read.context, read.read_index) for read in ready.reads)
        if ready.leadership is not None:
            self.leaderships.append(ready.leadership)
        self.raft.advance(ready)
        return True

    def settle(self) -> None:
        """Do all work there is, disk included."""
        while self.collect() or self.write():
            pass

    def compact(self, index: int | None = None) -> None:
        """Take a snapshot of what is applied."""
        assert not self.writing
        index = self.raft.applied_index if index is None else index
        snapshot = self.raft.compact(RaftIndex(index), encode_state(self.applied))
        if snapshot is not None:
            self.disk.keep(snapshot)


def encode_state(applied: Iterable[bytes]) -> bytes:
    return b"".join(len(p).to_bytes(2, "big") + p for p in applied)


def decode_state(data: bytes) -> list[bytes]:
    applied, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 2], "big")
        applied.append(data[position + 2 : position + 2 + size])
        position += 2 + size
    return applied


class Oracle:
    """Everything that ever was, and the promises of figure 3."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.entries: dict[tuple[int, int], tuple[Entry, int | None]] = {}
        self.applied: dict[int, Entry] = {}
        self.majorities: dict[int, int] = {}
        """The commit index of each term's leader up to which majorities were counted."""

    def on_applied(self, peer_id: int, entry: Entry) -> None:
        """State machine safety."""
        known = self.applied.setdefault(entry.index, entry)
        assert known == entry, f"{peer_id} applied {entry}, another {known}"

    def check(self, member: Member) -> None:
        raft = member.raft
        log = raft._core.log
        for entry in log._entries:
            # Log matching: same index and term means same entry and same predecessor; so, by
            # induction, the same log up to there.
            term_before = log.term(RaftIndex(entry.index - 1))
            known, known_before = self.entries.setdefault(
                (entry.index, entry.term), (entry, term_before)
            )
            assert known == entry
            assert known_before == term_before
        assert log.applied_index <= log.commit_index <= log.last_index
        assert log.stable_index <= log.last_index
        if raft.role is Role.LEADER and raft.term not in self.leaders:
            self._on_elected(member)
        if raft.role is Role.LEADER:
            assert self.leaders[raft.term] == member.peer_id, "two leaders in one term"
            self._check_commit(member)

    def _check_commit(self, member: Member) -> None:
        """What a leader commits is durable on a majority, whatever it believes."""
        raft, index = member.raft, member.raft.commit_index
        if index <= self.majorities.get(raft.term, 0) or raft.role is not Role.LEADER:
            return
        term = raft._core.log.term(index)
        if term != raft.term:
            return
        self.majorities[raft.term] = index
        # The entry itself says who must have it, unless it comes with a later one's.
        voter_ids = raft.configuration.voter_ids
        # An acknowledgement that was on its way when the disk was lost counts: it was durable.
        disks = [*member.group.disks.items(), *member.group.lost_disks]
        having = {
            peer_id
            for peer_id, disk in disks
            if raft.configuration.is_voter(PeerId(peer_id), DirectoryId(disk.directory_id))
            and disk.term(index) == term
        }
        assert 2 * len(having) > len(voter_ids), f"{index} is durable only on {having}"

    def _on_elected(self, member: Member) -> None:
        """Leader completeness: all that was ever applied is in the log of every later leader."""
        raft = member.raft
        self.leaders[raft.term] = member.peer_id
        log = raft._core.log
        for index, entry in self.applied.items():
            if entry.term < raft.term and index > log.snapshot.index and index >= log.first_index:
                assert log.term(RaftIndex(index)) == entry.term, (
                    f"leader {member.peer_id} lacks {entry}"
                )


class Group:
    """The members and what is between them."""

    def __init__(
        self,
        voter_ids: Iterable[int],
        learner_ids: Iterable[int] = (),
        *,
        config: RaftConfig = CONFIG,
        draw: Callable[[int], int] | None = None,
    ) -> None:
        self.config = config
        self.configuration = voters(*voter_ids)
        self.first_voters = self.configuration.voters
        self.oracle = Oracle()
        self.wire: list[tuple[int, Message]] = []
        self.cut: set[tuple[int, int]] = set()
        self.draw = draw or _Draw()
        self.disks: dict[int, Disk] = {}
        self.lost_disks: list[tuple[int, Disk]] = []
        self.members: dict[int, Member] = {}
        for peer_id in (*self.configuration.voter_ids, *learner_ids):
            self.start(peer_id)

    def __getitem__(self, peer_id: int) -> Raft:
        return self.members[peer_id].raft

    # -- processes

    def start(self, peer_id: int, disk: Disk | None = None) -> Member:
        """Start a process on its disk, or on an empty one."""
        disk = disk or self.disks.get(peer_id) or Disk(self.configuration)
        self.disks[peer_id] = disk
        self.members[peer_id] = Member(self, peer_id, disk, self.config, self.draw)
        return self.members[peer_id]

    def wipe(self, peer_id: int, directory_id: str) -> None:
        """Put an empty disk in the place of a member's; it runs no more."""
        self.members.pop(peer_id, None)
        self.lost_disks.append((peer_id, self.disks[peer_id]))
        self.disks[peer_id] = Disk(Configuration(), directory_id)

    def crash(self, peer_id: int) -> None:
        """End a process; writes under way are lost."""
        del self.members[peer_id]

    def restart(self, peer_id: int) -> Member:
        self.members.pop(peer_id, None)
        return self.start(peer_id)

    # -- network

    def post(self, to: int, message: Message) -> None:
        self.disks[message.sender].check_promise(to, message)
        self.wire.append((to, message))

    def isolate(self, *peer_ids: int) -> None:
        """Cut these members off from all others (not from each other)."""
        for peer_id in peer_ids:
            for other in self.disks:
                if other not in peer_ids:
                    self.cut |= {(peer_id, other), (other, peer_id)}

    def heal(self) -> None:
        self.cut.clear()

    def deliver(self, to: int, message: Message) -> None:
        if (message.sender, to) in self.cut or to not in self.members:
            return
        self.members[to].raft.step(message)
        self.oracle.check(self.members[to])

    def settle(self, rounds: int = 1000) -> None:
        """Deliver everything, do all work, until nothing is left."""
        for _ in range(rounds):
            for member in list(self.members.values()):
                member.settle()
                self.oracle.check(member)
            if not self.wire:
                return
            wire, self.wire = self.wire, []
            for to, message in wire:
                self.deliver(to, message)
        raise AssertionError("the group does not come to rest")

    def tick(self, count: int = 1, only: Iterable[int] | None = None) -> None:
        """Let time pass for all, or for some, and settle after each tick."""
        for _ in range(count):
            for peer_id in self.members if only is None else only:
                self.members[peer_id].raft.tick()
                self.oracle.check(self.members[peer_id])
            self.settle()

    # -- common situations

    def elect(self, peer_id: int) -> Raft:
        """Let this member be the next leader: only its clock runs, others forget promises."""
        for member in self.members.values():
            if member.peer_id != peer_id:
                member.raft.peer_lost(member.raft.leader_id)
                member.raft._core.promised_until_tick = 0
        for _ in range(3 * self.config.election_ticks_max):
            if self[peer_id].role is Role.LEADER:
                break
            self.tick(only=[peer_id])
        assert self[peer_id].role is Role.LEADER, self[peer_id].role
        return self[peer_id]

    @property
    def leader(self) -> Raft:
        """The leader of the latest term."""
        leaders = [m.raft for m in self.members.values() if m.raft.role is Role.LEADER]
        return max(leaders, key=lambda raft: raft.term)

    def propose(self, payload: bytes) -> int:
        """Let the leader propose, and settle."""
        index = self.leader.propose(payload)
        self.settle()
        return index

    def try_propose(self, peer_id: int, payload: bytes) -> int | None:
        try:
            return self[peer_id].propose(payload)
        except RaftError:
            return None


def led(*voter_ids: int, learners: tuple[int, ...] = (), config: RaftConfig = CONFIG) -> Group:
    """A group led by its first voter, with learners that are caught up."""
    group = Group(voter_ids, learners, config=config)
    group.elect(voter_ids[0])
    group.tick(2 * config.learner_hello_ticks if learners else 1)
    assert group.leader.leader_id == voter_ids[0]
    return group


class _Draw:
    """Spreads timeouts without chance: 0, 1, 2, ... modulo the range."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, below: int) -> int:
        self._next += 1
        return (self._next * 7) % below
