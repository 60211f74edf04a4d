"""The description of a member's log for a handshake.

Source: as replication/alignment.py.
"""

from penstock.base.ids import Position
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.alignment import LogShape
from penstock.replication.epochs import EpochHistory


def shape_of(member: ReplicaSetMember) -> LogShape:
    """Return the epochs and the range of the member's log as they are now."""
    own_log = member.log
    return LogShape(
        EpochHistory(own_log.epochs).entries(),
        Position(own_log.start_position),
        Position(own_log.end_position),
        Position(member.confirm_position),
    )
