"""The runs of one partition in the tier, in the order of offsets, and how events change them.

    COPY      runs behind the last one; the first one has what is at the end, and perhaps more
    DELETE    a new start: runs that end at or below it go
    REPLACE   the same range as some runs have, rewritten: these stand in their place
    CUT       a new end: what is at or above it goes; a run that goes on beyond it is shortened
    GIVE_UP   of an empty one: it begins anew, since its topic gave up all that was copied before

Events of a partition are numbered without a gap. Whoever applies the same events has the same
manifest: the metadata's state machine, a master, a reader.

Source: docs/requirements.md T-2, T-10; docs/adr/0117. Kafka has a record for each
segment and state.

Invariant: runs follow each other without a gap and without an overlap.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import islice, pairwise
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.base.invariant import invariant
from penstock.extents.layout import Entry
from penstock.tier.names import ObjectName


class Run(NamedTuple):
    """A partition's batches in one object. Offsets are those of the partition."""

    name: ObjectName
    entry: Entry
    """As in the directory of the object's extent file."""
    epochs: tuple[tuple[int, int], ...]
    """(leader epoch, first offset), as in the notes of the extent, below `end_offset`."""
    end_offset: int
    """Exclusive; below that of the entry if the run was cut."""

    @property
    def first_offset(self) -> int:
        """Inclusive."""
        return self.entry.first_offset


class Kind(IntEnum):
    """What an event does."""

    COPY = 1
    DELETE = 2
    REPLACE = 3
    CUT = 4
    GIVE_UP = 5


class EventGroup(NamedTuple):
    """One event of one partition."""

    kind: Kind
    topic_partition: TopicPartition
    runs: tuple[Run, ...] = ()
    """Of a copy and of a replacement, in the order of offsets."""
    offset: int = -1
    """Of a delete the new start, inclusive; of a cut the new end, exclusive."""
    give_ups: int = 0
    """How often the topic has given up its copies, with this time."""


class Snapshot(NamedTuple):
    """A partition in the tier at one time."""

    last_event_id: int = 0
    start_offset: int = 0
    end_offset: int = 0
    runs: tuple[Run, ...] = ()
    give_ups: int = 0
    """How often the topic had given up its copies when the first of these runs was made."""


