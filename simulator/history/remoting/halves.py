"""The judge of transactions.

    seen         once, and only after somebody has asked for its commit
    committed    is seen; rolled back is never; nobody is told both
    discarded    once, and neither seen nor decided
    in the end   what was acknowledged is seen, rolled back or discarded

A decision without an answer may have counted, and says nothing. Of two that contradict each other
one at most is told that it holds.

Source: docs/adr/0132.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from simulator.history.remoting.events import Decision, HalfSent, Read, some

Reads = Mapping[str, Sequence[Read]]
"""By value."""


def judge_halves(
    halves: Collection[HalfSent], decisions: Collection[Decision], seen: Reads, discarded: Reads
) -> list[str]:
    """Return what contradicts what producers were told; `seen` is what consumers may see."""
    committed = _taken(decisions, is_commit=True)
    rolled_back = _taken(decisions, is_commit=False)
    asked = _first_commits(decisions)
    return [
        *some([*_twice(halves, seen, discarded)]),
        *some([*_too_early(halves, asked, seen)]),
        *some([f"{one} was committed and rolled back" for one in committed if one in rolled_back]),
        *some([f"{one} was rolled back, and is there" for one in rolled_back if one in seen]),
        *some([*_discarded(discarded, {*committed, *rolled_back}, halves, seen)]),
    ]


def undecided(
    halves: Iterable[HalfSent], decisions: Collection[Decision], seen: Reads, discarded: Reads
) -> list[str]:
    """Return the half messages of which nothing has become; empty in the end."""
    committed = _taken(decisions, is_commit=True)
    given_up = {one.value for one in decisions if not one.is_commit}
    found = [f"{one} was committed, and is not there" for one in committed if one not in seen]
    return found + [
        f"half message {one.value} is neither there nor discarded"
        for one in halves
        if one.is_taken
        and one.value not in given_up
        and one.value not in seen
        and one.value not in discarded
    ]


def _taken(decisions: Iterable[Decision], *, is_commit: bool) -> dict[str, None]:
    return dict.fromkeys(
        one.value for one in decisions if one.is_taken and one.is_commit is is_commit
    )


def _first_commits(decisions: Iterable[Decision]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in decisions:
        if one.is_commit:
            found[one.value] = min(one.asked_ns, found.get(one.value, one.asked_ns))
    return found


def _twice(halves: Iterable[HalfSent], seen: Reads, discarded: Reads) -> Iterator[str]:
    for one in halves:
        for what, there in (("seen", seen), ("discarded", discarded)):
            if len(there.get(one.value, ())) > 1:
                yield f"half message {one.value} is {what} {len(there[one.value])} times"


def _too_early(halves: Iterable[HalfSent], asked: Mapping[str, int], seen: Reads) -> Iterator[str]:
    for one in halves:
        for there in seen.get(one.value, ())[:1]:
            if one.value not in asked:
                yield f"half message {one.value} is there, and nobody has committed it"
            elif there.seen_ns < asked[one.value]:
                yield f"half message {one.value} was seen before its commit was asked for"


def _discarded(
    discarded: Reads, decided: Collection[str], halves: Iterable[HalfSent], seen: Reads
) -> Iterator[str]:
    known = {one.value for one in halves}
    for value in discarded:
        if value not in known:
            yield f"{value} is discarded, and is no half message"
        elif value in decided:
            yield f"{value} is discarded, and was decided"
        elif value in seen:
            yield f"{value} is discarded, and is there"
