"""What else clients might ask of coordinators: tried on copies of what real ones have loaded.

Runs come to a few loadings, and try each once or not at all. Here many walks begin with the log
that a new coordinator has found behind a failover, and many with none.
"""

import pytest

from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan
from tests.sim.test_directed_groups import READ, coordinator, has_committed, replaced

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WALKS = 90
DUTIES = 100


async def walk_behind_failovers(run: Run) -> None:
    """Replace the coordinator; then ask a copy of the new one what might be asked."""
    trials = run.invariants.group_trials
    for _ in range(2):
        await has_committed(run)
        old = coordinator(run)
        assert old is not None
        old.kill()
        await replaced(run, old)
        await run.until(lambda: bool(trials.newest))
        for _ in range(WALKS):
            trials.walk(trials.newest)
            trials.walk([])
        for _ in range(DUTIES):
            trials.walk_duties()
        old.start()


def test_whatever_is_asked_of_a_coordinator_is_answered_right() -> None:
    assert run_plan(Plan(seed=1, shape=READ), walk_behind_failovers).findings == []
