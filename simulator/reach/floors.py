"""How much of each room the seeds of `make sim` reach at least: below that the run fails.

A floor is what was reached by fewer seeds than count here, so that chance does not break it and
reach can not fall unnoticed. A room under 90 % says what is missing. Single functions that no run
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
    "replication": Floor(92),
    "raft": Floor(96),
    "storage": Floor(80, "copies of whole logs, and damage, are in few seeds"),
    "controller": Floor(91),
    "coordinator": Floor(93),
    "groups": Floor(94),
    "assignors": Floor(87, "one function is a tenth of what it has"),
    "transactions": Floor(90),
    "shares": Floor(93),
    "broker": Floor(86, "reads from slaves are set nowhere, and usage is told by metrics alone"),
    "kafka": Floor(88, "what fails at a shutdown, and large batches, are in few seeds"),
    "frames": Floor(92),
    "replica": Floor(86, "copies of whole logs are in few seeds"),
    "runtime": Floor(91),
    COORDINATOR: Floor(93),
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
