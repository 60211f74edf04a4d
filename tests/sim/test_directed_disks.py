"""Disks that are full or fail just when a log is cut, and what the node makes of it."""

import errno

import pytest

from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan
from tests.sim.test_directed import (
    BUSY,
    SET_WITH_RECORDS,
    _is_ahead,
    image_of,
    leader_epoch,
    server,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("fault", [("allocate", "/log/"), ("replace", "pending-change")])
def test_an_old_master_whose_disk_is_full_while_its_log_is_cut_gets_in_step(
    fault: tuple[str, str],
) -> None:
    async def schedule(run: Run) -> None:
        old = server(run, f"master:{SET_WITH_RECORDS}")
        epoch = leader_epoch(run, SET_WITH_RECORDS)
        others = [host for host in run.cluster.servers if host != old.name]
        cut = Effect(pairs=pairs([old.name], others, both_ways=True), is_cut=True)
        run.cluster.weather.add(cut)
        await run.until(lambda: _is_ahead(run, old))
        await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > epoch)
        old.disk.fail(*fault, errno.ENOSPC, times=2)
        run.cluster.weather.remove(cut)
        await run.until(lambda: not old.disk.faults, seconds=10)
        await run.until(
            lambda: len(image_of(run, SET_WITH_RECORDS).sync_state_set) == 3, seconds=20
        )
        assert old.starts == 1, "it went on by itself"

    result = run_plan(Plan(seed=1, shape=BUSY, settle_ms=800), schedule)
    assert not result.findings, result.findings[:3]
    assert result.acked > 0
