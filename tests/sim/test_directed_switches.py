"""The store of the history's topic is given up and wanted again, in simulated clusters."""

import pytest

from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from simulator.run.topology import TOPIC

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHAPE = Shape(
    replication_factor=2,
    partitions=1,
    producers=1,
    records_per_second=300,
    level0_bytes=0,
    is_tiered=True,
    local_retention_bytes=0,
)
PLAN = Plan(seed=3, shape=SHAPE)


def local_starts(run: Run) -> list[int]:
    """Where the logs of the topic begin, of each member that runs."""
    found = []
    for node in run.cluster.nodes():
        topic = node.image.topics_by_name.get(TOPIC)
        for member in () if node.manager is None else node.manager.members.values():
            for key, partition in member.log.partitions.items():
                if topic is not None and key.topic_id == topic.topic_id:
                    found.append(int(partition.log_start_offset))
    return found


def tier_counts(run: Run) -> set[int]:
    """How often the tier takes the topic's partition to be given up, by the newest answers."""
    newest = run.cluster.newest_image()
    assert newest is not None
    topic_id = newest.topics_by_name[TOPIC].topic_id
    told = [one for key, one in run.tier.told.items() if key.topic_id == topic_id]
    return {one.snapshots[max(one.snapshots)].give_ups for one in told}


async def off_and_on(run: Run) -> None:
    """Have the store given up, and wanted again at once."""
    heal = run.faults.begin(Fault(kind=FaultKind.GIVE_UP, at_ms=0, lasting_ms=0, targets=()))
    assert heal is not None
    heal()
    await run.until(lambda: bool(run.faults.switches.given_up), 10)


async def freed(run: Run, above: int = 0) -> None:
    """Wait until the store alone has some of the topic."""
    await run.until(lambda: min(local_starts(run), default=0) > above, 30)


async def story(run: Run) -> None:
    """Free, give up, want again at once, free again."""
    await freed(run)
    await off_and_on(run)
    at = max(local_starts(run))
    await run.until(lambda: tier_counts(run) == {1} or bool(run.invariants.findings), 30)
    await freed(run, at)


def test_what_was_given_up_stays_so_when_the_store_is_wanted_again_at_once() -> None:
    assert run_plan(PLAN, story).findings == []
