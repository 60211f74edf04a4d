"""The judge of producers: plain, in batches, one-way, delayed.

    acknowledged    there in the end, at the place that the answer named, as it was sent
    not delayed     there once at most; a delivery that a dead master began may come twice
    delayed         never before its time, by the clock of the master that delivers it
    recalled        never; a recall that was refused has no effect
    anything else   was sent by nobody

Source: docs/adr/0122, docs/adr/0127, docs/adr/0165.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from simulator.history.remoting.events import Clock, Place, Read, Sent, some

ORIGIN = "origin"
"""A property of each message, which is its body: it comes out as it went in."""


def places_of(reads: Iterable[Read]) -> dict[str, list[Read]]:
    """Return what was read, by value."""
    found: dict[str, list[Read]] = defaultdict(list)
    for one in reads:
        found[one.value].append(one)
    return found


def judge_sends(
    sends: Collection[Sent], reads: Mapping[Place, Read], others: Collection[str], clock: Clock
) -> list[str]:
    """Return what is wrong with what was read of a topic; `others` are values of others."""
    places = places_of(reads.values())
    known = {one.value for one in sends}
    return [
        *some([*_misplaced(sends, reads)]),
        *some([*_twice(sends, places)]),
        *some([*_early(sends, places, clock)]),
        *some(
            [f"{one.value} was recalled, and is there" for one in sends if _is_back(one, places)]
        ),
        *some([*_changed(reads.values(), known)]),
        *some(
            [f"{value} was sent by nobody" for value in places if value not in known | {*others}]
        ),
    ]


def not_there(sends: Iterable[Sent], values: Collection[str]) -> list[str]:
    """Return what was acknowledged and is not among what was read; empty in the end."""
    return [
        f"{one.value} was acknowledged{' for later' if one.delay_ms else ''} and is not there"
        for one in sends
        if one.is_taken and not one.may_be_recalled and one.value not in values
    ]


def _is_back(one: Sent, places: Mapping[str, list[Read]]) -> bool:
    return one.is_recalled and bool(places.get(one.value))


def _misplaced(sends: Iterable[Sent], reads: Mapping[Place, Read]) -> Iterator[str]:
    for one in sends:
        there = reads.get(one.place) if one.place is not None else None
        if there is not None and there.value != one.value:
            yield f"{one.value} was acknowledged at {one.place}, where {there.value} is"


def _twice(sends: Iterable[Sent], places: Mapping[str, list[Read]]) -> Iterator[str]:
    for one in sends:
        there = places.get(one.value, [])
        if len(there) > 1 and not one.delay_ms:
            yield f"{one.value} was sent once, and is at {[each.place for each in there]}"


def _early(sends: Iterable[Sent], places: Mapping[str, list[Read]], clock: Clock) -> Iterator[str]:
    for one in sends:
        earliest_ms = clock.earliest_ms(one.asked_ns, one.delay_ms)
        for there in places.get(one.value, []) if one.delay_ms else []:
            if there.time_ms < earliest_ms:
                yield f"{one.value} was delivered {earliest_ms - there.time_ms} ms early"


def _changed(reads: Iterable[Read], known: Collection[str]) -> Iterator[str]:
    for one in reads:
        if one.value in known and one.headers.get(ORIGIN) != one.value:
            yield f"{one.value} has lost its property, and has {dict(one.headers)}"
