"""Planted bugs of the trace of messages are found by the members of the group that is traced."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.broker.audit import message_trace
from penstock.broker.audit.message_trace import MessageTrace
from penstock.broker.audit.row_log import RowLog
from penstock.finding.traces import Row, names_of, sampled
from penstock.shares.updates.tracing import ACCEPTED, DELIVERED, GIVEN_UP, RELEASED, Event
from simulator.run.plan import Fault, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(
    is_apart=True,
    partitions=1,
    producers=1,
    records_per_second=20,
    sharers=3,
    trace_percent=60.0,
)
CALM = (kill(3_000, "c1"),)
MASTERS_DIE = tuple(kill(1_000 + 1_200 * at, f"master:{at % 3}") for at in range(6))


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 2) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHAPE, faults, seeds)


def change_events(planted: MonkeyPatch, change: Any) -> None:
    """Have other events told than those that happened."""
    right = MessageTrace.happened

    def changed(self: MessageTrace, key: Any, events: Sequence[Event]) -> None:
        right(self, key, [one for event in events for one in change(event)])

    planted.setattr(MessageTrace, "happened", changed)


def test_rows_say_what_members_have_seen_while_masters_die() -> None:
    assert found(MASTERS_DIE) == []


def test_what_is_given_back_and_is_said_to_be_done_is_found(planted: MonkeyPatch) -> None:
    def change(event: Event) -> list[Event]:
        return [event._replace(name=ACCEPTED) if event.name == RELEASED else event]

    change_events(planted, change)
    assert any(" is done by " in one or ", after row" in one for one in found())


def test_what_is_rejected_and_is_said_to_be_accepted_is_found(planted: MonkeyPatch) -> None:
    def change(event: Event) -> list[Event]:
        return [event._replace(name=ACCEPTED) if event.name == GIVEN_UP else event]

    change_events(planted, change)
    assert any(" is done by " in one for one in found())


def test_an_end_that_nobody_is_told_of_is_found(planted: MonkeyPatch) -> None:
    change_events(planted, lambda event: [] if event.name == ACCEPTED else [event])
    assert any("was accepted, and no row says so" in one for one in found())


def test_a_delivery_that_is_told_twice_is_found(planted: MonkeyPatch) -> None:
    change_events(planted, lambda event: [event, event] if event.name == DELIVERED else [event])
    assert any("was delivered to" in one for one in found())


def test_a_delivery_to_another_member_is_found(planted: MonkeyPatch) -> None:
    names: list[str] = []

    def change(event: Event) -> list[Event]:
        if event.name == DELIVERED and event.member and event.member not in names:
            names.append(event.member)
        return [event._replace(member=names[0]) if event.name == DELIVERED else event]

    change_events(planted, change)
    assert any("was delivered to" in one for one in found())


def test_events_in_the_wrong_order_are_found(planted: MonkeyPatch) -> None:
    right = MessageTrace.happened
    kept: list[tuple[Any, Event]] = []

    def late(self: MessageTrace, key: Any, events: Sequence[Event]) -> None:
        """Tell of deliveries after what came of them."""
        waiting = [event for event in events if event.name == DELIVERED]
        right(self, key, [event for event in events if event.name != DELIVERED])
        for of, event in [one for one in kept if one[0] == (id(self), key)]:
            right(self, key, [event])
            kept.remove((of, event))
        kept.extend(((id(self), key), event) for event in waiting)

    planted.setattr(MessageTrace, "happened", late)
    assert any(" is delivered by row " in one and ", after row " in one for one in found())


def test_messages_that_are_not_of_the_sample_are_found(planted: MonkeyPatch) -> None:
    planted.setattr(message_trace, "sampled", lambda _id, _partition, runs, _limit: runs)
    assert any("is not among those that are traced" in one for one in found())


def test_a_sample_that_leaves_some_out_is_found(planted: MonkeyPatch) -> None:
    right = sampled

    def fewer(topic_id: bytes, partition: int, runs: Any, limit: int) -> Any:
        return right(topic_id, partition, runs, limit // 2)

    planted.setattr(message_trace, "sampled", fewer)
    assert any("was accepted, and no row says so" in one for one in found())


def test_a_row_that_is_lost_while_it_waits_is_found(planted: MonkeyPatch) -> None:
    right: Any = RowLog.wait

    def forgetful(self: RowLog[Any], *rows: Any) -> bool:
        is_kept: bool = right(self, *rows)
        if self._number % 7 == 0:
            self._waiting.pop()
        return is_kept

    planted.setattr(RowLog, "wait", forgetful)
    assert any("is missing, and row" in one for one in found())


def test_a_row_that_is_found_by_the_name_of_another_message_is_found(planted: MonkeyPatch) -> None:
    right = names_of

    def next_one(row: Row) -> bytes:
        return right(row._replace(runs=[(first + 1, end + 1) for first, end in row.runs]))

    planted.setattr(message_trace, "names_of", next_one)
    assert any(" has Row(" in one for one in found())
