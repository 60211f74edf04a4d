"""Who keeps the metadata log, as the active controller tells brokers.

Positions count the entries of that log: a member with position n has the first n of them. Source:
Kafka's DescribeQuorum (KIP-595, KIP-836, KIP-853), in whose terms fronts answer.
"""

from typing import NamedTuple

UNKNOWN = -1


class QuorumMember(NamedTuple):
    """A controller, or a process that follows the log without a vote."""

    peer_id: int
    directory_id: str
    """Base64 of 16 bytes; empty where it is not known."""
    host: str
    port: int
    """0 where the member dials and is not dialled."""
    is_voter: bool
    end_position: int
    """UNKNOWN where whoever answered does not lead."""
    is_leader: bool
    silent_ms: int
    """Since the leader heard of it; UNKNOWN where whoever answered does not lead."""


class Quorum(NamedTuple):
    """The members by id, and how much they have agreed on; UNKNOWN where that is not known."""

    leader_id: int
    term: int
    agreed_position: int
    members: tuple[QuorumMember, ...]
