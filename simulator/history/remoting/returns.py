"""The judge of what consumers send back.

    sent back     comes again with one more time, not before its delay is over
    given up      is a dead letter, and comes no more
    in a topic    of the group only what was sent back, and not more often than it may

Both at least once: a delivery that a dead master has begun may be done again.

Source: docs/adr/0127.
"""

from collections.abc import Collection, Iterator

from simulator.history.remoting.events import Clock, Read, Returned, some

TIMES = "rmq.times"


def judge_returns(
    returned: Collection[Returned],
    retries: Collection[Read],
    letters: Collection[Read],
    clock: Clock,
) -> list[str]:
    """Return what is in the group's topics and should not be."""
    return [
        *some([*_early(returned, retries, clock)]),
        *some([*_unasked(returned, retries, letters)]),
    ]


def not_back(
    returned: Collection[Returned], retries: Collection[Read], letters: Collection[Read]
) -> list[str]:
    """Return what was sent back, and is nowhere; empty in the end."""
    again = {(one.value, times_of(one)) for one in retries}
    dead = {one.value for one in letters}
    found = []
    for one in returned:
        if not one.is_taken:
            continue
        if one.is_given_up and one.value not in dead:
            found.append(f"{one.value} was given up, and is no dead letter")
        elif not one.is_given_up and (one.value, one.times + 1) not in again:
            found.append(f"{one.value} was sent back after {one.times} times, and comes no more")
    return found


def times_of(read: Read) -> int:
    """Return how often a message was consumed before."""
    return int(read.headers.get(TIMES, "0"))


def _early(
    returned: Collection[Returned], retries: Collection[Read], clock: Clock
) -> Iterator[str]:
    first: dict[tuple[str, int], int] = {}
    for one in returned:
        key = one.value, one.times + 1
        earliest_ms = clock.earliest_ms(one.asked_ns, one.delay_ms)
        first[key] = min(earliest_ms, first.get(key, earliest_ms))
    for there in retries:
        earliest = first.get((there.value, times_of(there)))
        if earliest is not None and there.time_ms < earliest:
            yield f"{there.value} comes again {earliest - there.time_ms} ms early"


def _unasked(
    returned: Collection[Returned], retries: Collection[Read], letters: Collection[Read]
) -> Iterator[str]:
    again = {(one.value, one.times + 1) for one in returned if not one.is_given_up}
    dead = {one.value for one in returned if one.is_given_up}
    for there in retries:
        if (there.value, times_of(there)) not in again:
            yield f"{there.value} comes again for the {times_of(there)}. time, and nobody asked"
    for there in letters:
        if there.value not in dead:
            yield f"{there.value} is a dead letter, and nobody gave it up"
