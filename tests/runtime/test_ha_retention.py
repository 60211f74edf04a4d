"""Retention appends to no log whose member does not lead: its bytes would be nobody's."""

from pathlib import Path

from harness.ha_cluster import HaCluster, ha_cluster
from harness.log_world import make_batch, partition_number
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import FenceBrokers
from penstock.record.batch import read_header
from penstock.storage.config import Retention
from tests.runtime.ha_running import run_long

LATE_MS = 1 << 50
LOG_START_FRAME_BYTES = 56
FRAME_AND_STAMPS_BYTES = 48


def put(cluster: HaCluster, broker: int, number: int, *, size: int) -> None:
    own_log = cluster[broker].member().log
    batch = make_batch(size=size, timestamp=1000)
    own_log.append(own_log.open_partition(partition_number(number)), batch, read_header(batch))


def elect_nobody(cluster: HaCluster) -> None:
    epoch = cluster.controllers.judge.image.brokers[BrokerId(1)].broker_epoch
    cluster.controllers.submit(FenceBrokers(brokers=((BrokerId(1), epoch),), masterships=()))


async def retained(cluster: HaCluster, broker: int) -> int:
    """Apply retention a few times to all that is old; return how far the log grew."""
    own_log = cluster[broker].member().log
    end = own_log.end_position
    for _ in range(3):
        own_log.apply_retention(LATE_MS, lambda _: Retention(-1, 5000))
        await cluster.pause(0.1)
    return own_log.end_position - end


def test_an_acknowledged_record_outlives_retention_on_a_member_without_a_role(
    tmp_path: Path,
) -> None:
    """The record is as long as what retention would append for three partitions at rest."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            for number in range(3):
                put(cluster, 1, number, size=300)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            await cluster[2].crash()
            await cluster.in_step(1)
            put(cluster, 1, 7, size=3 * LOG_START_FRAME_BYTES - FRAME_AND_STAMPS_BYTES)
            await cluster.confirmed(1)
            await cluster[1].crash()
            elect_nobody(cluster)
            await cluster[2].start()
            await cluster.until(lambda: ReplicaSetId(1) in cluster[2].manager.members)
            assert await retained(cluster, 2) == 0
            await cluster[1].start()
            cluster.controllers.elect(1, 1, 1)
            await cluster.leads(1)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            await cluster[1].crash()
            cluster.controllers.elect(1, 2, 2)
            await cluster.leads(2)
            found = cluster[2].member().log.open_partition(partition_number(7))
            assert found.log_end_offset == 1

    run_long(scenario())


def test_a_master_that_leads_no_more_appends_nothing_by_retention(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            put(cluster, 1, 0, size=300)
            await cluster.confirmed(1)
            cluster[1].member().resign()
            assert await retained(cluster, 1) == 0

    run_long(scenario())


def test_a_master_that_hands_over_appends_nothing_by_retention(tmp_path: Path) -> None:
    """Who leads next begins behind the end that was named, and may not have what comes later."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            put(cluster, 1, 0, size=300)
            await cluster.confirmed(1)
            member = cluster[1].member()
            pause = member.pause_writes()
            assert await retained(cluster, 1) == 0
            member.resume_writes(pause)
            assert await retained(cluster, 1) == LOG_START_FRAME_BYTES

    run_long(scenario())
