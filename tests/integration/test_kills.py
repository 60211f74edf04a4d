"""Killed with -9 or cut from power under load: nothing lost, doubled or out of order.

Two hundred of each: `python -m reliability.kills` and `python -m reliability.power_cuts`.
"""

from pathlib import Path

import pytest

from harness.workload import Load
from reliability.faults.faults import cut_power_repeatedly, kill_repeatedly
from simulator.history import Anomaly

pytestmark = pytest.mark.process


def test_eight_kills_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    run = kill_repeatedly(tmp_path, kills=8, load=Load(seed=1))
    assert run.problems == []
    assert run.faults == 8
    assert run.report is not None
    assert run.report.acked >= 8 * 150
    assert run.report.is_clean()


@pytest.mark.usefixtures("loop_disks")
def test_four_power_cuts_lose_nothing_acknowledged(tmp_path: Path) -> None:
    run = cut_power_repeatedly(tmp_path, cuts=4, load=Load(seed=2))
    assert run.problems == []
    assert run.faults == 4
    assert run.report is not None
    assert run.report.is_clean()


@pytest.mark.usefixtures("loop_disks")
def test_power_cuts_do_take_what_was_acknowledged_from_the_page_cache(tmp_path: Path) -> None:
    """The weaker setting loses records, and the checker sees it: the tests above have teeth."""
    slow_flush = {"log": {"flush_policy": "async", "flush_interval_ms": 5000}}
    load = Load(seed=3, is_idempotent=False)
    run = cut_power_repeatedly(tmp_path, cuts=2, load=load, settings=slow_flush)
    assert run.report is not None
    assert run.report.lost > 0 or run.report.count(Anomaly.INCONSISTENT_OFFSETS) > 0
