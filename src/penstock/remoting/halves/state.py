"""The half messages of one replica set that wait for their decision: which, and what is due.

    taken ──► open ──► committed | rolled back | discarded | dropped     once, whoever asks
                │ ▲
      due ──────┘ └── checked: due again after a while

A decision is a comparison and a change in one call: of two that contradict each other the first one
counts and the second is refused, of two equal ones the second changes nothing. The last decisions
are remembered so that they can be told apart from numbers that never were, with the topic: who may
not write to it is not told of them.

Everything here follows from the records of the internal topic (record.py), in their order. A second
of due messages is one bucket, so a decision takes a message out of what is due at once.

Source: ours, docs/adr/0132; RocketMQ `TransactionalMessageServiceImpl`, whose second decision wins.
It does no I/O and knows no clock.
"""

from collections import Counter, deque
from enum import Enum, auto
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from penstock.remoting.halves.record import (
    OWN_OFFSET,
    Checked,
    Decided,
    Event,
    Half,
    Outcome,
    Settled,
)

REMEMBERED_MAX: Final = 10_000
"""Decisions that are remembered, of each set."""
OPEN_BYTES: Final = 500
"""Approximate memory of an open half message."""
_SECOND_MS: Final = 1_000


class Verdict(Enum):
    """What a decision would be."""

    NEW = auto()
    SAME = auto()
    CONTRARY = auto()
    UNKNOWN = auto()


class _Past(NamedTuple):
    """A decision that is remembered; the topic of its half message is empty if not known."""

    outcome: Outcome
    topic_id: bytes


class OpenHalf:
    """A half message that waits."""

    __slots__ = ("at", "half", "taken_ms")

    def __init__(self, half: Half, at: int, taken_ms: int) -> None:
        self.half = half
        self.at = at
        """Offset of its record, which may have been moved."""
        self.taken_ms = taken_ms


class OpenHalves:
    """See the module; one for each set and mastership."""

    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._open: dict[int, OpenHalf] = {}
        """By number, in the order of their records."""
        self._moved: dict[int, None] = {}
        self._decided: dict[int, _Past] = {}
        self._order: deque[int] = deque()
        """The decided ones, oldest first."""
        self._remembered_max = remembered_max
        self._due: dict[int, dict[int, None]] = {}
        """Numbers by the second in which they are due, which is rounded up."""
        self._seconds: list[int] = []
        """The seconds in `_due`, as a heap."""
        self.of_group: Counter[tuple[str, bytes]] = Counter()
        """By producer group and topic: who may write to a topic can name every group."""
        self.of_topic: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def apply(self, event: Event, offset: int, time_ms: int) -> OpenHalf | None:
        """Follow a record; return the half message that it is about, None if that does not wait."""
        match event:
            case Half():
                return self._take(event, offset, time_ms)
            case Decided():
                return self._decide(event)
            case Checked():
                found = self._open.get(event.number)
                if found is not None:
                    half = found.half._replace(checks=event.checks)
                    self._set_due(found, half, event.due_ms)
                return found
            case Settled():
                return None

    def get(self, number: int) -> OpenHalf | None:
        """Return the half message of a number; None if it does not wait."""
        return self._open.get(number)

    def verdict(self, number: int, outcome: Outcome) -> Verdict:
        """Return what a decision would be now."""
        if number in self._open:
            return Verdict.NEW
        if not self.topic_of(number):
            return Verdict.UNKNOWN
        return Verdict.SAME if self._decided[number].outcome is outcome else Verdict.CONTRARY

    def topic_of(self, number: int) -> bytes:
        """Return the topic of a half message that waits, or of a remembered one; else empty."""
        found, past = self._open.get(number), self._decided.get(number)
        if found is not None:
            return found.half.topic_id
        return b"" if past is None else past.topic_id

    def due(self, now_ms: int, most: int) -> list[OpenHalf]:
        """Return some of those that are due, the longest waiting first; they stay due."""
        found: list[OpenHalf] = []
        while self._seconds and self._seconds[0] * _SECOND_MS <= now_ms and len(found) < most:
            second = self._seconds[0]
            numbers = self._due.get(second)
            if not numbers:
                heappop(self._seconds)
                self._due.pop(second, None)
                continue
            found += [self._open[one] for one in islice(numbers, most - len(found))]
            if len(found) < most:
                break  # the seconds behind it come with the next look
        return found

    def postpone(self, number: int, due_ms: int) -> None:
        """Let a half message be due later, which no record says."""
        found = self._open[number]
        self._set_due(found, found.half, due_ms)

    def first(self) -> OpenHalf | None:
        """Return the one whose record is the first; None where nothing waits."""
        return next(iter(self._open.values()), None)

    def firsts(self, most: int) -> list[OpenHalf]:
        """Return those whose records are the first."""
        return list(islice(self._open.values(), most))

    def oldest_ms(self) -> int | None:
        """Return when the oldest one was taken; None where nothing waits.

        Those that were moved are the oldest ones, in their order.
        """
        firsts = [self.first(), self._open.get(next(iter(self._moved), OWN_OFFSET))]
        return min((one.taken_ms for one in firsts if one is not None), default=None)

    def _take(self, half: Half, offset: int, time_ms: int) -> OpenHalf | None:
        number = offset if half.number == OWN_OFFSET else half.number
        if number in self._decided:
            return None
        moved = self._open.pop(number, None)
        if moved is not None:
            self._leave(moved)
            self._moved[number] = None
        self.of_group[half.group, half.topic_id] += 1
        self.of_topic[half.topic_id] += 1
        taken_ms = time_ms if moved is None else moved.taken_ms
        found = OpenHalf(half._replace(number=number), offset, taken_ms)
        self._open[number] = found
        self._note_due(found)
        return found

    def _decide(self, event: Decided) -> OpenHalf | None:
        number = event.number
        found = self._open.pop(number, None)
        self._moved.pop(number, None)
        if number not in self._decided:
            # What is discarded goes to another topic, which its record names.
            named = b"" if event.outcome is Outcome.DISCARD else event.topic_id
            topic_id = named if found is None else found.half.topic_id
            self._decided[number] = _Past(event.outcome, topic_id)
            self._order.append(number)
        if len(self._order) > self._remembered_max:
            del self._decided[self._order.popleft()]
        if found is None:
            return None
        self._leave(found)
        return found

    def _leave(self, found: OpenHalf) -> None:
        self._forget_due(found)
        topic_id = found.half.topic_id
        place = found.half.group, topic_id
        self.of_group[place] -= 1
        if not self.of_group[place]:
            del self.of_group[place]
        self.of_topic[topic_id] -= 1
        if not self.of_topic[topic_id]:
            del self.of_topic[topic_id]

    def _set_due(self, found: OpenHalf, half: Half, due_ms: int) -> None:
        self._forget_due(found)
        found.half = half._replace(due_ms=due_ms)
        self._note_due(found)

    def _note_due(self, found: OpenHalf) -> None:
        second = _second_of(found.half.due_ms)
        if second not in self._due:
            self._due[second] = {}
            heappush(self._seconds, second)
        self._due[second][found.half.number] = None

    def _forget_due(self, found: OpenHalf) -> None:
        del self._due[_second_of(found.half.due_ms)][found.half.number]


def _second_of(due_ms: int) -> int:
    return -(-due_ms // _SECOND_MS)
