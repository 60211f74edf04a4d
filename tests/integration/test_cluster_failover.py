"""A cluster of real processes: masters that die, hang or are relieved; nothing is lost.

Longer series: `python -m reliability.failovers --kills 300`, `--stops`, `--transfers`.
"""

from pathlib import Path

import pytest

from harness.cluster import ClusterProcess
from harness.failover import (
    Break,
    FailoverRun,
    Failovers,
    Mend,
    kill,
    leave_be,
    pause,
    resume,
    start_again,
)
from harness.node import SettingsOf
from harness.operators import transfer_all
from harness.replica_bytes import differences
from harness.workload import Load
from reliability.faults.trials import CLIENT_TIMEOUT_MS, QUICK_SESSIONS

pytestmark = pytest.mark.process


# Nobody moves masterships back beside the operator, who would be refused.
MOVED_BY_HAND = {
    **QUICK_SESSIONS,
    "controller": {**QUICK_SESSIONS["controller"], "preferred_master_delay_ms": -1},
}


def series(
    directory: Path,
    kind: str,
    faults: int,
    break_it: Break,
    mend_it: Mend,
    settings: SettingsOf = QUICK_SESSIONS,
) -> FailoverRun:
    """Break and mend a cluster of three so many times, and compare its replicas in the end."""
    load = Load(records_per_second=400, socket_timeout_ms=CLIENT_TIMEOUT_MS)
    with ClusterProcess(directory, settings=settings) as cluster:
        run = Failovers(
            cluster=cluster, load=load, kind=kind, break_it=break_it, mend_it=mend_it
        ).repeat(faults)
        if not run.problems:
            run.problems += differences(cluster)[1]
    return run


def test_masters_that_are_killed_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    run = series(tmp_path, "kill", 4, kill, start_again)
    assert run.problems == []
    assert len(run.faults) == 4
    assert run.report is not None
    assert run.report.is_clean()


def test_masters_that_hang_are_replaced_and_come_back_as_slaves(tmp_path: Path) -> None:
    run = series(tmp_path, "stop", 2, pause, resume)
    assert run.problems == []
    assert run.report is not None
    assert run.report.is_clean()


def test_masterships_are_handed_over_under_load(tmp_path: Path) -> None:
    run = series(tmp_path, "transfer", 3, transfer_all, leave_be, MOVED_BY_HAND)
    assert run.problems == []
    assert run.report is not None
    assert run.report.is_clean()
