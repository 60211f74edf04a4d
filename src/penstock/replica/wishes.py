"""The roles that the image may give to a set's member; runtime/ha/set_driver.py fulfils them.

Wishes compare as tuples: within one epoch, to lead, to resume and to be idle are the same wish. So
a mastership that is held continues when its set grows from one member or shrinks to one, and a
member that was idle in an epoch leads in a later one only.

Source: RocketMQ's ReplicasManager, as set_driver.py.
"""

from typing import NamedTuple

from penstock.base.ids import BrokerId, LeaderEpoch
from penstock.replica.replica_set import ReplicaSetMember


class Lead(NamedTuple):
    """Be master."""

    leader_epoch: LeaderEpoch


class Resume(NamedTuple):
    """Be master again as before the restart, once all replicas agree."""

    leader_epoch: LeaderEpoch


class Follow(NamedTuple):
    """Be slave of `master`."""

    leader_epoch: LeaderEpoch
    master_id: BrokerId


class Idle(NamedTuple):
    """Have no role."""

    leader_epoch: LeaderEpoch


Wish = Lead | Resume | Follow | Idle
NOTHING_YET = Idle(LeaderEpoch(-1))


def obstacle_to(wish: Wish, member: ReplicaSetMember) -> str:
    """Return why this wish can never be fulfilled, or an empty string.

    A newer epoch in the log proves that the mastership is over, even if the image is older.
    """
    if member.log.is_fenced:
        return "takes no role: its log has failed, and is read again at the next start"
    if wish.leader_epoch < member.leader_epoch:
        return f"the metadata went back to epoch {wish.leader_epoch}"
    if not isinstance(wish, Idle) and wish.leader_epoch < member.log.leader_epoch:
        newer = f"its log has epoch {member.log.leader_epoch}"
        return f"takes no role in epoch {wish.leader_epoch}: {newer}, the metadata is older"
    return ""
