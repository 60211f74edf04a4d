"""Coordinators and partitions with planted bugs are found by who writes and reads transactions."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from penstock.broker.append import markers
from penstock.broker.fetch import operation
from penstock.coordinator.calls.transactions import MarkersRequest, MarkersResponse
from penstock.kafka.transactions.answering import TransactionAnswers
from penstock.kafka.transactions.marking import MarkerSender
from penstock.replication.errors import NotMaster
from penstock.transactions import coordinator, decide
from penstock.transactions.duties import Duties
from penstock.transactions.state import Transaction
from simulator.clients.transactor import TOPIC
from simulator.run.plan import Fault, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WRITTEN = Shape(is_apart=True, partitions=1, producers=1, records_per_second=20, transactors=2)
"""One of them speaks version 2, the other version 1."""
MANY = replace(WRITTEN, transactors=5)
"""More markers, so more that come after the next transaction has begun."""


RESTS_MS = 1_500
CALM = (kill(3_000, "c1", RESTS_MS),)
"""Nothing happens to those that have transactions."""
MASTERS_DIE = (
    kill(2_000, "master:0", RESTS_MS),
    kill(4_000, "master:1", RESTS_MS),
    kill(5_000, "master:2", RESTS_MS),
)


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 3, shape: Shape = WRITTEN) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(shape, faults, seeds)


def test_transactions_are_whole_while_masters_die() -> None:
    assert found(MASTERS_DIE) == []


def make_markers_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every third question for markers be answered by an unknown outcome, and done later."""
    right = TransactionAnswers.write_markers
    numbers = count()
    going: set[asyncio.Task[None]] = set()

    async def late(self: TransactionAnswers, question: MarkersRequest) -> MarkersResponse:
        number = next(numbers)
        if number % 3:
            return await right(self, question)

        async def do() -> None:
            await asyncio.sleep(0.05 + 0.1 * (number % 4))
            await right(self, question)

        task = asyncio.get_running_loop().create_task(do())
        going.add(task)
        task.add_done_callback(going.discard)
        raise NotMaster("nobody hears how this one ends")

    monkeypatch.setattr(TransactionAnswers, "write_markers", late)


def test_markers_that_are_asked_for_twice_and_are_late_end_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_markers_late(monkeypatch)
    assert found(CALM, shape=MANY) == []
    assert found(MASTERS_DIE) == []


def test_late_markers_that_end_a_later_transaction_are_found(
    planted: pytest.MonkeyPatch,
) -> None:
    make_markers_late(planted)
    planted.setattr(markers, "_is_overtaken", lambda *_: False)
    assert any("is read in" in one for one in found(CALM, shape=MANY))


def test_markers_that_say_the_opposite_are_found(planted: pytest.MonkeyPatch) -> None:
    right = MarkerSender._entry

    def opposite(self: MarkerSender, duty: Any, places: Any) -> Any:
        entry = right(self, duty, places)
        return replace(entry, is_commit=not entry.is_commit)

    planted.setattr(MarkerSender, "_entry", opposite)
    told = found()
    assert any("committed and is not read" in one or "aborted and is read" in one for one in told)


def test_a_partition_that_hears_another_end_than_the_others_is_found(
    planted: pytest.MonkeyPatch,
) -> None:
    right = MarkerSender._entry

    def torn(self: MarkerSender, duty: Any, places: Any) -> Any:
        entry = right(self, duty, places)
        return replace(entry, is_commit=entry.is_commit and (TOPIC, 0) not in places)

    planted.setattr(MarkerSender, "_entry", torn)
    assert any("is read in" in one for one in found())


def test_a_partition_that_nobody_tells_is_found(planted: pytest.MonkeyPatch) -> None:
    right = Duties.begin

    def forgetful(self: Duties, partition: int, one: Transaction) -> bool:
        kept = frozenset(sorted(one.partitions)[1:])
        return right(self, partition, one._replace(partitions=kept))

    planted.setattr(Duties, "begin", forgetful)
    assert any("not decided in time" in one for one in found())


def test_records_that_are_not_stable_are_found(planted: pytest.MonkeyPatch) -> None:
    planted.setattr(operation, "stable_end", lambda _hosted, confirmed: confirmed)
    told = found()
    assert any("aborted and is read" in one or "is read in" in one for one in told)


def test_aborted_transactions_that_are_not_named_are_found(planted: pytest.MonkeyPatch) -> None:
    def nothing(_hosted: Any, _start: int, _end: int, done: Any, _turn: Any) -> None:
        done([], None)

    planted.setattr(operation, "find_aborted", nothing)
    assert any("aborted and is read" in one for one in found())


def test_a_replaced_instance_that_may_go_on_is_found(planted: pytest.MonkeyPatch) -> None:
    right = decide.decide_init

    def same(one: Transaction | None, *asked: Any, **known: Any) -> decide.Decision:
        if one is None:
            return right(one, *asked, **known)
        return decide.Answered(decide.producer_of(one))

    planted.setattr(coordinator, "decide_init", same)
    assert any("could commit" in one for one in found())
