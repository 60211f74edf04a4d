"""What the image may want of a set's member; set_driver.py has what it takes to fulfil it."""

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
