"""Changes on their way: what the journal refuses at once is dropped at once, whoever waits."""

from collections.abc import Callable, Iterator

import pytest

from penstock.coordinator.outbox import Outbox
from penstock.coordinator.portions import Portions
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.rewrites import RewriteTracker
from penstock.coordinator.unwritten import Unwritten
from penstock.coordinator.writes import Writes
from tests.coordinator.held_journal import HeldJournal


class Noted:
    """A change that notes what becomes of it."""

    def __init__(self, story: list[str]) -> None:
        self.records: list[JournalRecord] = [UnreadRecord(b"key", b"value")]
        self._story = story

    def begin(self) -> None:
        self._story.append("begun")

    def confirm(self) -> None:
        self._story.append("confirmed")

    def refuse(self) -> None:
        self._story.append("refused")


class Desk:
    """Writes whose portions go on when a test says."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.portions = Portions(Outbox(self.later.append), self.later.append)
        self.journal = HeldJournal()
        tracker = RewriteTracker(1 << 20)
        self.writes = Writes(self.journal, tracker, self.portions, in_flight_max=10)
        self.story: list[str] = []

    def write(self) -> bool:
        return self.writes.append(0, Noted(self.story), lambda why: self.story.append(str(why)))

    def write_in_a_portion(self) -> list[str]:
        """Write amid other work; return what had happened when the journal had answered."""
        seen: list[str] = []

        def steps() -> Iterator[int]:
            self.write()
            seen.extend(self.story)
            yield 1

        self.portions.begin(steps())
        return seen

    def go_on(self) -> None:
        while self.later:
            self.later.pop(0)()


@pytest.mark.parametrize("why", [Unwritten.NOT_HERE, Unwritten.TOO_FEW_IN_STEP])
def test_what_the_journal_refuses_is_dropped_before_anything_else_happens(why: Unwritten) -> None:
    desk = Desk()
    desk.journal.refuses = why
    assert desk.write_in_a_portion() == ["begun", "refused"]
    desk.go_on()
    assert desk.story == ["begun", "refused", str(why)]
    assert desk.writes.in_flight == 0


def test_a_refused_write_was_not_taken() -> None:
    desk = Desk()
    assert desk.write()
    desk.journal.refuses = Unwritten.NOT_HERE
    assert not desk.write()


def test_what_is_late_stays_under_way_and_its_end_is_told_to_nobody_again() -> None:
    desk = Desk()
    desk.write()
    desk.journal.tell_late()
    desk.go_on()
    assert desk.story == ["begun", str(Unwritten.LATE)]
    assert desk.writes.in_flight == 1
    desk.journal.confirm()
    desk.go_on()
    assert desk.story == ["begun", str(Unwritten.LATE), "confirmed"]
    assert desk.writes.in_flight == 0
