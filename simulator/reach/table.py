"""Reach by room: functions that were called, that were not, and that can not be."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from simulator.reach.exceptions import EXCEPTIONS
from simulator.reach.functions import ROOMS, all_of

PACKAGE = Path(__file__).parents[2] / "src" / "penstock"
COORDINATOR = "broker, kafka (groups)"
_COORDINATOR_PARTS = ("broker/coordinators/*", "kafka/handlers/groups/*")


class Reach(NamedTuple):
    """One room's figures; exceptions are in none of them."""

    room: str
    called: int
    missed: list[str]

    @property
    def share(self) -> float:
        """From 0 to 1."""
        total = self.called + len(self.missed)
        return self.called / total if total else 1.0

    def __str__(self) -> str:
        total = self.called + len(self.missed)
        return f"{self.room:16} {self.called:4} of {total:4} functions, {100 * self.share:3.0f} %"


def is_excepted(name: str) -> bool:
    """Whether the function is in the list of exceptions."""
    return any(fnmatchcase(name, pattern) for pattern in EXCEPTIONS)


def by_room(reached: Iterable[str], everything: Iterable[str] | None = None) -> list[Reach]:
    """Count; the parts of the broker that coordinate groups count once more by themselves."""
    seen = set(reached)
    names = all_of(PACKAGE) if everything is None else list(everything)
    wanted = [name for name in names if not is_excepted(name)]
    rooms = {room: [one for one in wanted if one.startswith(f"{room}/")] for room in ROOMS}
    rooms[COORDINATOR] = [
        one for one in wanted if any(fnmatchcase(one, part) for part in _COORDINATOR_PARTS)
    ]
    return [
        Reach(room, sum(one in seen for one in found), [one for one in found if one not in seen])
        for room, found in rooms.items()
    ]


def lines(reached: Iterable[str], *, is_in_full: bool = False) -> Iterator[str]:
    """Yield the table; in full with the functions that were missed."""
    seen = set(reached)
    for one in by_room(seen):
        yield str(one)
        if is_in_full and one.room != COORDINATOR:
            yield from (f"    missed {name}" for name in one.missed)
    yield from (f"    excepted, but reached: {name}" for name in sorted(filter(is_excepted, seen)))
