"""The judge of message groups.

    sent          behind what its producer had acknowledged before, where both are in one partition
    handed out    by a group that keeps the order: only when all before it in its message group and
                  partition are over: acknowledged, given up, or asked to be so; or dead letters
    offset        of what is acknowledged: there

A producer sends into its message groups one message after the other.

Source: docs/adr/0144; shares/keys.py.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from simulator.history.remoting.events import Clock, Place, Read, some
from simulator.history.remoting.pops import Letters
from simulator.history.shares import FINAL, ShareNotes


class Grouped(NamedTuple):
    """A message that was sent into a message group."""

    value: str
    group: str
    asked_ns: int
    told_ns: int | None = None
    """None: it was not acknowledged."""


def judge_order(
    grouped: Collection[Grouped],
    offsets: Mapping[str, int],
    reads: Mapping[Place, Read],
) -> list[str]:
    """Return what is not where it has to be; `offsets` are those of acknowledged values."""
    places = {one.value: place for place, one in reads.items()}
    return [*some([*_overtaken(grouped, places)]), *some([*_elsewhere(offsets, places)])]


def judge_handed(
    notes: ShareNotes,
    grouped: Iterable[Grouped],
    reads: Mapping[Place, Read],
    letters: Letters,
    clock: Clock,
) -> list[str]:
    """Return what a group that keeps the order has handed out too early."""
    group_of = {one.value: one.group for one in grouped}
    over_ns: dict[Place, int] = {}
    for one in notes.settled:
        if one.kind in FINAL and (one.is_taken or one.told_ns is None):
            over_ns[one.place] = min(one.asked_ns, over_ns.get(one.place, one.asked_ns))
    before = _before(group_of, reads)
    found = []
    for handed in notes.handed:
        for place in before.get(handed.place, ()):
            told_ms = clock.start_ms + handed.told_ns // 1_000_000 + clock.apart_ms
            of_place = reads[place].value
            is_over = over_ns.get(place, handed.told_ns + 1) <= handed.told_ns
            is_dead = any(one.time_ms <= told_ms for one in letters.get(of_place, ()))
            if not is_over and not is_dead:
                found.append(
                    f"{handed.value} is handed out to {handed.member}, and {of_place} before it in"
                    f" {group_of[of_place]} is not over"
                )
    return some(found)


def _before(
    group_of: Mapping[str, str], reads: Mapping[Place, Read]
) -> dict[Place, tuple[Place, ...]]:
    """Return, of each message of a message group, all before it in its partition."""
    queues: dict[tuple[int, str], list[Place]] = defaultdict(list)
    for place in sorted(reads):
        group = group_of.get(reads[place].value)
        if group is not None:
            queues[place[0], group].append(place)
    return {
        place: tuple(places[:at]) for places in queues.values() for at, place in enumerate(places)
    }


def _overtaken(grouped: Iterable[Grouped], places: Mapping[str, Place]) -> Iterator[str]:
    last: dict[tuple[str, int], Grouped] = {}
    for one in grouped:
        place = places.get(one.value)
        if place is None or one.told_ns is None:
            continue
        key = one.group, place[0]
        before = last.get(key)
        if before is not None and places[before.value] > place:
            yield f"{one.value} was sent after {before.value} in {one.group}, and is before it"
        last[key] = one


def _elsewhere(offsets: Mapping[str, int], places: Mapping[str, Place]) -> Iterator[str]:
    for value, offset in offsets.items():
        place = places.get(value)
        if place is not None and place[1] != offset:
            yield f"{value} was acknowledged at offset {offset}, and is at {place}"
