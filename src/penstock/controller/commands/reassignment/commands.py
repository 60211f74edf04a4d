"""Commands that begin, cancel, advance and end reassignments of replica sets.

Source: Kafka's AlterPartitionReassignments request, whose partitions stand for their sets here.
"""

from dataclasses import dataclass

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import Command
from penstock.controller.errors import MetadataError

ANY_COUNT = -1
NOBODY = BrokerId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTarget:
    """The members that a set is to have, preferred master first; None takes a reassignment back.

    `partition_count` are the partitions that whoever asks knows to be in the set: where there are
    others by now the set stays as it is. `may_resize`: whether the number of members may change.
    """

    replica_set_id: ReplicaSetId
    replicas: tuple[BrokerId, ...] | None
    partition_count: int = ANY_COUNT
    may_resize: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOutcome:
    """The outcome for one set: its reassignment is under way or over, or `error` says why not."""

    error: MetadataError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign(Command[tuple[SetOutcome, ...]]):
    """Begin, change or take back reassignments, each set once. Outcomes are in their order."""

    sets: tuple[SetTarget, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceReassignment(Command[None]):
    """Add a member, or remove one, or end the reassignment where neither is named.

    `target` is the one that the step was chosen for: with another by now the step is refused. The
    active controller asks for it; it is never sent.
    """

    replica_set_id: ReplicaSetId
    target: tuple[BrokerId, ...]
    added: BrokerId = NOBODY
    removed: BrokerId = NOBODY
