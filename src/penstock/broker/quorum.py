"""The members of the metadata log's group, as the active controller reports them to brokers.

Log positions count entries: a member with position n has the first n of them. Source:
Kafka's DescribeQuorum (KIP-595, KIP-836, KIP-853), in whose terms fronts answer.
"""

from typing import NamedTuple

from penstock.raft.ids import DirectoryId

UNKNOWN = -1


class QuorumMember(NamedTuple):
    """A voter or an observer."""

    peer_id: int
    directory_id: DirectoryId
    """Directory id, base64 of 16 bytes; empty if unknown."""
    host: str
    port: int
    """Port; 0 for an observer, which is not dialled."""
    is_voter: bool
    end_position: int
    """UNKNOWN if the answering controller does not lead."""
    is_leader: bool
    silent_ms: int
    """Since its last answer; UNKNOWN if the answering controller does not lead."""


class Quorum(NamedTuple):
    """The members by id, and the number of committed entries."""

    leader_id: int
    term: int
    agreed_position: int
    members: tuple[QuorumMember, ...]
