"""What a leader sends its peers: entries, heartbeats, commit indexes and snapshots.

Events send nothing by themselves. `feed()`, once for each Ready, compares what each peer has or is
about to get with what it should have. So all proposals since the last Ready travel in one message,
and a new commit index is sent at once, without waiting for a heartbeat.

Source: Raft paper 5.3, 7; Raft thesis 10.2.1, 10.2.2 (batching and pipelining).
"""

from penstock.base.ids import PeerId
from penstock.raft.core import Core
from penstock.raft.entry import Entry
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import NO_INDEX, NO_TERM, DirectoryId, RaftIndex
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    SnapshotResponse,
)
from penstock.raft.roles.progress import FeedState, Progress


class Replicator:
    """The peers of one leader in one term: the other voters, and learners."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.peers: dict[PeerId, Progress] = {}
        self.lost_since: dict[PeerId, int] = {}
        """Voters that run with another directory than they vote with -> tick when this began."""

    def reconcile(self) -> None:
        """Keep one Progress for each other voter and each learner, and for nobody else."""
        core = self._core
        configuration = core.configuration
        for peer_id in configuration.voter_ids:
            core.learners.forget(peer_id, configuration.directory_of(peer_id))
        wanted = dict.fromkeys((*core.other_voters, *core.learners.peer_ids))
        for peer_id in [p for p in self.peers if p not in wanted]:
            del self.peers[peer_id]
        for peer_id in wanted:
            if peer_id not in self.peers:
                self.start(
                    peer_id,
                    RaftIndex(core.log.last_index + 1),
                    DirectoryId(self._directory_of(peer_id)),
                )
        self._note_lost_voters()

    def start(self, peer_id: PeerId, next_index: RaftIndex, directory_id: DirectoryId) -> None:
        """Begin to send entries to a peer, or start over."""
        self.peers[peer_id] = Progress(peer_id, next_index, self._core.ticks, directory_id)

    def counted(self, voter: PeerId) -> Progress | None:
        """Return the progress of a voter; None while it runs with another directory.

        That directory has a log and votes of its own, which no configuration counts.
        """
        progress = self.peers.get(voter)
        is_counted = progress is not None and progress.counts_in(self._core.configuration)
        return progress if is_counted else None

    def _directory_of(self, peer_id: PeerId) -> str:
        """Return the directory with which a peer is expected to answer."""
        learners, configuration = self._core.learners, self._core.configuration
        if learners.has(peer_id):
            return learners.directory_of(peer_id)
        return configuration.directory_of(peer_id)

    def _note_lost_voters(self) -> None:
        """Note since when voters run with another directory than they vote with."""
        core = self._core
        lost = [voter for voter in core.other_voters if self.counted(voter) is None]
        self.lost_since = {voter: self.lost_since.get(voter, core.ticks) for voter in lost}

    # -- sending

    def feed(self, current_round: int) -> None:
        """Send every peer what it lacks and may get now."""
        for progress in self.peers.values():
            self._feed(progress, current_round)

    def _feed(self, progress: Progress, current_round: int) -> None:
        log, config = self._core.log, self._core.config
        limits = config.inflight_messages_max, config.inflight_bytes_max
        if (
            progress.state is not FeedState.SNAPSHOT
            and log.term(RaftIndex(progress.next_index - 1)) is None
        ):
            # The entry is compacted: the peer could not even check a heartbeat against it.
            progress.send_snapshot(log.snapshot)
        if progress.state is FeedState.PROBE and progress.may_probe:
            progress.may_probe = False
            self._append(progress, current_round)
        while (
            progress.state is FeedState.REPLICATE
            and progress.next_index <= log.last_index
            and not progress.is_window_full(*limits)
        ):
            self._append(progress, current_round)
        if progress.state is FeedState.SNAPSHOT:
            self._send_chunk(progress)
        news = min(log.commit_index, progress.next_index - 1) > progress.sent_commit_index
        is_news = news and progress.state is FeedState.REPLICATE
        if is_news or progress.sent_round < current_round:
            self._heartbeat(progress, current_round)

    def _append(self, progress: Progress, current_round: int) -> None:
        """Send entries from next_index on."""
        log = self._core.log
        entries: tuple[Entry, ...] = ()
        if progress.next_index <= log.last_index:
            limit = self._core.config.entries_bytes_max
            entries = log.entries_from(progress.next_index, limit)
        self._send(progress, RaftIndex(progress.next_index - 1), entries, current_round)
        if entries and progress.state is FeedState.REPLICATE:
            progress.note_sent(entries[-1].index, sum(e.bytes_count for e in entries))

    def _heartbeat(self, progress: Progress, current_round: int) -> None:
        # While a snapshot is under way only the sign of life matters. Index 0 passes the check of
        # every log.
        is_snapshot = progress.state is FeedState.SNAPSHOT
        previous = NO_INDEX if is_snapshot else RaftIndex(progress.next_index - 1)
        self._send(progress, previous, (), current_round)

    def _send(
        self,
        progress: Progress,
        previous: RaftIndex,
        entries: tuple[Entry, ...],
        current_round: int,
    ) -> None:
        core = self._core
        message = AppendEntries(
            sender=core.own_id,
            term=core.term,
            previous_index=previous,
            previous_term=(core.log.term(previous) or NO_TERM) if previous else NO_TERM,
            entries=entries,
            commit_index=core.log.commit_index,
            round=current_round,
        )
        # In parallel with our own disk: our copy counts only once it is durable (thesis 10.2.1).
        core.send(progress.peer_id, message)
        progress.sent_round = current_round
        reached = min(core.log.commit_index, previous + len(entries))
        progress.sent_commit_index = max(progress.sent_commit_index, reached)

    def _send_chunk(self, progress: Progress) -> None:
        core, snapshot = self._core, progress.snapshot
        assert snapshot is not None
        waits = progress.chunk_tick is not None
        if waits and core.ticks - (progress.chunk_tick or 0) < core.config.election_ticks_min:
            return
        position = progress.snapshot_position
        end = position + core.config.snapshot_chunk_bytes
        chunk = InstallSnapshot(
            sender=core.own_id,
            term=core.term,
            snapshot_index=snapshot.index,
            snapshot_term=snapshot.term,
            voters=snapshot.configuration.voters,
            directories=snapshot.configuration.directories,
            vacant=snapshot.configuration.vacant,
            position=position,
            data=snapshot.data[position:end],
            is_last=end >= len(snapshot.data),
        )
        core.send(progress.peer_id, chunk)
        progress.chunk_tick = core.ticks

    # -- answers

    def on_append_response(self, message: AppendResponse) -> None:
        """Note what a peer has, or where its log parts from ours."""
        progress = self.peers.get(message.sender)
        if progress is None:
            return
        if progress.directory_id != message.directory_id:
            next_index = RaftIndex(self._core.log.last_index + 1)
            self.start(message.sender, next_index, message.directory_id)
            progress = self.peers[message.sender]
        if progress.counts_in(self._core.configuration):
            self.lost_since.pop(message.sender, None)
        progress.heard_tick = self._core.ticks
        progress.acked_round = max(progress.acked_round, message.round)
        if message.is_success:
            self._on_success(progress, message)
        else:
            self._on_rejection(progress, message)

    def _on_success(self, progress: Progress, message: AppendResponse) -> None:
        log = self._core.log
        if message.match_index > log.last_index:
            raise InvalidMessage(f"peer {message.sender} has more than the leader sent")
        progress.note_match(message.match_index)
        if progress.state is FeedState.PROBE:
            progress.replicate()
        elif (snapshot := progress.snapshot) is not None:
            # It is installed, or the peer turns out to have enough. Entries after an installed one
            # may be compacted by now: then a newer snapshot follows.
            is_installed = progress.match_index >= snapshot.index
            if is_installed or log.term(progress.match_index) is not None:
                progress.probe_from(RaftIndex(progress.match_index + 1))

    def _on_rejection(self, progress: Progress, message: AppendResponse) -> None:
        is_probe = progress.state is FeedState.PROBE
        is_stale = message.rejected_index <= progress.match_index or (
            is_probe and message.rejected_index != progress.next_index - 1
        )
        if is_stale or progress.state is FeedState.SNAPSHOT:
            return
        hint = self._core.log.last_not_after(message.hint_index, message.hint_term)
        # Always below the rejected index, or a peer could be asked the same forever.
        progress.probe_from(min(RaftIndex(hint + 1), message.rejected_index))

    def on_snapshot_response(self, message: SnapshotResponse) -> None:
        """Go on with the snapshot where the peer says."""
        progress = self.peers.get(message.sender)
        if progress is None or progress.snapshot is None:
            return
        if progress.directory_id != message.directory_id:
            return  # the answer to the next heartbeat shows the new directory as well
        progress.heard_tick = self._core.ticks
        snapshot = progress.snapshot
        is_other = message.snapshot_index != snapshot.index
        is_under_way = message.position == progress.snapshot_position
        if is_other or is_under_way:
            return
        if not 0 <= message.position <= len(snapshot.data):
            raise InvalidMessage(f"peer {message.sender} has more of a snapshot than was sent")
        progress.snapshot_position = message.position
        progress.chunk_tick = None
