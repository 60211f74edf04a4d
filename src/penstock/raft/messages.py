"""The messages between peers. All fields are plain values, so that a generic codec can carry them.

    sender          message                 answer
    candidate       VoteRequest             VoteResponse
    leader          AppendEntries           AppendResponse
    leader          InstallSnapshot         SnapshotResponse per chunk, AppendResponse once durable
    leader          TimeoutNow              (a VoteRequest of a later term)
    learner         LearnerHello            LearnerWelcome

Every message names its sender and the sender's term; a pre-vote names the term it would ask for.
Messages about a log or a vote name the directory that holds it (`directory_id`, ADR 0027); a
release without directory ids leaves the field out, which reads as "".
A heartbeat is an AppendEntries without entries, as in the paper. The receiver is not in the message
but beside it (ready.Outgoing).

Source: Raft paper, figures 2 and 13; Raft thesis 3.10 (TimeoutNow), 9.6 (pre-vote). Learners that
announce themselves are ours.
"""

from dataclasses import dataclass

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration, Peers
from penstock.raft.entry import Entry
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import NO_DIRECTORY, DirectoryId, RaftIndex, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Ask for a vote, or, with `is_pre_vote`, whether one would be given; that changes nothing."""

    sender: PeerId
    term: Term
    """The candidate's term; for a pre-vote the term it would have."""
    is_pre_vote: bool
    is_transfer: bool
    """The leader itself asked for this election: do not refuse because it was heard lately."""
    last_index: RaftIndex
    last_term: Term
    directory_id: DirectoryId = NO_DIRECTORY
    voter_directory_id: DirectoryId = NO_DIRECTORY
    """Directory of the receiver in the sender's configuration; with another one it may not vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    """A granted pre-vote has the term that was asked for, everything else the sender's term."""

    sender: PeerId
    term: Term
    is_pre_vote: bool
    is_granted: bool
    directory_id: DirectoryId = NO_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntries:
    """Entries behind (previous_index, previous_term); without entries a heartbeat."""

    sender: PeerId
    term: Term
    previous_index: RaftIndex
    previous_term: Term
    entries: tuple[Entry, ...]
    commit_index: RaftIndex
    """The leader's, inclusive; may lie beyond the entries sent so far."""
    round: int
    """The leader's counter. The answer repeats it, which shows that it still led in that round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResponse:
    """Says that everything up to `match_index` is durable and equal, or where the logs differ."""

    sender: PeerId
    term: Term
    round: int
    """That of the request; 0 where the answer is to a snapshot."""
    is_success: bool
    match_index: RaftIndex
    """On success the last index known to be equal, inclusive; else 0."""
    rejected_index: RaftIndex
    """On failure the request's previous_index; else 0."""
    hint_index: RaftIndex
    """On failure the highest index at which the logs may still be equal; else 0."""
    hint_term: Term
    """The sender's term at hint_index."""
    directory_id: DirectoryId = NO_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """One chunk of the snapshot that stands for everything up to `snapshot_index`."""

    sender: PeerId
    term: Term
    snapshot_index: RaftIndex
    snapshot_term: Term
    voters: Peers
    """The configuration at snapshot_index: (peer id, address)."""
    position: int
    """Where `data` belongs, in bytes."""
    data: bytes
    is_last: bool
    directories: tuple[DirectoryId, ...] = ()
    """The directory id of each voter, in their order; empty where none has one."""
    vacant: Peers = ()
    """Seats of voters that lost their directory: (peer id, address)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResponse:
    """How much of a snapshot arrived; the leader goes on there."""

    sender: PeerId
    term: Term
    snapshot_index: RaftIndex
    position: int
    """Bytes held, which is where the next chunk must begin."""
    directory_id: DirectoryId = NO_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutNow:
    """The leader asks this voter to take over: campaign at once."""

    sender: PeerId
    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerHello:
    """A learner announces itself to every voter; the one that leads sends it entries."""

    sender: PeerId
    term: Term
    last_index: RaftIndex
    last_term: Term
    directory_id: DirectoryId = NO_DIRECTORY
    is_new: bool = False
    """Its log is empty and it knows no voters: it may take part in founding a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerWelcome:
    """The answer to a hello: who leads, and where the voters are."""

    sender: PeerId
    term: Term
    leader_id: PeerId
    """NO_PEER while the sender knows none."""
    voters: Peers
    directories: tuple[DirectoryId, ...] = ()
    """The directory id of each voter, in their order; empty where none has one."""


def configuration_of(message: InstallSnapshot | LearnerWelcome) -> Configuration:
    """Return the configuration that a message carries. Raises InvalidMessage."""
    vacant = message.vacant if isinstance(message, InstallSnapshot) else ()
    ids = [peer_id for peer_id, _ in message.voters]
    directories = message.directories if any(message.directories) else ()
    is_valid = ids == sorted(dict.fromkeys(ids)) and len(directories) in {0, len(ids)}
    vacant_ids = [peer_id for peer_id, _ in vacant]
    if not is_valid or vacant_ids != sorted(dict.fromkeys(vacant_ids)):
        raise InvalidMessage(f"an invalid configuration from peer {message.sender}")
    return Configuration(voters=message.voters, directories=directories, vacant=vacant)


Message = (
    VoteRequest
    | VoteResponse
    | AppendEntries
    | AppendResponse
    | InstallSnapshot
    | SnapshotResponse
    | TimeoutNow
    | LearnerHello
    | LearnerWelcome
)
