"""The tier's metadata behind a log: what is told when, what is taken back, what is loaded."""

import pytest

from penstock.base.ids import LeaderEpoch
from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.tier.metadata.commands import (
    Committed,
    Done,
    Fence,
    Fenced,
    Reason,
    Refused,
    Reserve,
    Reserved,
    Tenure,
    Tick,
)
from penstock.tier.metadata.objects import Due, State
from penstock.tier.service import records as r
from tests.coordinator.held_journal import Batch, HeldJournal
from tests.coordinator.shard_contract import load
from tests.extents.files import SET
from tests.tier.clerk import KEYS, TIMES, Clerk, everything_of

TENURE = Tenure(SET, LeaderEpoch(1), 1)


class Desk:
    """A clerk, its journal, and a partition that is loaded."""

    def __init__(self, journal: HeldJournal | None = None, runs_max: int = 100_000) -> None:
        self.journal = HeldJournal() if journal is None else journal
        self.clerk = Clerk(self.journal, runs_max=runs_max)
        load(self.clerk.coordinator, self.journal.log())  # type: ignore[arg-type]

    def asked(self, *commands: object) -> list[object]:
        """Return the answers to commands, each confirmed before the next one is asked."""
        del self.clerk.answers[:]
        for command in commands:
            self.clerk.ask(command)  # type: ignore[arg-type]
            self.journal.confirm()
        return [*self.clerk.answers]

    def with_a_copy(self, records: int = 5) -> "Desk":
        """Fence, reserve, and commit a run of the first partition."""
        self.clerk.fence(1)
        self.clerk.reserve()
        self.clerk.copy(0, records)
        self.journal.confirm()
        assert self.clerk.answers[-1] == Committed()
        return self

    def due(self) -> list[Due] | Unwritten | None:
        told: list[list[Due] | Unwritten] = []
        self.clerk.coordinator.due(0, told.append)
        return told[0] if told else None

    def state_of(self, object_id: int) -> State | None:
        row = self.clerk.metadata.objects.rows.get(object_id)
        return None if row is None else row.state


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_an_answer_waits_until_the_log_has_the_command(desk: Desk) -> None:
    desk.clerk.fence(1)
    desk.clerk.reserve(2)
    assert desk.clerk.answers == []
    desk.journal.confirm(1)
    assert desk.clerk.answers == [Fenced(TENURE)]
    desk.journal.confirm(1)
    assert desk.clerk.answers[1:] == [Reserved((1, 2))]


def test_what_changes_nothing_waits_for_what_it_has_seen(desk: Desk) -> None:
    """Asked again, a fence is answered from the first one, which a failover may still undo."""
    desk.clerk.fence(1)
    desk.clerk.fence(1)
    assert len(desk.journal.batches) == 1
    assert desk.clerk.answers == []
    desk.journal.confirm()
    assert desk.clerk.answers == [Fenced(TENURE)] * 2
    assert desk.asked(Tick()) == [Done()]
    assert len(desk.journal.batches) == 1


def test_what_a_command_changes_is_one_batch(desk: Desk) -> None:
    desk.with_a_copy()
    kinds = [r.Kind(int.from_bytes((one.key or b"")[:2])) for one in desk.journal.records()][-5:]
    assert kinds == [r.Kind.COUNTERS, r.Kind.TENURE, r.Kind.OBJECT, r.Kind.PARTITION, r.Kind.RUN]
    assert len(desk.journal.batches[-1].records) == 5


def test_a_copy_behind_many_runs_writes_its_own_alone(desk: Desk) -> None:
    desk.with_a_copy()
    for _ in range(20):
        desk.clerk.reserve()
        desk.clerk.copy(0, 3)
    assert len(desk.journal.batches[-1].records) == 5


def test_a_command_that_the_log_refuses_has_not_been(desk: Desk) -> None:
    desk.with_a_copy()
    before = everything_of(desk.clerk.metadata)
    desk.clerk.reserve()
    desk.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    desk.clerk.fence(2)
    desk.clerk.shorten(0, from_end=False, count=9)
    assert desk.clerk.answers[-2:] == [Unwritten.TOO_FEW_IN_STEP] * 2
    desk.journal.refuses = None
    assert desk.state_of(2) is State.RESERVED
    desk.clerk.copy(0, 4)
    desk.journal.confirm()
    assert desk.clerk.answers[-2:] == [Reserved((2,)), Committed()]
    assert before != everything_of(desk.clerk.metadata)


