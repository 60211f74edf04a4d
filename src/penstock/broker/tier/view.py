"""What a broker knows of its tier; implemented by the runtime, which copies into it."""

from typing import Protocol

from penstock.base.ids import ReplicaSetId, TopicPartition
from penstock.replica.replica_set import ReplicaSetMember
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.metadata.manifest import Manifest
from penstock.tier.metadata.state import TierMetadata


class TierView(Protocol):
    """The tier as the masterships of this node have it."""

    def manifest(self, member: ReplicaSetMember, key: TopicPartition) -> Manifest | None:
        """Return what the tier has of a partition that is led here, as no failover can undo it.

        None: it is not known (yet), or nothing of the set is copied.
        """

    counters: CopyCounters

    async def read(self, member: ReplicaSetMember, key: TopicPartition, offset: int) -> memoryview:
        """Return whole batches of a partition that is led here; the first begins at `offset`.

        Raises TierError: the tier does not have them, or its store does not give them now.
        """

    def waiting_bytes(self, member: ReplicaSetMember) -> int:
        """Return the bytes of records of a set that may be copied and are not; a lower bound."""

    def metadata_of(self, set_id: ReplicaSetId) -> TierMetadata | None:
        """Return the metadata of a set, ahead of its log; None: it is not loaded here."""
