"""Killed with -9 under load: nothing lost, doubled or out of order (200 by benchmarks.kills)."""

from pathlib import Path

import pytest
from benchmarks.harness.faults import cut_power_repeatedly, kill_repeatedly
from benchmarks.harness.workload import Load

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


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