class Manifest:
    """The runs of a partition. Events change it; `snapshot` does not change any more."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        given = Snapshot() if snapshot is None else snapshot
        self.last_event_id, self.start_offset, self.end_offset = given[:3]
        self.give_ups = given.give_ups
        self._runs = list(given.runs)
        self._starts = [run.first_offset for run in given.runs]

    @property
    def runs(self) -> Sequence[Run]:
        """In the order of offsets."""
        return self._runs

    def copy(self) -> "Manifest":
        """Return another one that is the same now."""
        other = Manifest()
        other.last_event_id, other.start_offset = self.last_event_id, self.start_offset
        other.end_offset, other.give_ups = self.end_offset, self.give_ups
        other._runs, other._starts = self._runs.copy(), self._starts.copy()
        return other

    def above(self, start_offset: int) -> "Manifest":
        """Return what is left of it with a new start, inclusive."""
        start = max(self.start_offset, start_offset)
        runs = tuple(run for run in self._runs if run.end_offset > start)
        bounds = self.last_event_id, start, max(self.end_offset, start)
        return Manifest(Snapshot(*bounds, runs, self.give_ups))

    def snapshot(self) -> Snapshot:
        """Return what it is now."""
        bounds = self.last_event_id, self.start_offset, self.end_offset
        return Snapshot(*bounds, tuple(self._runs), self.give_ups)

    def run_at(self, offset: int) -> Run | None:
        """Return the run whose range has `offset`; None: the tier does not have it."""
        if not self.start_offset <= offset < self.end_offset or not self._runs:
            return None
        at = bisect_right(self._starts, offset) - 1
        return self._runs[at] if at >= 0 else None

    def run_from(self, first_offset: int) -> Run | None:
        """Return the run that begins exactly there."""
        at = bisect_left(self._starts, first_offset)
        is_there = at < len(self._starts) and self._starts[at] == first_offset
        return self._runs[at] if is_there else None

    def runs_from(self, offset: int) -> Iterator[Run]:
        """Yield the run that has `offset`, or the first behind it, and those that follow."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or self._runs[at].end_offset <= offset:
            at += 1
        yield from islice(self._runs, at, None)

    def problem_with(self, group: EventGroup) -> str | None:
        """Return why an event can not follow here; None: it can."""
        match group.kind:
            case Kind.COPY | Kind.REPLACE:
                problem = _problem_within(group)
                return problem or self._problem_of_place(group)
            case Kind.DELETE | Kind.CUT:
                return None if group.offset >= 0 and not group.runs else "no offset, or runs"
            case Kind.GIVE_UP:
                if self._runs or group.runs:
                    return "what is given up has runs"
                is_later = group.give_ups > self.give_ups
                return None if is_later else f"it was given up {self.give_ups} times already"

    def _problem_of_place(self, group: EventGroup) -> str | None:
        first, end = group.runs[0].first_offset, group.runs[-1].end_offset
        if group.kind is Kind.COPY:
            # Without runs the end is a start that a client has set: within a batch, or far below.
            follows = first == self.end_offset or (not self._runs and end > self.end_offset)
            return None if follows else f"a copy from {first}, the tier ends at {self.end_offset}"
        old = self._between(first, end)
        if not old or old[0].first_offset != first or old[-1].end_offset != end:
            return f"nothing that begins at {first} and ends at {end} is there to be replaced"
        newest = max(run.entry.generation for run in old)
        if any(run.entry.generation <= newest for run in group.runs):
            return f"what is there is of generation {newest} already"
        return None

    def _between(self, first: int, end: int) -> list[Run]:
        return [run for run in self._runs if first < run.end_offset and run.first_offset < end]

    def apply(self, group: EventGroup) -> list[Run]:
        """Apply the next event, which `problem_with` lets pass; return the runs that go."""
        problem = self.problem_with(group)
        invariant(problem is None, "an event that can not follow", problem=problem)
        self.last_event_id += 1
        gone = self._applied(group)
        if group.kind is Kind.COPY:  # the others are rare: this one is not to cost by all runs
            self._starts += [run.first_offset for run in group.runs]
        else:
            self._starts = [run.first_offset for run in self._runs]
        return gone

    def _applied(self, group: EventGroup) -> list[Run]:
        match group.kind:
            case Kind.COPY:
                return self._copied(group.runs)
            case Kind.DELETE:
                return self._deleted(group.offset)
            case Kind.REPLACE:
                return self._replaced(group.runs)
            case Kind.CUT:
                return self._cut(group.offset)
            case Kind.GIVE_UP:
                self.start_offset = self.end_offset = 0
                self.give_ups = group.give_ups
                return []

    def _copied(self, runs: Sequence[Run]) -> list[Run]:
        if not self._runs:
            self.start_offset = max(self.start_offset, runs[0].first_offset)
        self._runs += runs
        self.end_offset = runs[-1].end_offset
        return []

    def _deleted(self, offset: int) -> list[Run]:
        self.start_offset = max(self.start_offset, offset)
        self.end_offset = max(self.end_offset, self.start_offset)
        return self._keep(lambda run: run.end_offset > offset)

    def _replaced(self, runs: Sequence[Run]) -> list[Run]:
        old = self._between(runs[0].first_offset, runs[-1].end_offset)
        at = self._runs.index(old[0])
        self._runs[at : at + len(old)] = runs
        return old

    def _cut(self, offset: int) -> list[Run]:
        self.end_offset = min(self.end_offset, offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        gone = self._keep(lambda run: run.first_offset < offset)
        if self._runs and self._runs[-1].end_offset > offset:
            last = self._runs[-1]
            epochs = tuple(epoch for epoch in last.epochs if epoch[1] < offset)
            self._runs[-1] = last._replace(epochs=epochs, end_offset=offset)
        return gone

    def _keep(self, stays: Callable[[Run], bool]) -> list[Run]:
        gone = [run for run in self._runs if not stays(run)]
        self._runs = [run for run in self._runs if stays(run)]
        return gone


def _problem_within(group: EventGroup) -> str | None:
    """Return what is wrong with the runs of an event in themselves."""
    if not group.runs:
        return "an event without runs"
    for run in group.runs:
        entry = run.entry
        if entry.topic_partition != group.topic_partition:
            return f"a run of {entry.topic_partition}"
        if not 0 <= entry.first_offset < run.end_offset <= entry.end_offset:
            return f"a run from {entry.first_offset} to {run.end_offset}"
        if not _are_epochs(run):
            return f"epochs {run.epochs} in a run from {entry.first_offset}"
    if any(one.end_offset != other.first_offset for one, other in pairwise(group.runs)):
        return "runs with a gap between them"
    return None


def _are_epochs(run: Run) -> bool:
    """Whether the first epoch begins with the run, and later ones within it, and none goes back."""
    if not run.epochs or run.epochs[0][1] != run.first_offset:
        return False
    rise = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(run.epochs))
    return rise and run.epochs[-1][1] < run.end_offset
