"""A master whose disk fails under it: the active controller hears of it and elects another."""

import errno
from pathlib import Path
from typing import Any

from harness.ha_brain import Brain
from harness.ha_cluster import Broker, HaCluster, ha_cluster
from penstock.base.ids import ReplicaSetId
from penstock.controller.session import FAILED
from penstock.replica.replica_set import Role
from tests.runtime.ha_running import run_long


class BrokenFile:
    """A file that can be read as before, and takes nothing any more."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, _position: int, _buffers: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")


def role_of(broker: Broker, set_id: int = 1) -> str:
    (found,) = [
        report.role for report in broker.manager.reports() if report.replica_set_id == set_id
    ]
    return found


async def founded(cluster: HaCluster) -> None:
    """Wait until there are three sets, each led by its preferred master, and some records."""
    for one in (1, 2, 3):
        await cluster.until(lambda: len(cluster.controllers.judge.image.replica_sets) == 3)
        await cluster.leads(one, one)
        cluster[one].append(10, set_id=one)
        await cluster.confirmed(one, one)


def test_a_master_whose_disk_fails_is_replaced_and_joins_again_after_a_restart(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            brain = Brain(cluster)
            await founded(cluster)
            store = cluster[1].member().log._store
            store.active.file = BrokenFile(store.active.file)
            cluster[1].append()
            await cluster.leads(2)
            found = cluster.controllers.image_of(1)
            assert (found.last_cause, found.sync_state_set) == ("log failed", (2, 3))
            assert role_of(cluster[1]) == FAILED
            assert cluster[1].member(2).role is Role.SLAVE
            assert cluster[1].member(3).role is Role.SLAVE
            assert [cluster.controllers.image_of(one).leader_epoch for one in (2, 3)] == [0, 0]
            cluster[2].append(10)
            await cluster.confirmed(2)
            await cluster[1].crash()
            await cluster[1].start(is_registering=False)
            await cluster.in_step(1, 2, 3)
            cluster[2].append(10)
            await cluster.confirmed(2)
            await cluster.equal(1, 2, 3)
            brain.stop()

    run_long(scenario())


def test_a_slave_whose_disk_fails_says_so_and_its_master_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, replica_lag_time_ms=500) as cluster:
            brain = Brain(cluster)
            await founded(cluster)
            store = cluster[3].member().log._store
            store.active.file = BrokenFile(store.active.file)
            cluster[1].append()
            await cluster.until(lambda: role_of(cluster[3]) == FAILED)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            assert cluster.controllers.image_of(1).leader_epoch == 0
            brain.stop()

    run_long(scenario())


def test_a_member_that_is_elected_as_its_disk_fails_says_so_of_the_mastership_it_was_given(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            store = cluster[2].member().log._store
            store.active.file = BrokenFile(store.active.file)
            cluster[1].append()
            await cluster.until(lambda: role_of(cluster[2]) == FAILED)
            cluster.controllers.elect(1, 2, 1, 2)
            epoch = cluster.controllers.image_of(1).leader_epoch
            # Another is elected by the word of the present mastership only.
            await cluster.until(
                lambda: cluster[2].manager.drivers[ReplicaSetId(1)].newest_epoch == epoch
            )
            (report,) = cluster[2].manager.reports()
            assert (report.role, report.leader_epoch) == (FAILED, epoch)

    run_long(scenario())
