"""Says in the log when a set's disk is full, and when there is room again.

Producers hear of it with each refusal; whoever looks after the node reads its log. One line for
each change, since the state is looked at once a second.

Source: ours. It does not watch the disk itself: the log writer tries again by itself.
"""

import logging
from collections.abc import Mapping

from penstock.base.ids import ReplicaSetId
from penstock.replica.replica_set import ReplicaSetMember

log = logging.getLogger(__name__)


class SpaceWatch:
    """Remembers which sets were full when it looked last."""

    __slots__ = ("_full",)

    def __init__(self) -> None:
        self._full: set[ReplicaSetId] = set()

    def look(self, members: Mapping[ReplicaSetId, ReplicaSetMember]) -> None:
        """Tell what has changed since the last look."""
        full = {set_id for set_id, member in members.items() if member.log.is_full}
        for set_id in sorted(full - self._full):
            _tell_full(members[set_id])
        for set_id in sorted(self._full - full):
            if set_id in members:
                log.info("set=%d has room again", set_id)
        self._full = full


def _tell_full(member: ReplicaSetMember) -> None:
    set_id, reserve = member.replica_set_id, member.log.config.reserve_bytes
    try:
        free = str(member.log.numbers().free_bytes)
    except OSError:  # a disk that is failing, too; that is told elsewhere
        free = "an unknown number of"
    log.warning(
        "set=%d refuses records: its disk has %s bytes free, of which log.reserve_bytes keeps %d;"
        " free some, or shorten retention",
        set_id,
        free,
        reserve,
    )
