"""The next step of a reassignment, from the set and the brokers that are there: a pure function.

    members that are out of step and are to go   removed at once, where nothing is lost by that
    members that are missing                     added one at a time, each once all that are alive
                                                 and stay are in step
    a master that is to go                       gives the set to the first member that stays
    members in step that are to go               removed one at a time, while all that stay are in
                                                 step
    none of these                                the reassignment ends

So no step lowers the number of members in step before all that were wanted are, and at most one
member copies the log of a set. A step that can not be taken now is waited for: None.

Source: KIP-455, where all replicas are added at once and all removed at once; guardian's rule that
one replica moves at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.ids import BrokerId
from penstock.controller.commands.replica_sets import REPLICAS_MAX, removed
from penstock.controller.errors import InvalidMetadataRequest
from penstock.controller.metadata.image import NO_MASTER, ReplicaSetImage
from penstock.controller.metadata.reassignment_records import ReassignmentChanged


@dataclass(frozen=True, slots=True)
class Add:
    """The set gets this member."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class Remove:
    """The set loses this member."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class Lead:
    """The mastership moves to one of these, the first that can take it."""

    broker_ids: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The set has the members that it was to have."""


Step = Add | Remove | Lead | End

IsAble = Callable[[BrokerId], bool]
"""Whether a broker is alive and may get duties."""


def next_step(
    replica_set: ReplicaSetImage, wanted: ReassignmentChanged, is_able: IsAble
) -> Step | None:
    """Return what to do now, None while something has to be waited for."""
    surplus = [one for one in replica_set.replicas if one not in wanted.target]
    missing = [one for one in wanted.target if one not in replica_set.replicas]
    in_step = replica_set.sync_state_set
    are_all_in_step = all(one in in_step for one in wanted.target)
    if not surplus and not missing:
        return End() if are_all_in_step or wanted.is_cancelled else None
    for one in surplus:
        is_useless = not is_able(one) or one not in wanted.before
        if one not in in_step and is_useless and _may_go(replica_set, one):
            return Remove(one)
    if missing:
        able = [one for one in missing if is_able(one)]
        may_add = _may_grow(replica_set) and not joining(replica_set, wanted, is_able)
        return Add(able[0]) if able and may_add else None
    if not are_all_in_step or replica_set.master == NO_MASTER:
        return None
    if replica_set.master in surplus:
        return Lead(wanted.target)
    return next((Remove(one) for one in surplus if _may_go(replica_set, one)), None)


def joining(
    replica_set: ReplicaSetImage, wanted: ReassignmentChanged, is_able: IsAble
) -> list[BrokerId]:
    """Return the members that stay, are alive and are not in step: they copy the log."""
    return [
        one
        for one in wanted.target
        if one in replica_set.replicas and one not in replica_set.sync_state_set and is_able(one)
    ]


def _may_go(replica_set: ReplicaSetImage, broker_id: BrokerId) -> bool:
    try:
        removed(replica_set, broker_id)
    except InvalidMetadataRequest:
        return False
    return True


def _may_grow(replica_set: ReplicaSetImage) -> bool:
    """Whether writes go on while the new member copies the log: it counts as a replica at once.

    A set of one under `quorum` has no other way to grow.
    """
    count, in_step = len(replica_set.replicas), len(replica_set.sync_state_set)
    if count >= REPLICAS_MAX:
        return False
    return count == 1 or replica_set.policy.copies_needed(count + 1, in_step) <= in_step
