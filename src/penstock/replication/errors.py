"""Replication errors: who may write to a replica set, and with which epoch.

ReplicationError
  NotMaster                    this broker does not lead the set: ask for metadata again
  FencedLeaderEpoch            the caller's epoch is older than the set's
  UnknownLeaderEpoch           the caller's epoch is newer than the set's
  NotEnoughReplicas            the sync-state set is smaller than the topic's minimum
  NotEnoughReplicasAfterAppend the set became smaller than that before the write was confirmed
  InvalidHaMessage             a frame on a replication link that cannot be read
"""

from penstock.base.errors import PlatformError


class ReplicationError(PlatformError):
    """A request that the current state of the replica set does not allow."""


class NotMaster(ReplicationError):
    """This broker is not the master of the replica set that holds the partition."""


class FencedLeaderEpoch(ReplicationError):
    """The caller acts on an older mastership; it must fetch metadata."""

    def __init__(self, requested: int, current: int) -> None:
        super().__init__(f"leader epoch {requested} is fenced by {current}")
        self.requested = requested
        self.current = current


class UnknownLeaderEpoch(ReplicationError):
    """The caller has heard of a newer mastership than this broker has."""

    def __init__(self, requested: int, current: int) -> None:
        super().__init__(f"leader epoch {requested} is not known here, the newest is {current}")
        self.requested = requested
        self.current = current


class NotEnoughReplicas(ReplicationError):
    """Fewer members are in the sync-state set than `min.insync.replicas` asks for."""

    def __init__(self, in_sync: int, minimum: int) -> None:
        super().__init__(f"{in_sync} replicas in sync, min.insync.replicas is {minimum}")
        self.in_sync = in_sync
        self.minimum = minimum


class NotEnoughReplicasAfterAppend(NotEnoughReplicas):
    """The write is in the log; the set shrank below the minimum before it was confirmed."""


class InvalidHaMessage(ReplicationError):
    """Bytes on a replication link that cannot be decoded: the link is closed."""
