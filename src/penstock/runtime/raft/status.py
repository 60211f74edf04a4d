"""What a member knows of its group, for people. It decides nothing."""

from dataclasses import dataclass

from penstock.raft.raft import Raft
from penstock.raft.ready import PeerProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftPeerStatus:
    """One member as the leader sees it; on others only id, address and vote are known."""

    peer_id: int
    address: str
    """host:port; empty for a learner, which dials."""
    is_voter: bool
    state: str
    """How the leader feeds it; "leader" for itself, "unknown" where this member does not lead."""
    match_index: int
    """Everything up to it, inclusive, is durable there; -1 where this member does not lead."""
    lag_entries: int
    """Entries that it lacks; -1 where this member does not lead."""
    silent_ms: int
    """Since its last answer; -1 where this member does not lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftStatus:
    """A member's view of the group. Indexes are Raft's and count no-ops and configurations too."""

    own_id: int
    role: str
    term: int
    leader_id: int
    commit_index: int
    applied_index: int
    last_index: int
    snapshot_index: int
    is_fenced: bool
    peers: tuple[RaftPeerStatus, ...]


def peer_statuses(core: Raft, own_id: int, tick_ms: int) -> tuple[RaftPeerStatus, ...]:
    """Return voters in order of their ids, then the learners that a leader feeds."""
    known = {one.peer_id: one for one in core.progress}
    if core.leadership.is_leader:
        known[own_id] = PeerProgress(own_id, True, "leader", core.last_index, 0)
    addresses = core.configuration.addresses
    ids = [*addresses, *(peer_id for peer_id in known if peer_id not in addresses)]
    return tuple(
        _peer_status(peer_id, addresses.get(peer_id), known.get(peer_id), core.last_index, tick_ms)
        for peer_id in ids
    )


def _peer_status(
    peer_id: int, address: str | None, progress: PeerProgress | None, last_index: int, tick_ms: int
) -> RaftPeerStatus:
    return RaftPeerStatus(
        peer_id=peer_id,
        address=address or "",
        is_voter=address is not None,
        state=progress.state if progress else "unknown",
        match_index=progress.match_index if progress else -1,
        lag_entries=last_index - progress.match_index if progress else -1,
        silent_ms=progress.silent_ticks * tick_ms if progress else -1,
    )
