"""Errors of the raft room.

RaftError
  ProposalDropped        not the leader, or the leader is handing over: ask leader_id
  ProposalQueueFull      too much is waiting for its commit: try again later
  ProposalTooLarge       the payload is larger than one entry may be
  ChangeRefused          a membership change that is not possible now; the text says why
  TransferRefused        a leadership transfer that is not possible; the text says why
  ReadRefused            not the leader, or too many reads are waiting
  InvalidMessage         a message that no correct peer sends: close the link
  CorruptRaftState       the state on disk contradicts itself: do not start with it
"""

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId


class RaftError(PlatformError):
    """Anything about consensus."""


class ProposalDropped(RaftError):
    def __init__(self, leader_id: PeerId) -> None:
        super().__init__(f"Not taken: the leader is {leader_id} (-1: none known, try again).")
        self.leader_id = leader_id


class ProposalQueueFull(RaftError):
    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"{limit_bytes} bytes are waiting for their commit; try again later.")
        self.limit_bytes = limit_bytes


class ProposalTooLarge(RaftError):
    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"An entry of {size_bytes} bytes is too large: at most {limit_bytes}.")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ChangeRefused(RaftError):
    """The voters stay as they are; the text says why and what to do."""


class TransferRefused(RaftError):
    """The leader stays; the text says why and what to do."""


class ReadRefused(RaftError):
    def __init__(self, leader_id: PeerId, reason: str) -> None:
        super().__init__(f"No consistent read here: {reason} (leader: {leader_id}).")
        self.leader_id = leader_id


class InvalidMessage(RaftError):
    """A message that contradicts itself or the protocol."""


class CorruptRaftState(RaftError):
    """Hard state, snapshot and entries do not fit together."""