def test_a_deadline_holds_that_passed_when_the_log_took_nothing(desk: Desk) -> None:
    desk.clerk.fence(1)
    desk.clerk.reserve()
    desk.journal.confirm()
    desk.clerk.clock.now_ms += TIMES.upload_ms
    desk.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    assert desk.asked(Tick()) == [Unwritten.TOO_FEW_IN_STEP]
    assert desk.state_of(1) is State.RESERVED
    desk.journal.refuses = None
    assert desk.asked(Tick()) == [Done()]
    assert desk.state_of(1) is State.ABORTED
    assert [one.name.object_id for one in desk.due() or ()] == [1]  # type: ignore[union-attr]


def test_nothing_is_due_that_a_failover_could_undo(desk: Desk) -> None:
    """Deleting at once what an unconfirmed fence has ended would delete what is committed then."""
    desk.clerk.fence(1)
    desk.clerk.reserve()
    desk.journal.confirm()
    desk.clerk.fence(2)
    told: list[object] = []
    desk.clerk.coordinator.due(0, told.append)
    assert told == []
    desk.journal.lose(0)
    desk.clerk.coordinator.runtime.unload(0)
    assert told == [Unwritten.OVERTAKEN]
    assert Desk(desk.journal).due() == []


def test_who_waits_when_the_partition_goes_is_told_to_ask_again(desk: Desk) -> None:
    desk.clerk.fence(1)
    desk.clerk.fence(1)
    waiting = desk.journal.lose(0)
    waiting[0].done(Unwritten.OVERTAKEN)
    desk.clerk.ask(Tick())
    desk.clerk.coordinator.runtime.unload(0)
    desk.clerk.ask(Tick())
    told = [Unwritten.OVERTAKEN, Unwritten.OVERTAKEN, Unwritten.NOT_HERE]
    assert sorted(one.name for one in desk.clerk.answers if isinstance(one, Unwritten)) == sorted(
        one.name for one in told
    )


def test_behind_a_command_that_is_lost_nothing_is_answered(desk: Desk) -> None:
    desk.clerk.fence(1)
    desk.clerk.reserve()
    waiting = desk.journal.lose(1)
    for batch in waiting:
        batch.done(Unwritten.OVERTAKEN)
    desk.clerk.ask(Tick())
    assert desk.clerk.answers == [Unwritten.OVERTAKEN] * 3


def test_a_command_that_was_done_unknown_is_answered_as_before(desk: Desk) -> None:
    """The next master has the log and not the answer."""
    desk.with_a_copy()
    desk.clerk.reserve(3)
    desk.journal.lose(1)
    after = Desk(desk.journal)
    assert after.asked(Reserve(TENURE, 3, 3)) == [Reserved((2, 3, 4))]
    assert after.asked(Reserve(TENURE, 2, 3)) == [Refused(Reason.REPEATED)]
    assert after.asked(Fence(SET, LeaderEpoch(1), b"n")) == [Fenced(TENURE)]
    assert after.asked(Fence(SET, LeaderEpoch(0), b"n")) == [Refused(Reason.FENCED)]


def test_a_command_that_was_told_late_is_done_when_the_log_has_it(desk: Desk) -> None:
    desk.clerk.fence(1)
    desk.journal.tell_late()
    assert desk.clerk.answers == [Unwritten.LATE]
    desk.journal.confirm()
    assert desk.asked(Fence(SET, LeaderEpoch(1), b"n")) == [Fenced(TENURE)]


def test_what_is_loaded_goes_on_with_its_deadlines(desk: Desk) -> None:
    desk.with_a_copy()
    desk.clerk.reserve()
    desk.clerk.shorten(0, from_end=False, count=5)
    desk.journal.confirm()
    after = Desk(desk.journal)
    assert everything_of(after.clerk.metadata) == everything_of(desk.clerk.metadata)
    assert (after.state_of(1), after.state_of(2)) == (State.DOOMED, State.RESERVED)
    after.clerk.clock.now_ms += TIMES.upload_ms
    after.asked(Tick())
    assert [one.name.object_id for one in after.due() or ()] == [2]  # type: ignore[union-attr]
    after.clerk.clock.now_ms += TIMES.grace_ms
    after.asked(Tick())
    assert [one.name.object_id for one in after.due() or ()] == [2, 1]  # type: ignore[union-attr]


def test_give_ups_are_loaded_and_rewritten_as_they_were_counted(desk: Desk) -> None:
    desk.with_a_copy()
    for _ in range(3):
        desk.clerk.give_up(0)
    desk.clerk.reserve()
    desk.clerk.copy(0, 4)
    desk.journal.confirm()
    manifest = desk.clerk.metadata.manifest(KEYS[0])
    assert (manifest.give_ups, manifest.end_offset) == (2, 4)
    after = Desk(desk.journal)
    assert everything_of(after.clerk.metadata) == everything_of(desk.clerk.metadata)
    rows = [row for step in after.clerk.coordinator._shard.live_records(0) for row in step]
    assert (r.give_ups_key(KEYS[0]), r.encode_give_ups(2)) in rows
    assert r.give_ups_key(KEYS[1]) not in [row[0] for row in rows]


