"""A map with transactions is, after anything, what a reading of its journal makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.ids import ProducerId
from penstock.coordinator.pending_map import PendingMap

KEYS = ("a", "b", "c")
PRODUCERS = (ProducerId(1), ProducerId(2))


class Entry(NamedTuple):
    """One of the journal; `is_commit` is None if it is no marker, `producer` if it is plain."""

    changes: Mapping[str, int | None]
    producer: ProducerId | None = None
    is_commit: bool | None = None


@dataclass
class Read:
    """The journal read from its beginning."""

    values: dict[str, int] = field(default_factory=dict)
    came_from: dict[str, int] = field(default_factory=dict)
    pending: dict[tuple[ProducerId, str], tuple[int, int]] = field(default_factory=dict)

    def read(self, place: int, entry: Entry) -> None:
        if entry.producer is None:
            for key, value in entry.changes.items():
                self.set(key, value, place)
        elif entry.is_commit is None:
            for key, value in entry.changes.items():
                assert value is not None
                self.pending[entry.producer, key] = (place, value)
        else:
            for one in [one for one in self.pending if one[0] == entry.producer]:
                written, value = self.pending.pop(one)
                if entry.is_commit:
                    self.set(one[1], value, written)

    def set(self, key: str, value: int | None, place: int) -> None:
        if self.came_from.get(key, -1) > place:
            return
        self.came_from[key] = place
        self.values.pop(key, None)
        if value is not None:
            self.values[key] = value
        for one in [one for one in self.pending if one[1] == key and self.pending[one][0] < place]:
            del self.pending[one]

    def pending_of(self, key: str) -> list[int]:
        return [
            value for _, value in sorted(at for one, at in self.pending.items() if one[1] == key)
        ]


def read(entries: list[Entry]) -> Read:
    made = Read()
    for place, entry in enumerate(entries):
        made.read(place, entry)
    return made


NUMBERS = st.integers(0, 9)
PRODUCER = st.sampled_from(PRODUCERS)
PLAIN = st.dictionaries(st.sampled_from(KEYS), st.none() | NUMBERS, max_size=2)
WRITTEN = st.dictionaries(st.sampled_from(KEYS), NUMBERS, max_size=2)
ENTRIES = (
    PLAIN.map(Entry)
    | st.tuples(WRITTEN, PRODUCER).map(lambda one: Entry(*one))
    | st.tuples(PRODUCER, st.booleans()).map(lambda one: Entry({}, *one))
)
STEPS = st.lists(ENTRIES | st.booleans(), max_size=25)
"""Something is written, or the first that waits is confirmed (True) or refused."""


def begun(made: PendingMap[str, int], entry: Entry) -> int:
    if entry.producer is None:
        return made.begin(entry.changes)
    if entry.is_commit is None:
        return made.begin_pending(entry.producer, entry.changes)
    return made.begin_ending(entry.producer, is_commit=entry.is_commit)


@settings(max_examples=100)
@given(STEPS)
def test_it_is_what_the_journal_says_confirmed_or_not(steps: list[Entry | bool]) -> None:
    made: PendingMap[str, int] = PendingMap()
    confirmed: list[Entry] = []
    waiting: list[tuple[int, Entry]] = []
    for step in steps:
        if isinstance(step, Entry):
            waiting.append((begun(made, step), step))
        elif waiting:
            ticket, entry = waiting.pop(0)
            (made.confirm if step else made.refuse)(ticket)
            confirmed += [entry] if step else []
        now, latest = read(confirmed), read([*confirmed, *(entry for _, entry in waiting)])
        under_way = {key for _, entry in waiting for key in entry.changes}
        pending = {key for _, key in now.pending}
        assert made.values == now.values
        assert made.in_flight_count == len(waiting)
        assert made.latest_of(KEYS) == latest.values
        of_pending = {key: latest.pending_of(key) for key in KEYS if latest.pending_of(key)}
        assert made.latest_pending_of(KEYS) == of_pending
        assert {key for key in KEYS if made.is_in_flight(key)} == under_way | pending
        assert sorted(made.keys()) == sorted({*now.values} | under_way | pending)


@settings(max_examples=50)
@given(st.lists(ENTRIES, max_size=12))
def test_what_is_restored_goes_on_like_the_journal_that_it_comes_from(entries: list[Entry]) -> None:
    kept = read(entries)
    made: PendingMap[str, int] = PendingMap()
    made.restore(kept.values)
    for (producer, key), (_, value) in sorted(kept.pending.items(), key=lambda one: one[1][0]):
        made.restore({key: value}, producer)
    assert made.latest_pending_of(KEYS) == {
        key: kept.pending_of(key) for key in KEYS if kept.pending_of(key)
    }
    for producer in PRODUCERS:
        kept.read(len(entries), Entry({}, producer, is_commit=True))
        made.confirm(made.begin_ending(producer, is_commit=True))
        assert made.values == kept.values
    assert not made.pending
