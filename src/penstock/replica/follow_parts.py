"""What following a mastership (followed_set.py) needs of the broker, and counters of all sets.

Source: as followed_set.py.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch, ReplicaId
from penstock.base.ports import Clock, Scheduler
from penstock.replication.config import ReplicationConfig


class FollowParts(NamedTuple):
    """What a FollowedSet needs of its broker."""

    config: ReplicationConfig
    clock: Clock
    scheduler: Scheduler
    replica_id: Callable[[], ReplicaId | None]
    """Returns the recorded id of the own log; None while it is not registered."""
    incarnation: str
    """The identity that this process registers with."""
    may_cut_confirmed: Callable[[], bool]
    """Whether the set has had, or may have had, an unclean election."""
    on_offence: Callable[[str], None]
    """Called when the master broke the protocol: the link has to be closed."""
    is_promised: Callable[[LeaderEpoch], bool] = lambda _: False
    """Whether a promise forbids acknowledgements in the mastership of that leader epoch."""
    must_be_whole: Callable[[], bool] = lambda: False
    """Whether the own log must have all that the set keeps, as it may be elected already."""


class FollowStats:
    """Counters of all followed sets of a broker."""

    def __init__(self) -> None:
        self.truncations = 0
        self.truncated_bytes = 0
        self.installs = 0
        self.renegotiations = 0
        self.stops = 0
