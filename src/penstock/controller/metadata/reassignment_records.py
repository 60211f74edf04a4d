"""The record of a reassignment: which members a replica set is to have.

Its kind may be carried: releases that do not know it change no members by themselves, and a set
stays usable whatever members it has. With a controller of such a release as the active one, a
reassignment rests; the next one that knows it goes on.

Source: KIP-455; Kafka keeps adding and removing replicas in each PartitionRecord.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.metadata.kinds import RecordKind
from penstock.controller.metadata.levels import CARRIED_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentChanged:
    """A replica set is to have the members `target`, preferred master first.

    `before` are the members that a cancellation gives back; it is empty once that was asked for.
    """

    KIND: ClassVar = RecordKind.REASSIGNMENT_CHANGED
    LEVEL: ClassVar = CARRIED_LEVEL
    key: str
    """The id of the set, as text: what a release that carries the record keeps it by."""
    target: tuple[BrokerId, ...]
    before: tuple[BrokerId, ...]

    @property
    def replica_set_id(self) -> ReplicaSetId:
        """The set."""
        return ReplicaSetId(int(self.key))

    @property
    def is_cancelled(self) -> bool:
        """Whether the set is on its way back to the members that it had."""
        return not self.before


def key_of(set_id: ReplicaSetId) -> str:
    """Return the key of a set's record."""
    return str(int(set_id))
