"""One member of a Raft group. It knows no disk, no network and no clock.

The driver's duties, for each Ready in the order in which `ready()` gave them:

1. Send `messages`. They need not wait for anything.
2. Persist `snapshot`, then `entries` (which replace everything from their first index on), then
   `hard_state`; all durable if `must_sync`. A snapshot replaces the whole log.
3. Send `messages_persisted`.
4. Give `snapshot` to the state machine, apply `committed`, answer `reads`, tell `leadership`.
5. Call `advance(ready)`.

`tick`, `step`, `propose` and `ready` may be called again while a Ready is being persisted, so that
heartbeats go on during a slow sync. Then 2 to 5 must be done in the order of the Readys; several
may share one sync. After calls that may have changed something, ask `ready()` until it is None.

A member that is not among the voters of its configuration, by its id and the id of its directory,
is a learner: it announces itself to the voters, gets entries from the leader, and never counts. It
votes only for a candidate whose configuration has it as a voter with this directory. A member with
an empty directory is a learner too, until the first voters of the settings have founded a group
(founding.py).

Source: Raft paper and Raft thesis, with sections at each rule; interface modelled on etcd's raft.
"""

from collections.abc import Callable, Sequence

from penstock.base.ids import PeerId
from penstock.base.invariant import invariant
from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Configuration, Peers
from penstock.raft.core import Core
from penstock.raft.entry import Entry
from penstock.raft.errors import CorruptRaftState, InvalidMessage, ProposalDropped, ReadRefused
from penstock.raft.founding import Birth
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.log import RaftLog
from penstock.raft.messages import Message
from penstock.raft.ready import (
    NO_PEER,
    HardState,
    Leadership,
    PeerProgress,
    Ready,
    Role,
    Snapshot,
)
from penstock.raft.roles import inbox
from penstock.raft.roles.candidate import Candidate
from penstock.raft.roles.current import Roles
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader

_NOTHING = Birth()


