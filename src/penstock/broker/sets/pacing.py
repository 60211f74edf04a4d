"""Tells a node's housekeeper how fast it may work: by the syncs of its disks and by what is due.

    every second: counts of syncs, and whether a log has too much that is due ─► Pace ─► rate
      ─► told to the housekeeper where it has changed

Source: docs/adr/0104. What the rate is, is decided elsewhere (housekeeper/pace.py).
"""

from collections.abc import Callable, Mapping, Sequence

from penstock.base.ids import ReplicaSetId
from penstock.housekeeper.pace import Pace
from penstock.replica.replica_set import ReplicaSetMember


class Pacing:
    """The rate of one node's housekeeper."""

    def __init__(
        self,
        pace: Pace,
        sync_counts: Callable[[], Sequence[int]],
        set_rate: Callable[[int], None],
    ) -> None:
        """`sync_counts` returns how long all syncs so far took, in buckets as of Histogram."""
        self._pace = pace
        self._sync_counts = sync_counts
        self._set_rate = set_rate

    @property
    def bytes_per_second(self) -> int:
        """The present rate; 0 is no bound."""
        return self._pace.rate

    def look(self, members: Mapping[ReplicaSetId, ReplicaSetMember]) -> None:
        """Follow the disks; called about every second."""
        is_short = any(member.log.splitting.is_behind for member in members.values())
        before = self._pace.rate
        rate = self._pace.look(self._sync_counts(), is_short=is_short)
        if rate != before:
            self._set_rate(rate)
