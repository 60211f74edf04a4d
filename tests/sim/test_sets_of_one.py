"""Sets of one member that acknowledge from the page cache: their process may be killed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.base.ids import Offset
from penstock.broker.append.markers import append_marker
from penstock.broker.fetch import operation
from penstock.broker.fetch.committed import stable_end
from penstock.broker.partitions import HostedPartition
from penstock.kafka.transactions import marking
from penstock.transactions.duties import Duties
from penstock.transactions.state import Transaction
from simulator.kernel.disk import SimDisk
from simulator.run.plan import Fault, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(
    replication_factor=1,
    is_apart=True,
    partitions=1,
    producers=1,
    records_per_second=20,
    transactors=3,
    movers=1,
    is_flushed_later=True,
)
CALM = (kill(3_000, "c1"),)
BROKERS_DIE = tuple(kill(1_500 + 1_500 * at, f"b{at % 3 + 1}", 500) for at in range(6))


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 3) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHAPE, faults, seeds)


def test_a_process_that_is_killed_takes_nothing_and_leaves_no_transaction_open(
    monkeypatch: MonkeyPatch,
) -> None:
    put_off: list[bool] = []
    right = Duties.put_off

    def counted(self: Duties, partition: int, one: Transaction) -> bool:
        put_off.append(right(self, partition, one))
        return put_off[-1]

    monkeypatch.setattr(Duties, "put_off", counted)
    assert found(BROKERS_DIE, seeds=2) == []
    assert sum(put_off) > 20, "markers come behind the answer"


@pytest.mark.usefixtures("planted")
def test_who_pops_comes_back_to_a_set_whose_only_member_was_away() -> None:
    """A route that is told meanwhile is without the set, and nothing fails by it."""
    shape = replace(SHAPE, transactors=0, movers=0, remoting=1)
    assert first_findings(shape, (kill(1_500, "b1", 2_500),), 1) == []


def test_markers_that_are_put_off_and_never_written_are_found(planted: MonkeyPatch) -> None:
    planted.setattr(Duties, "taken_up", lambda *_: None)
    assert any("not decided in time" in one for one in found())


def change_markers(planted: MonkeyPatch, is_changed: Callable[[HostedPartition], bool]) -> None:
    """Let some of the markers that come behind an answer say the opposite of it."""
    right = append_marker

    def opposite(hosted: HostedPartition, ended: Any, *more: Any, **named: Any) -> None:
        if is_changed(hosted):
            ended = ended._replace(is_commit=not ended.is_commit)
        right(hosted, ended, *more, **named)

    planted.setattr(marking, "append_marker", opposite)


def test_markers_behind_an_answer_that_say_the_opposite_are_found(planted: MonkeyPatch) -> None:
    change_markers(planted, lambda _: True)
    told = found()
    assert any("committed and is not read" in one or "aborted and is read" in one for one in told)


def test_a_transaction_of_which_half_can_be_seen_is_found(planted: MonkeyPatch) -> None:
    change_markers(planted, lambda hosted: hosted.partition == 0)
    assert any("is read in" in one for one in found())


def test_a_kill_that_takes_what_was_written_to_the_page_cache_is_found(
    planted: MonkeyPatch,
) -> None:
    kill_process, lose_power = SimDisk.kill, SimDisk.power_loss

    def lose_all(disk: SimDisk) -> None:
        planted.setattr(SimDisk, "kill", kill_process)  # which a loss of power begins with
        lose_power(disk)
        planted.setattr(SimDisk, "kill", lose_all)

    planted.setattr(SimDisk, "kill", lose_all)
    assert found(BROKERS_DIE)


def test_a_last_stable_offset_that_falls_is_found(planted: MonkeyPatch) -> None:
    right = stable_end
    told: dict[int, int] = {}

    def falling(hosted: Any, confirmed: Any) -> Any:
        end = right(hosted, confirmed)
        told[id(hosted)] = told.get(id(hosted), 0) + 1
        is_low = told[id(hosted)] % 50 == 0
        return end._replace(offset=Offset(max(0, end.offset - 2))) if is_low else end

    planted.setattr(operation, "stable_end", falling)
    assert any("last stable offset falls" in one for one in found())
