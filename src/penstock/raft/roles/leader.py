"""The leader: it takes proposals, commits what a majority has, and steps down when it must.

Its own copy counts like any other, and only once it is durable. Only entries of its own term are
committed by counting; earlier ones are committed with them. It steps down when a later term
appears, when a majority is silent (check quorum), and when it has committed a configuration without
itself.

Source: Raft paper 5.3, 5.4.2, 8; Raft thesis 4.2.2 (removed leader), 6.2 (stepping down).
"""

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.errors import (
    ProposalDropped,
    ProposalQueueFull,
    ProposalTooLarge,
    TransferRefused,
)
from penstock.raft.ids import NO_INDEX, DirectoryId, RaftIndex
from penstock.raft.messages import (
    AppendResponse,
    LearnerHello,
    Message,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
)
from penstock.raft.quorum import majority_value
from penstock.raft.ready import NO_PEER, PeerProgress, Role
from penstock.raft.roles import members, readmission
from penstock.raft.roles.progress import Progress
from penstock.raft.roles.replication import Replicator
from penstock.raft.roles.rounds import Rounds
from penstock.raft.roles.transfer import Transfer


class Leader:
    """The leader of one term.

    Between calls, once it has begun and for as long as it leads:
    - The core's term stays, and all entries from `first_index` on are of that term.
    - No entry is truncated, and no peer's match index lies behind the end of the log.
    - `_uncommitted_bytes` is the size of the entries behind the commit index.
    - Every other voter has a Progress.
    - No configuration is appended before all earlier ones and an entry of this term are committed.
    """

    kind = Role.LEADER

    def __init__(self, core: Core) -> None:
        self._core = core
        self._replicator = Replicator(core)
        self.rounds = Rounds(core, self._peers)
        self._transfer = Transfer(core)
        self._heartbeat_ticks = 0
        log = core.log
        self.first_index = RaftIndex(log.last_index + 1)
        """The empty entry with which the term begins."""
        self._uncommitted_bytes = log.bytes_between(log.commit_index, log.last_index)

    @property
    def _peers(self) -> dict[PeerId, Progress]:
        return self._replicator.peers

    def begin(self) -> None:
        """Append the empty first entry: its commit commits earlier terms' entries (paper 8)."""
        self._replicator.reconcile()
        self.rounds.begin()
        self._append(EntryKind.NOOP, b"")

    # -- requests

    def propose(self, payload: bytes) -> RaftIndex:
        """Append a payload; return its index. Raises as Raft.propose says."""
        config = self._core.config
        if self._transfer.is_under_way:
            raise ProposalDropped(self._transfer.to)
        if len(payload) > config.entry_bytes_max:
            raise ProposalTooLarge(len(payload), config.entry_bytes_max)
        if self._uncommitted_bytes + len(payload) > config.uncommitted_bytes_max:
            raise ProposalQueueFull(config.uncommitted_bytes_max)
        return self._append(EntryKind.NORMAL, payload)

    def add_voter(
        self, peer_id: PeerId, address: str, directory_id: DirectoryId | None
    ) -> RaftIndex:
        """See Raft.add_voter."""
        voter = members.NewVoter(peer_id, address, directory_id)
        return self._change(members.with_voter(self._core, self._peers, voter))

    def remove_voter(self, peer_id: PeerId, directory_id: DirectoryId | None) -> RaftIndex:
        """See Raft.remove_voter."""
        core = self._core
        configuration = members.without_voter(core, self._replicator, peer_id, directory_id)
        if peer_id != core.own_id and peer_id in self._peers:
            # It still gets entries, as a learner, so that it hears of its removal.
            core.learners.note(peer_id, core.ticks, self._peers[peer_id].directory_id)
        return self._change(configuration)

    def transfer(self, to: PeerId) -> None:
        """See Raft.transfer."""
        if to in self._core.other_voters and self._replicator.counted(to) is None:
            raise TransferRefused(
                f"{to} lost the directory that it votes with: it can lead once it has its vote back"
            )
        self._transfer.begin(to)

    def _change(self, configuration: Configuration) -> RaftIndex:
        if self._transfer.is_under_way:
            raise ProposalDropped(self._transfer.to)
        index = self._append(EntryKind.CONFIGURATION, configuration.encode())
        # In force from here on, for counting too (thesis 4.1).
        self._replicator.reconcile()
        return index

    def _append(self, kind: EntryKind, payload: bytes) -> RaftIndex:
        core = self._core
        index = RaftIndex(core.log.last_index + 1)
        entry = Entry(index=index, term=core.term, kind=kind, payload=payload)
        core.log.append([entry])
        self._uncommitted_bytes += entry.bytes_count
        return index

    # -- time

    def tick(self) -> None:
        """Send heartbeats, drop silent learners, step down without a majority."""
        core = self._core
        self._transfer.tick()
        core.learners.forget_silent(core.ticks)
        self._replicator.reconcile()
        if not self._hears_majority():
            core.transitions.follow(core.term, NO_PEER)
            return
        self._readmit()
        self._heartbeat_ticks += 1
        if self._heartbeat_ticks >= core.config.heartbeat_ticks:
            self._heartbeat_ticks = 0
            self.rounds.begin()

    def _readmit(self) -> None:
        """Give a voter with a new directory its vote back, one step at a time."""
        if self._transfer.is_under_way:
            return
        configuration = readmission.next_step(self._core, self._replicator)
        if configuration is not None:
            self._change(configuration)

    def _hears_majority(self) -> bool:
        core = self._core
        long_ago = core.ticks - core.config.election_ticks_max
        counted = {voter: self._replicator.counted(voter) for voter in core.other_voters}
        ticks = {
            voter: progress.heard_tick if progress else long_ago
            for voter, progress in counted.items()
        }
        heard = majority_value(
            core.ticks if voter == core.own_id else ticks[voter]
            for voter in core.configuration.voter_ids
        )
        return core.ticks - heard < core.config.election_ticks_max

    # -- messages

    def step(self, message: Message) -> None:
        """Take a message of the current term (a hello may be of any)."""
        match message:
            case AppendResponse():
                self.rounds.check(message)
                self._note_alive(message.sender, message.directory_id)
                self._replicator.on_append_response(message)
                self.maybe_commit()
            case SnapshotResponse():
                self._note_alive(message.sender, message.directory_id)
                self._replicator.on_snapshot_response(message)
            case _:
                pass

    def peer_lost(self, peer_id: PeerId) -> None:
        """Note that messages under way to this peer are lost."""
        if (progress := self._peers.get(peer_id)) is not None:
            progress.probe_from(RaftIndex(progress.match_index + 1))

    def on_non_voter(self, message: LearnerHello | VoteRequest) -> None:
        """Begin to send entries to a peer that is no voter; the message says where its log ends.

        A peer that asks for votes was removed and does not know it; the entries will tell it.
        """
        core = self._core
        sender = message.sender
        directory_id = message.directory_id
        if core.configuration.is_voter(sender, directory_id):
            return
        if not core.learners.note(sender, core.ticks, directory_id):
            return
        progress = self._peers.get(sender)
        is_other = progress is None or progress.directory_id != directory_id
        if progress is None or is_other or message.last_index < progress.match_index:
            next_index = RaftIndex(min(message.last_index, core.log.last_index) + 1)
            self._replicator.start(sender, next_index, directory_id)

    def _note_alive(self, peer_id: PeerId, directory_id: DirectoryId) -> None:
        learners = self._core.learners
        if learners.has(peer_id) and learners.directory_of(peer_id) == directory_id:
            learners.note(peer_id, self._core.ticks, directory_id)

    def _matched(self, voter: PeerId) -> RaftIndex:
        """Return the match index of a voter in the directory with which it votes."""
        progress = self._replicator.counted(voter)
        return NO_INDEX if progress is None else progress.match_index

    # -- commit

    def maybe_commit(self) -> None:
        """Commit what a majority has, if its last entry is of this term (paper 5.4.2)."""
        core = self._core
        log = core.log
        matched = majority_value(
            log.stable_index if voter == core.own_id else self._matched(voter)
            for voter in core.configuration.voter_ids
        )
        index = RaftIndex(matched)
        before = log.commit_index
        if index > before and log.term(index) == core.term and log.commit_to(index):
            self._uncommitted_bytes -= log.bytes_between(before, index)

    # -- sending

    def flush(self) -> None:
        """Send the peers what they lack; answer reads; hand over or step down if it is time."""
        core = self._core
        self.maybe_commit()
        self.rounds.begin_reads()
        self.rounds.answer_reads()
        self._replicator.feed(self.rounds.current)
        self._transfer.maybe_ask(self._replicator.counted(self._transfer.to))
        is_final = core.log.configurations.latest_index <= core.log.commit_index
        if is_final and not core.is_voter:
            self._leave()

    def _leave(self) -> None:
        """Step down once its own removal is committed; the most advanced voter campaigns now."""
        core = self._core
        best = max(core.other_voters, key=self._matched)
        core.send(best, TimeoutNow(sender=core.own_id, term=core.term))
        core.transitions.follow(core.term, NO_PEER)

    # -- status

    def progress(self) -> tuple[PeerProgress, ...]:
        """Return what is known of each peer."""
        core = self._core
        return tuple(
            PeerProgress(
                peer_id=progress.peer_id,
                is_voter=progress.counts_in(core.configuration),
                state=progress.state.value,
                match_index=progress.match_index,
                silent_ticks=core.ticks - progress.heard_tick,
                directory_id=progress.directory_id,
            )
            for progress in self._peers.values()
        )
