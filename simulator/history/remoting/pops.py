"""The judge of what is popped; shares.py has the rest: what comes again, what was never written.

    popped        so often at most as its group may
    dead letter   not of what was acknowledged before, and of this group's topic
    in the end    everything is acknowledged, or a dead letter

An acknowledgement of what is a dead letter by now succeeds, and changes nothing. What a consumer
forwards is copied before the answer, or after it.

Source: docs/adr/0134.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from simulator.history.remoting.events import Clock, Read, some
from simulator.history.shares import Kind, Place, ShareNotes

Letters = Mapping[str, Sequence[Read]]
"""Dead letters by value."""


def judge_pops(
    notes: ShareNotes, written: Mapping[Place, str], letters: Letters, most: int, clock: Clock
) -> list[str]:
    """Return what may not be; `most` is how often a message is popped."""
    return [
        *some([*_too_often(notes, most)]),
        *some([*_dead_though_done(notes, written, letters, clock)]),
        *some([*_foreign(letters, {*written.values()})]),
    ]


def not_over(notes: ShareNotes, written: Mapping[Place, str], letters: Letters) -> list[str]:
    """Return what is neither acknowledged nor a dead letter, in order; empty in the end."""
    over = notes.over()
    return [
        f"{value} at {place} is neither acknowledged nor a dead letter"
        for place, value in sorted(written.items())
        if place not in over and value not in letters
    ]


def not_forwarded(notes: ShareNotes, written: Mapping[Place, str], letters: Letters) -> list[str]:
    """Return what consumers gave up and is no dead letter; empty in the end."""
    given_up = [one.place for one in notes.settled if one.kind is Kind.REJECT and one.is_taken]
    return [
        f"{written[place]} at {place} was forwarded, and is no dead letter"
        for place in given_up
        if place in written and written[place] not in letters
    ]


def _too_often(notes: ShareNotes, most: int) -> Iterator[str]:
    for one in notes.handed:
        if one.deliveries > most:
            yield f"{one.value} is popped for the {one.deliveries}. time, at most {most}"


def _dead_though_done(
    notes: ShareNotes, written: Mapping[Place, str], letters: Letters, clock: Clock
) -> Iterator[str]:
    for one in notes.settled:
        if one.kind is not Kind.ACCEPT or not one.is_taken or one.told_ns is None:
            continue
        value = written.get(one.place, "")
        # A letter has the time at which it was written, cut to whole ms.
        acknowledged_ms = clock.start_ms + one.told_ns // 1_000_000 + clock.apart_ms + 1
        for letter in letters.get(value, ()):
            if letter.time_ms > acknowledged_ms:
                yield f"{value} is a dead letter, and {one.member} had acknowledged it before"


def _foreign(letters: Letters, values: Collection[str]) -> Iterator[str]:
    yield from (f"dead letter {one} is of no message" for one in letters if one not in values)
