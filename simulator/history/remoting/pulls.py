"""The judge of what is pulled, and of a group's positions.

    pulled      at each place what a Kafka client reads there
    position    not below one that was acknowledged before it was asked for, nor above any; said
                of none that a coordinator may have told which does not know that it stood still
    in the end  everything was pulled

A position without an answer may count later than one that was told afterwards.

Source: docs/adr/0122.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from simulator.history.events import Rules
from simulator.history.remoting.events import Place, Read, Told, Updated, some


@dataclass(slots=True)
class PullNotes:
    """What one group has pulled of one topic; a single consumer tells its positions."""

    pulled: dict[Place, str] = field(default_factory=dict)
    clashes: list[str] = field(default_factory=list)
    """Places at which two values were pulled."""
    updates: list[Updated] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)

    def note(self, place: Place, value: str) -> None:
        """Note a message."""
        first = self.pulled.setdefault(place, value)
        if first != value:
            self.clashes.append(f"{first} was pulled at {place}, and then {value}")


def judge_pulls(notes: PullNotes, reads: Mapping[Place, Read], rules: Rules) -> list[str]:
    """Return what was pulled and is not so, and positions that can not be."""
    return [
        *some(notes.clashes),
        *some([*_other(notes, reads)]),
        *some([*_positions(_surely_new(notes.told, rules), notes.updates)]),
    ]


def not_pulled(notes: PullNotes, reads: Collection[Place]) -> list[str]:
    """Return what nobody has pulled, in order; empty in the end."""
    return [f"{place} was never pulled" for place in sorted(reads) if place not in notes.pulled]


def _other(notes: PullNotes, reads: Mapping[Place, Read]) -> Iterator[str]:
    for place, value in notes.pulled.items():
        there = reads.get(place)
        if there is not None and there.value != value:
            yield f"{value} was pulled at {place}, where a Kafka client reads {there.value}"


def _surely_new(told: Iterable[Told], rules: Rules) -> list[Told]:
    return [one for one in told if not rules.somebodys_may_be_old(one.asked_ns, one.told_ns)]


def _positions(told: Collection[Told], updates: Collection[Updated]) -> Iterator[str]:
    for one in told:
        asked = [each for each in updates if each.partition == one.partition]
        before = [each for each in asked if each.asked_ns < one.asked_ns]
        sure = [
            each.position
            for each in before
            if each.is_taken and each.told_ns is not None and each.told_ns < one.asked_ns
        ]
        unsure = {each.position for each in before if each.position not in sure}
        least = max(sure, default=-1)
        if one.position < least and one.position not in unsure:
            yield f"the position of partition {one.partition} is {one.position}, and was {least}"
        elif one.position >= 0 and one.position not in {*sure, *unsure}:
            yield f"nobody has told position {one.position} of partition {one.partition}"
