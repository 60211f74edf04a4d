"""The description of a member's log for a handshake.

Source: as replication/alignment.py.
"""

from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.alignment import LogShape
from penstock.replication.epochs import EpochHistory


def shape_of(member: ReplicaSetMember) -> LogShape:
    """Return the epochs and the range of the member's log as they are now."""
    own_log = member.log
    return LogShape(
        EpochHistory(own_log.epochs).entries(),
        own_log.start_position,
        own_log.end_position,
        member.confirm_position,
    )
