"""What the image may want of a set's member; set_driver.py has what it takes to fulfil it.

Wishes compare as tuples: to lead, to resume and to be idle are the same wish within one epoch. So a
mastership that is held goes on when its set grows from one member or shrinks to one, and whoever
was idle in an epoch begins to lead in a later one only.
"""

from typing import NamedTuple


class Lead(NamedTuple):
    """Be master."""

    leader_epoch: int


class Resume(NamedTuple):
    """Be master again as before the restart, once all replicas agree."""

    leader_epoch: int


class Follow(NamedTuple):
    """Be slave."""

    leader_epoch: int
    master_id: int


class Idle(NamedTuple):
    """Be neither."""

    leader_epoch: int


Wish = Lead | Resume | Follow | Idle
NOTHING_YET = Idle(-1)
