"""Planted bugs of the audit are found by clients that know what they did."""

from typing import Any

import pytest

from penstock.audit.compiled import Counts, count_batches
from penstock.audit.fold import Fold
from penstock.audit.row import encode_row
from penstock.broker.audit import audit_log
from penstock.broker.audit.row_log import RowLog
from penstock.kafka import audited
from penstock.kafka.audited import AuditedMeasure
from simulator.run.plan import Fault, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(
    is_apart=True,
    partitions=1,
    producers=1,
    records_per_second=20,
    audited=2,
)


CALM = (kill(3_000, "c1"),)
BROKERS_DIE = tuple(kill(1_000 + 2_500 * at, f"b{at % 3 + 1}") for at in range(4))


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 3) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHAPE, faults, seeds)


def test_clients_find_what_they_did_in_the_rows_while_brokers_die() -> None:
    assert found(BROKERS_DIE, seeds=2) == []


def test_a_row_that_is_left_out_of_a_fold_is_found(planted: MonkeyPatch) -> None:
    take = Fold.take

    def without_one(self: Fold, wall_ms: int) -> Any:
        taken = take(self, wall_ms)
        if len(taken.rows) > 1:
            taken.rows.popitem()
        return taken

    planted.setattr(Fold, "take", without_one)
    assert any("not written in time" in one for one in found())


def test_rows_that_are_kept_beyond_their_fold_are_found(planted: MonkeyPatch) -> None:
    measured: Any = audited.audited

    def kept(fold: Any, context: Any, total: Any, api: Any) -> AuditedMeasure:
        measure = measured(fold, context, total, api)
        measure._generation = fold.generation
        return measure

    planted.setattr("penstock.kafka.dispatch.audited", kept)
    assert any("not written in time" in one for one in found())


def test_requests_of_a_run_that_count_as_one_are_found(planted: MonkeyPatch) -> None:
    received = AuditedMeasure.received
    planted.setattr(AuditedMeasure, "received", lambda self, size, count=1: received(self, size))
    assert any("requests of" in one for one in found())


def test_a_refused_batch_that_counts_as_taken_is_found(planted: MonkeyPatch) -> None:
    def all_good(rows: Any, memory: Any, parts: Any, answers: Any, missing: Any) -> None:
        good = [(*answer[:2], 0, *answer[3:]) for answer in answers]
        count_batches(rows, memory, parts, good, missing)

    planted.setattr(audited, "count_batches", all_good)
    assert any("errors of" in one for one in found())


def test_a_row_that_is_lost_while_it_waits_is_found(planted: MonkeyPatch) -> None:
    wait: Any = RowLog.wait

    def forgetful(self: RowLog[Any], *rows: Any) -> bool:
        is_kept: bool = wait(self, *rows)
        if self._number % 7 == 0:
            self._waiting.pop()
        return is_kept

    planted.setattr(RowLog, "wait", forgetful)
    assert any("is missing" in one or "not written" in one for one in found())


def test_numbers_that_count_twice_are_found(planted: MonkeyPatch) -> None:
    def doubled(node: int, began_ms: int, ended_ms: int, key: Any, counts: Any) -> bytes:
        double = Counts()
        double.requests, double.records = 2 * counts.requests, 2 * counts.records
        return encode_row(node, began_ms, ended_ms, key, double)

    planted.setattr(audit_log, "encode_row", doubled)
    assert any("were sent" in one for one in found())