class Raft:
    """One member. All calls come from one thread, none blocks."""

    def __init__(  # noqa: PLR0913  all that outlives a process
        self,
        *,
        own_id: PeerId,
        config: RaftConfig,
        random_below: Callable[[int], int],
        hard_state: HardState,
        snapshot: Snapshot,
        entries: Sequence[Entry] = (),
        birth: Birth = _NOTHING,
    ) -> None:
        """Start from what is durable; a first start has Snapshot(configuration=Configuration()),
        and founds a group with the others of `birth.first_voters` or follows the one there is.

        `random_below(n)` returns 0 to n - 1. Entries up to the snapshot are left out. The state
        machine must hold the snapshot already; committed entries behind it come by `ready()`.

        Raises CorruptRaftState if the parts contradict each other.
        """
        assert own_id > NO_PEER, own_id
        log = _log_from(hard_state, snapshot, entries)
        self._core = Core(
            own_id=own_id,
            config=config,
            random_below=random_below,
            hard_state=hard_state,
            log=log,
            birth=birth,
        )
        self._roles = Roles(self._core)
        self._handed_hard_state = hard_state
        self._handed_leadership = self.leadership
        self._ready_count = 0
        self._advanced_count = 0

    # -- input

    def tick(self) -> None:
        """Let one tick of time pass."""
        self._core.ticks += 1
        self._roles.current.tick()

    def step(self, message: Message) -> None:
        """Take a message. Raises InvalidMessage if no correct peer can have sent it."""
        inbox.take(self._core, self._roles, message)

    def peer_lost(self, peer_id: PeerId) -> None:
        """Note that the other end closed its connection, or that the peer is known to be dead.

        If it led, this member campaigns after a short random wait instead of a whole election
        timeout.
        """
        match self._roles.current:
            case Leader() as leader:
                leader.peer_lost(peer_id)
            case Follower() as follower if peer_id == self._core.leader_id:
                follower.leader_lost()
            case _:
                pass

    # -- requests

    def propose(self, payload: bytes) -> RaftIndex:
        """Append `payload`; return the index that it has if it is ever committed in this term.

        Raises ProposalDropped, ProposalQueueFull or ProposalTooLarge.
        """
        return self._leader().propose(payload)

    def add_voter(
        self, peer_id: PeerId, address: str, directory_id: DirectoryId | None = None
    ) -> RaftIndex:
        """Make a learner that is caught up a voter, or change a voter's address.

        It votes with the directory that it runs with; refused if that is not `directory_id`.
        Returns the index of the configuration entry. Raises ChangeRefused or ProposalDropped.
        """
        return self._leader().add_voter(peer_id, address, directory_id)

    def remove_voter(self, peer_id: PeerId, directory_id: DirectoryId | None = None) -> RaftIndex:
        """Make a voter a learner; a leader that removes itself steps down after the commit.

        Refused if it votes with another directory than `directory_id`.
        Returns the index of the configuration entry. Raises ChangeRefused or ProposalDropped.
        """
        return self._leader().remove_voter(peer_id, directory_id)

    def transfer(self, to: PeerId) -> None:
        """Hand leadership to `to`; given up after election_ticks_min.

        Until then proposals are dropped. Raises TransferRefused or ProposalDropped.
        """
        self._leader().transfer(to)

    def read_index(self, context: int) -> None:
        """Ask for a linearizable read; answered by a ReadState with the same `context`.

        Raises ReadRefused.
        """
        if not isinstance(self._roles.current, Leader):
            raise ReadRefused(self.leader_id, "ask the leader")
        self._roles.current.rounds.ask(context)

    def _leader(self) -> Leader:
        if not isinstance(self._roles.current, Leader):
            raise ProposalDropped(self.leader_id)
        return self._roles.current

    # -- output

    def ready(self) -> Ready | None:
        """Return the work for the driver, or None if there is none."""
        core, log = self._core, self._core.log
        if isinstance(self._roles.current, Leader):
            self._roles.current.flush()
        snapshot, entries = log.take_snapshot(), log.take_unwritten()
        hard_state = HardState(
            term=core.term, voted_for=core.voted_for, commit_index=log.commit_index
        )
        ready = Ready(
            sequence=self._ready_count,
            messages=tuple(core.messages),
            snapshot=snapshot,
            entries=entries,
            hard_state=None if hard_state == self._handed_hard_state else hard_state,
            must_sync=snapshot is not None or bool(entries) or self._is_vote_new(hard_state),
            messages_persisted=tuple(core.messages_persisted),
            committed=log.take_committed(core.config.apply_bytes_max),
            reads=tuple(core.reads),
            leadership=None if self.leadership == self._handed_leadership else self.leadership,
        )
        if not _has_work(ready):
            return None
        if snapshot is not None or entries:
            log.note_write_begun()
        self._hand(hard_state)
        self._handed_leadership = self.leadership
        self._ready_count += 1
        for sent in (core.messages, core.messages_persisted, core.reads):
            sent.clear()
        return ready

    def _hand(self, hard_state: HardState) -> None:
        """Note what the disk is to hold.

        Invariant: term and commit index never fall, and a vote stays for as long as its term.
        """
        handed = self._handed_hard_state
        invariant(hard_state.term >= handed.term, "the term never falls", term=hard_state.term)
        committed = hard_state.commit_index
        invariant(committed >= handed.commit_index, "what is committed stays so", index=committed)
        is_kept = hard_state.term > handed.term or handed.voted_for in {
            NO_PEER,
            hard_state.voted_for,
        }
        invariant(is_kept, "a term has one vote", term=hard_state.term, vote=hard_state.voted_for)
        self._handed_hard_state = hard_state

    def _is_vote_new(self, hard_state: HardState) -> bool:
        handed = self._handed_hard_state
        return (hard_state.term, hard_state.voted_for) != (handed.term, handed.voted_for)

    def advance(self, ready: Ready) -> None:
        """Note that everything in `ready` is done. To be called in the order of the Readys."""
        invariant(
            ready.sequence == self._advanced_count,
            "Readys are advanced in their order, each once",
            expected=self._advanced_count,
            got=ready.sequence,
        )
        self._advanced_count += 1
        log = self._core.log
        if ready.snapshot is not None or ready.entries:
            log.note_write_done()
        if ready.snapshot is not None:
            log.note_applied(ready.snapshot.index)
        if ready.committed:
            log.note_applied(ready.committed[-1].index)
        role = self._roles.current
        if isinstance(role, Candidate) and ready.hard_state is not None:
            role.on_persisted(ready.hard_state)

    def compact(
        self, index: RaftIndex, data: bytes, keep_bytes: int | None = None
    ) -> Snapshot | None:
        """Take `data` as the state after entry `index`, which is applied; forget entries up to it.

        Returns the snapshot for the driver to keep; it must be durable before the driver drops
        entries from its disk. It stays in memory for peers that need it, and so do the last
        entries for peers that are a little behind: `keep_bytes` of them, by default as many as the
        settings say. Returns None, and changes nothing, if there is a snapshot at least as new
        already, perhaps not yet handed out by `ready()`.
        """
        log = self._core.log
        if index <= log.snapshot.index:
            return None
        term = log.term(index)
        assert term is not None, index
        snapshot = Snapshot(
            index=index, term=term, configuration=log.configurations.at(index), data=data
        )
        if keep_bytes is None:
            keep_bytes = self._core.config.compaction_keep_bytes
        log.compact(snapshot, keep_bytes)
        return snapshot

    # -- state

    @property
    def role(self) -> Role:
        """The role of this member."""
        return self._roles.current.kind

    @property
    def term(self) -> Term:
        """The current term."""
        return self._core.term

    @property
    def leadership(self) -> Leadership:
        """Who leads, and whether this member leads and has applied all earlier entries."""
        role = self._roles.current
        is_leader = isinstance(role, Leader) and self._core.log.applied_index >= role.first_index
        return Leadership(self._core.leader_id, self._core.term, is_leader)

    @property
    def leader_id(self) -> PeerId:
        """The leader of the current term, NO_PEER if not known."""
        return self._core.leader_id

    @property
    def commit_index(self) -> RaftIndex:
        """Last index known to be committed, inclusive."""
        return self._core.log.commit_index

    def term_at(self, index: RaftIndex) -> Term | None:
        """Return the term of an entry; None if it is forgotten or does not exist."""
        return self._core.log.term(index)

    @property
    def applied_index(self) -> RaftIndex:
        """Last index that the driver applied, inclusive."""
        return self._core.log.applied_index

    @property
    def first_index(self) -> RaftIndex:
        """First entry still in memory."""
        return self._core.log.first_index

    @property
    def last_index(self) -> RaftIndex:
        """Last index in the log."""
        return self._core.log.last_index

    @property
    def configuration(self) -> Configuration:
        """The voters, as the log has them now."""
        return self._core.configuration

    @property
    def own_directory(self) -> DirectoryId:
        """The id of the directory with this member's log and votes."""
        return self._core.own_directory

    @property
    def is_new(self) -> bool:
        """Whether this member has no log and knows no voters."""
        return self._core.is_new

    @property
    def awaited_founders(self) -> tuple[PeerId, ...]:
        """First voters that this member waits for to found a group; empty if there is a group."""
        core = self._core
        return core.founding.missing if core.is_new else ()

    @property
    def peers_to_dial(self) -> Peers:
        """Other voters with their addresses, from the log and from the last LearnerWelcome."""
        return tuple(sorted(self._core.known_voters.items()))

    @property
    def progress(self) -> tuple[PeerProgress, ...]:
        """What a leader knows of its peers; empty for other roles."""
        role = self._roles.current
        return role.progress() if isinstance(role, Leader) else ()


def _log_from(hard_state: HardState, snapshot: Snapshot, entries: Sequence[Entry]) -> RaftLog:
    try:
        log = RaftLog(snapshot, entries, hard_state.commit_index)
    except InvalidMessage as error:
        raise CorruptRaftState(f"invalid entry on disk: {error}") from error
    if log.last_term > hard_state.term:
        raise CorruptRaftState(
            f"the log has entries of term {log.last_term}, but the hard state is of term"
            f" {hard_state.term}: they are not of the same member, or the disk lost a write"
        )
    return log


def _has_work(ready: Ready) -> bool:
    return any(
        (
            ready.messages,
            ready.snapshot is not None,
            ready.entries,
            ready.hard_state is not None,
            ready.messages_persisted,
            ready.committed,
            ready.reads,
            ready.leadership is not None,
        )
    )
