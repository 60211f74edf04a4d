"""The roles that the image may give to a set's member; set_driver.py fulfils them.

Wishes compare as tuples: within one epoch, to lead, to resume and to be idle are the same wish. So
a mastership that is held continues when its set grows from one member or shrinks to one, and a
member that was idle in an epoch leads in a later one only.
"""

from typing import NamedTuple


class Lead(NamedTuple):
    """Be master."""

    leader_epoch: int


class Resume(NamedTuple):
    """Be master again as before the restart, once all replicas agree."""

    leader_epoch: int


class Follow(NamedTuple):
    """Be slave of `master`."""

    leader_epoch: int
    master_id: int


class Idle(NamedTuple):
    """Have no role."""

    leader_epoch: int


Wish = Lead | Resume | Follow | Idle
NOTHING_YET = Idle(-1)
