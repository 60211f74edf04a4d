"""What a member knows of its group, for operators. No decision depends on it."""

from dataclasses import dataclass

from penstock.base.ids import PeerId
from penstock.raft.ids import NO_DIRECTORY, DirectoryId, RaftIndex, Term
from penstock.raft.raft import Raft
from penstock.raft.ready import PeerProgress

_UNKNOWN_INDEX = RaftIndex(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftPeerStatus:
    """One member as the leader sees it; elsewhere only id, address and vote are known."""

    peer_id: PeerId
    address: str
    """host:port; empty for a learner, which dials the voters."""
    directory_id: DirectoryId
    """The directory that its vote is bound to, or that a learner runs with; empty if it is older
    than directory ids, or unknown here."""
    is_voter: bool
    state: str
    """Replication state as the leader tracks it; "leader" for itself, "lost" for a voter that runs
    with another directory and does not count, "vacant" for that voter's seat until the new
    directory has caught up, "unknown" where this member does not lead."""
    match_index: RaftIndex
    """Last durable index there, inclusive; -1 where this member does not lead."""
    lag_entries: int
    """Entries it is behind; -1 where this member does not lead."""
    silent_ms: int
    """Time since its last answer; -1 where this member does not lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftStatus:
    """A member's view of the group. Indexes are Raft's: no-ops and configurations count too."""

    own_id: PeerId
    own_directory_id: str
    role: str
    term: Term
    leader_id: PeerId
    commit_index: RaftIndex
    applied_index: RaftIndex
    last_index: RaftIndex
    snapshot_index: RaftIndex
    is_fenced: bool
    peers: tuple[RaftPeerStatus, ...]


def peer_statuses(core: Raft, own_id: PeerId, tick_ms: int) -> tuple[RaftPeerStatus, ...]:
    """Return voters and vacant seats in order of their ids, then the learners that a leader feeds.

    A peer that runs with another directory than its vote is bound to appears twice.
    """
    known = [*core.progress]
    if core.leadership.is_leader:
        known.append(PeerProgress(own_id, True, "leader", core.last_index, 0, core.own_directory))
    voting = {one.peer_id: one for one in known if one.is_voter}
    seats = [_voter_status(core, peer_id, voting.get(peer_id), tick_ms)
             for peer_id in core.configuration.voter_ids]  # fmt: skip
    seats += [_vacant_seat(peer_id, address) for peer_id, address in core.configuration.vacant]
    seats.sort(key=lambda one: one.peer_id)
    learners = (_learner_status(core, one, tick_ms) for one in known if not one.is_voter)
    return (*seats, *learners)


def _voter_status(
    core: Raft, peer_id: PeerId, progress: PeerProgress | None, tick_ms: int
) -> RaftPeerStatus:
    configuration = core.configuration
    state = "lost" if core.leadership.is_leader else "unknown"
    return RaftPeerStatus(
        peer_id=peer_id,
        address=configuration.addresses[peer_id],
        directory_id=configuration.directory_of(peer_id),
        is_voter=True,
        state=progress.state if progress else state,
        match_index=progress.match_index if progress else _UNKNOWN_INDEX,
        lag_entries=core.last_index - progress.match_index if progress else -1,
        silent_ms=progress.silent_ticks * tick_ms if progress else -1,
    )


def _vacant_seat(peer_id: PeerId, address: str) -> RaftPeerStatus:
    return RaftPeerStatus(
        peer_id=peer_id, address=address, directory_id=NO_DIRECTORY, is_voter=False,
        state="vacant", match_index=_UNKNOWN_INDEX, lag_entries=-1, silent_ms=-1,
    )  # fmt: skip


def _learner_status(core: Raft, progress: PeerProgress, tick_ms: int) -> RaftPeerStatus:
    return RaftPeerStatus(
        peer_id=progress.peer_id,
        address="",
        directory_id=progress.directory_id,
        is_voter=False,
        state=progress.state,
        match_index=progress.match_index,
        lag_entries=core.last_index - progress.match_index,
        silent_ms=progress.silent_ticks * tick_ms,
    )
