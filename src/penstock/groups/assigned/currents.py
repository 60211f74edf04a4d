"""What a member has, and where it is between that and what it is to have.

Source: Kafka, ConsumerGroupMember and StreamsGroupMember of group-coordinator.
"""

from enum import IntEnum
from typing import NamedTuple

from penstock.assignors.partitions import NOTHING, Partitions
from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.messages import JOIN_EPOCH


class MemberState(IntEnum):
    """Where a member is between what it has and what it is to have.

    STABLE: it has all that its epoch gives it. UNREVOKED: it was told to give partitions up, and
    has not yet. UNRELEASED: others have yet to give up what it is to get.
    """

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


STATES = frozenset(state.value for state in MemberState)


class Current(NamedTuple):
    """What a member has: partitions that it may read, and those it was told to give up.

    `previous_epoch` is the epoch before the last change of `epoch`, whose answer may be lost.
    """

    epoch: MemberEpoch
    previous_epoch: MemberEpoch
    state: MemberState
    assigned: Partitions
    revoking: Partitions


NEW = Current(JOIN_EPOCH, JOIN_EPOCH, MemberState.STABLE, NOTHING, NOTHING)
"""A member that has just joined."""
