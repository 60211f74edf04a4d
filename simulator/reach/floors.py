"""How much of each room the seeds of `make sim` reach at least: below that the run fails.

A floor is somewhat less than what is reached, so that chance does not break it and reach can not
fall unnoticed. A room under 90 % says what is missing. Single functions that no run
can call are in exceptions.py, and count nowhere.
"""

from collections.abc import Iterable
from typing import NamedTuple

from simulator.reach.table import COORDINATOR, Reach

SEEDS_MIN = 75
"""Fewer seeds reach less; continuous integration runs so many."""
WANTED_PERCENT = 90


class Floor(NamedTuple):
    """The least reach of a room, and why it is not `WANTED_PERCENT`, if so."""

    percent: int
    reason: str = ""


FLOORS: dict[str, Floor] = {
    "replication": Floor(93),
    "raft": Floor(97),
    "storage": Floor(90),
    "controller": Floor(88, "reassignments are asked for by no simulated client"),
    "coordinator": Floor(94),
    "groups": Floor(96),
    "assignors": Floor(90),
    "transactions": Floor(90),
    "shares": Floor(92),
    "broker": Floor(90),
    "kafka": Floor(89, "none sends the longest requests, or reassigns"),
    "frames": Floor(96),
    "access": Floor(95),
    "remoting": Floor(88, "most of SQL-92; tests/remoting and tests/compat judge expressions"),
    "grpc": Floor(90),
    "replica": Floor(92),
    "runtime": Floor(90),
    COORDINATOR: Floor(92),
}


def fallen(reaches: Iterable[Reach], *, seed_count: int) -> list[str]:
    """Name the rooms that are reached less than they have to be; none after a few seeds."""
    if seed_count < SEEDS_MIN:
        return []
    return [
        f"reach has fallen: {one.room} {100 * one.share:.1f} %, and its floor is {floor.percent} %"
        for one in reaches
        if 100 * one.share < (floor := FLOORS[one.room]).percent
    ]