def test_a_give_up_that_the_log_refuses_has_not_been(desk: Desk) -> None:
    desk.clerk.fence(1)
    desk.clerk.give_up(0)
    desk.journal.confirm()
    desk.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    desk.clerk.give_up(0)
    assert desk.clerk.answers[-1] is Unwritten.TOO_FEW_IN_STEP
    assert desk.clerk.metadata.manifest(KEYS[0]).give_ups == 1


def test_time_does_not_go_back_with_another_master(desk: Desk) -> None:
    desk.clerk.clock.now_ms += 50
    desk.clerk.fence(1)
    desk.clerk.reserve()
    desk.journal.confirm()
    after = Desk(desk.journal)
    assert after.clerk.clock.wall_ms() < desk.clerk.clock.wall_ms()
    assert after.clerk.metadata.now_ms == desk.clerk.clock.wall_ms()


MONTH_MS = 30 * 86_400_000


def ids_due(desk: Desk) -> list[int]:
    found = desk.due()
    assert isinstance(found, list)
    return [one.name.object_id for one in found]


def test_a_wall_clock_that_jumps_ends_no_grace_and_no_upload_early(desk: Desk) -> None:
    desk.with_a_copy()
    desk.clerk.shorten(0, from_end=False, count=5)
    desk.clerk.reserve()
    desk.journal.confirm()
    desk.clerk.clock.ahead_ms = MONTH_MS
    desk.asked(Tick())
    assert (ids_due(desk), desk.state_of(2)) == ([], State.RESERVED)
    desk.clerk.clock.now_ms += TIMES.grace_ms
    desk.asked(Tick())
    assert ids_due(desk) == [1, 2]


def test_a_wall_clock_that_is_set_back_holds_no_delete_of_an_object_back(desk: Desk) -> None:
    """Before, time stood still until the clock had come to where it once was."""
    desk.clerk.clock.ahead_ms = MONTH_MS
    desk.with_a_copy()
    desk.clerk.shorten(0, from_end=False, count=5)
    desk.journal.confirm()
    desk.clerk.clock.ahead_ms = 0
    desk.clerk.clock.now_ms += TIMES.grace_ms - 1
    desk.asked(Tick())
    assert ids_due(desk) == []
    desk.clerk.clock.now_ms += 1
    desk.asked(Tick())
    assert ids_due(desk) == [1]


def test_a_master_whose_clock_is_right_goes_on_from_the_time_of_one_whose_clock_was_ahead(
    desk: Desk,
) -> None:
    desk.clerk.clock.ahead_ms = MONTH_MS
    desk.with_a_copy()
    desk.clerk.shorten(0, from_end=False, count=5)
    desk.journal.confirm()
    after = Desk(desk.journal)
    after.asked(Tick())
    after.clerk.clock.now_ms += TIMES.grace_ms - 1
    after.asked(Tick())
    assert ids_due(after) == []
    after.clerk.clock.now_ms += 1
    after.asked(Tick())
    assert ids_due(after) == [1]


def test_ids_are_refused_when_there_are_as_many_runs_as_may_be() -> None:
    desk = Desk(runs_max=2).with_a_copy()
    desk.clerk.reserve(2)
    desk.clerk.copy(0, 3)
    desk.clerk.reserve()
    desk.clerk.copy(1, 3)
    desk.journal.confirm()
    assert desk.clerk.answers[-2:] == [Refused(Reason.FULL), Committed()]
    desk.clerk.shorten(0, from_end=False, count=20)
    desk.clerk.reserve()
    desk.journal.confirm()
    assert desk.clerk.answers[-1] == Reserved((4,))


@pytest.mark.parametrize("key", [r.run_key(KEYS[0], 0), r.COUNTERS_KEY, r.tenure_key(SET)])
def test_a_partition_with_a_row_of_a_later_release_answers_nothing(desk: Desk, key: bytes) -> None:
    """Without one of its runs a manifest would have a gap; the log keeps what nobody here reads."""
    desk.with_a_copy()
    later = Batch([UnreadRecord(key, b"\x00\x01more")], lambda _: None, is_confirmed=True)
    desk.journal.batches.append(later)
    after = Desk(desk.journal)
    assert after.asked(Tick()) == [Unwritten.OVERTAKEN]
    assert not after.clerk.coordinator.runtime.is_movable(0)
