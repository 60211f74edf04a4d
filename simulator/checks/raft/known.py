"""What a member of the controllers' group knows, without the rest of its `status`.

It is looked at with each message and each few milliseconds: the status has all peers, too, and took
a twentieth of a run.
"""

from penstock.base.ids import PeerId
from penstock.raft.ids import RaftIndex, Term
from penstock.runtime.raft.raft_log import RaftLog


def applied_index(log: RaftLog) -> RaftIndex:
    """Return the last entry that it has applied."""
    return log._numbering.raft_index  # noqa: SLF001


def term_of(log: RaftLog) -> Term:
    """Return the term that it is in."""
    return log._core.term  # noqa: SLF001


def voters_of(log: RaftLog) -> frozenset[PeerId]:
    """Return the voters by the newest configuration in its log, without vacant seats."""
    return frozenset(log._core.configuration.voter_ids)  # noqa: SLF001
