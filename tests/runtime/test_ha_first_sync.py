"""`replication.first_sync = newest-segment`: a new slave begins with the newest segment only."""

from pathlib import Path

from harness.ha_cluster import HaCluster, ha_cluster
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import AddReplica
from penstock.replication.config import FirstSync
from tests.net.serving import run
from tests.runtime.test_replica_manager import drop_old_segments

NEWEST = {"first_sync": FirstSync.NEWEST}


def installs(cluster: HaCluster, broker_id: int) -> int:
    return cluster[broker_id].manager.follow_stats.installs


def test_the_slaves_of_a_set_that_nobody_has_written_to_get_in_step(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, **NEWEST) as cluster:
            await cluster.make_set(1, 2, 3)
            await cluster.confirmed(1)
            await cluster.in_step(1, 2, 3)
            copied = [installs(cluster, broker_id) for broker_id in (2, 3)]
            await cluster.pause(0.2)
            assert [installs(cluster, broker_id) for broker_id in (2, 3)] == copied
            assert max(copied) <= 1
            cluster[1].append()
            await cluster.confirmed(1)
            await cluster.equal(1, 2, 3)

    run(scenario())


def test_a_new_slave_copies_the_newest_segment_and_is_in_step_when_the_master_keeps_no_more(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, **NEWEST) as cluster:
            await cluster.make_set(1)
            for number in range(60):
                await cluster[1].append_when_ready(size=3000, fill=number)
            await cluster.confirmed(1)
            master = cluster[1].member().log
            await cluster.until(lambda: master.snapshot_position > 65_536)
            cluster.controllers.submit(
                AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2))
            )
            await cluster.until(lambda: 1 in cluster[2].manager.members)
            slave = cluster[2].member().log
            await cluster.until(lambda: slave.end_position == master.end_position)
            assert slave.start_position > 65_536
            assert cluster.controllers.image_of(1).sync_state_set == (1,)
            await drop_old_segments(cluster, 1)
            await cluster.in_step(1, 2)
            assert installs(cluster, 2) == 1

    run(scenario())
