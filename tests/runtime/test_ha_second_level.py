"""Members whose second levels are not equally far: who has everything joins, others wait."""

from pathlib import Path

from harness.ha_cluster import PARTITION, HaCluster, ha_cluster
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import AddReplica
from penstock.replication.config import FirstSync
from penstock.runtime.io.disk import FileDisk
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import Retention
from penstock.storage.second_level.split import split_segments
from tests.net.serving import run
from tests.storage.second_level import IDENTITY, closed_segments

BATCHES = 60


async def write(cluster: HaCluster, broker_id: int) -> None:
    for number in range(BATCHES):
        await cluster[broker_id].append_when_ready(size=3_000, fill=number)
    await cluster.confirmed(broker_id)


async def move(cluster: HaCluster, broker_id: int) -> SetLog:
    """Do a housekeeper's work for a member: its commit log begins behind what was moved."""
    log = cluster[broker_id].member().log
    await cluster.until(lambda: len(closed_segments(log)) > 1)
    unfinished = f"{log.directory}/second/made.tmp"
    disk = FileDisk(cluster[broker_id].directory)
    held = log.parts.second_level.held(PARTITION)
    start = 0 if held is None else held.end_offset
    split_segments(
        disk,
        log.directory,
        closed_segments(log),
        lambda key: start if key == PARTITION else None,
        unfinished=unfinished,
        identity=IDENTITY,
    )
    taken: list[object] = []
    log.splitting.take_over(unfinished, taken.append)
    await cluster.until(lambda: bool(taken))
    assert taken == [None]
    before = log.start_position
    log.apply_retention(0, lambda _: Retention(-1, -1))
    await cluster.until(lambda: log.start_position > before, "what was moved is released")
    return log


async def come_back(cluster: HaCluster, broker_id: int) -> None:
    """Let a member leave the sync-state set, and follow again."""
    await cluster[broker_id].crash()
    await cluster.in_step(1)
    await cluster[broker_id].start()
    await cluster.until(lambda: 1 in cluster[broker_id].manager.members)


def test_a_slave_that_has_moved_more_than_a_quiet_master_joins_and_has_everything(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await write(cluster, 1)
            moved = (await move(cluster, 2)).start_position
            assert cluster[1].member().log.start_position == 0 < moved
            await come_back(cluster, 2)
            await cluster.in_step(1, 2)
            assert cluster[2].manager.follow_stats.installs == 0
            slave = cluster[2].member().log
            assert (slave.start_position, slave.reach.whole_from) == (moved, 0)
            assert slave.open_partition(PARTITION).log_start_offset == 0

    run(scenario())


def test_a_slave_that_has_begun_with_the_newest_segment_lacks_what_its_master_moves_later(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, first_sync=FirstSync.NEWEST) as cluster:
            await cluster.make_set(1)
            await write(cluster, 1)
            master = cluster[1].member().log
            await cluster.until(lambda: master.snapshot_position > 65_536)
            add = AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2))
            cluster.controllers.submit(add)
            await cluster.until(lambda: 1 in cluster[2].manager.members)
            slave = cluster[2].member().log
            await cluster.until(lambda: slave.end_position == master.end_position)
            begun = slave.start_position
            assert slave.reach.whole_from == begun > 65_536
            await move(cluster, 1)
            assert master.start_position >= begun
            assert master.reach.kept_from == 0
            await write(cluster, 1)
            await move(cluster, 2)  # files of its own prove nothing
            await cluster[2].crash()
            await cluster[2].start()
            await cluster.until(lambda: 1 in cluster[2].manager.members)
            slave = cluster[2].member().log
            await cluster.until(lambda: slave.end_position == master.end_position)
            await write(cluster, 1)
            await cluster.until(lambda: slave.durable_position == master.end_position)
            assert slave.reach.whole_from == begun
            assert cluster.controllers.image_of(1).sync_state_set == (1,)

    run(scenario())
