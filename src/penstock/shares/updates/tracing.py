"""What a share has done with its records, for who keeps a trace of messages.

    replayed ─► written: its updates are looked at ─► confirmed ─► told

All that is delivered by shares, and all that becomes of it, whatever protocol its members speak, is
an update of a share; so this is heard in one place (flushing.py). What the log refuses, or what is
lost with a master before it is confirmed, is not told: it is written again, or was not so.

Source: docs/requirements.md M-12.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, Protocol

from penstock.shares.cells import DONE
from penstock.shares.ledger import Ledger
from penstock.shares.runs import Run, Runs, joined
from penstock.shares.state import (
    Acquired,
    Freed,
    Given,
    Renewed,
    Settled,
    ShareKey,
    Update,
)

DELIVERED, ACCEPTED, PASSED_OVER = "delivered", "done", "passed_over"
RELEASED, GIVEN_UP, DEAD_LETTER, RENEWED = "released", "given_up", "dead_letter", "renewed"


class Event(NamedTuple):
    """What happened to records of a share."""

    name: str
    """Of those above; docs/formats/message-trace.md says what they mean."""
    runs: Runs
    member: str = ""
    """Who has them, if they were delivered; empty if it is not known any more."""


class Traces(Protocol):
    """Who keeps a trace."""

    def wants(self, key: ShareKey) -> bool:
        """Whether events of a share are to be told."""

    def happened(self, key: ShareKey, events: Sequence[Event]) -> None:
        """Take events that are confirmed, in their order."""


class MessageTraces(Traces, Protocol):
    """The trace of a node, as those see it who write what waits, and who tell its numbers."""

    left_out: int
    """Records of events that had too many, since the start."""

    @property
    def written(self) -> int:
        """Rows confirmed since the start."""

    @property
    def dropped(self) -> int:
        """Rows that found no room since the start."""

    @property
    def is_stuck(self) -> bool:
        """Whether rows wait and no partition for them is led here."""

    def __len__(self) -> int:
        """Return how many rows wait."""

    def expire(self, now_ms: int) -> None:
        """Write some of what waits."""

    def end(self) -> None:
        """Write what waits, as the process stops."""


def events_of(ledger: Ledger, count: int) -> list[Event]:
    """Return what the first `count` updates that the log does not have say.

    A number whose member changes later among them had a member that is not known any more.
    """
    updates, names = ledger.unwritten(), ledger.share.members.names
    found: list[Event] = []
    reassigned: set[int] = set()
    for at in range(len(updates) - 1, -1, -1):
        update, member = updates[at], ""
        if isinstance(update, Acquired):
            number = update.member
            member = update.name or ("" if number in reassigned else names[number])
            if update.name:
                reassigned.add(number)
        if at < count:
            found += reversed(_events(update, member, ledger.unwanted))
    found.reverse()
    return [event for event in found if event.runs]


def _events(update: Update, member: str, unwanted: Set[int]) -> list[Event]:
    match update:
        case Acquired():
            return [Event(DELIVERED, parted(update.runs, unwanted)[0], member)]
        case Settled() if update.state == DONE:
            kept, others = parted(update.runs, unwanted)
            return [Event(PASSED_OVER, others), Event(ACCEPTED, kept)]
        case Settled() | Freed() | Given() | Renewed():
            return [Event(_NAMES[type(update)], update.runs)]
        case _:
            return []


_NAMES: Mapping[type[Update], str] = {
    Settled: GIVEN_UP,
    Freed: RELEASED,
    Given: DEAD_LETTER,
    Renewed: RENEWED,
}


def parted(runs: Runs, offsets: Set[int]) -> tuple[Runs, Runs]:
    """Return what of the runs is not among the offsets, and what is."""
    if not offsets:
        return runs, ()
    ascending = sorted(offsets)
    others: list[Run] = []
    taken: list[Run] = []
    for first, end in runs:
        begin = first
        for offset in ascending[bisect_left(ascending, first) : bisect_left(ascending, end)]:
            if begin < offset:
                others.append((begin, offset))
            taken.append((offset, offset + 1))
            begin = offset + 1
        if begin < end:
            others.append((begin, end))
    return others, joined(taken)
