"""`replication.first_sync = newest-segment`: a new slave begins with the newest segment only."""

from pathlib import Path

from harness.ha_cluster import HaCluster, ha_cluster
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands.command import AddReplica, SetAckPolicy
from penstock.replication.config import FirstSync
from penstock.runtime.io.clock import SystemClock
from penstock.storage.commit_log.set_log import SetLog
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
            assert slave.start_position >= 65_536  # its second segment at least
            assert cluster.controllers.image_of(1).sync_state_set == (1,)
            await drop_old_segments(cluster, 1)
            await cluster.in_step(1, 2)
            assert installs(cluster, 2) == 1

    run(scenario())


QUORUM = AckPolicy(kind=PolicyKind.QUORUM)


async def _grown(cluster: HaCluster) -> SetLog:
    """Give a set of brokers 1 and 2 some segments, and broker 3 as another member."""
    for number in range(60):
        await cluster[1].append_when_ready(size=3000, fill=number)
    await cluster.confirmed(1)
    master = cluster[1].member().log
    await cluster.until(lambda: master.snapshot_position > 65_536)
    cluster.controllers.submit(AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(3)))
    await cluster.until(lambda: 1 in cluster[3].manager.members)
    slave = cluster[3].member().log
    await cluster.until(lambda: slave.end_position == master.end_position)
    return slave


def test_a_slave_that_counts_before_it_is_in_step_copies_everything(tmp_path: Path) -> None:
    """Elected for its end, it would have taken all older records from consumers."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, **NEWEST) as cluster:
            await cluster.make_set(1, 2, policy=QUORUM)
            for broker in cluster.brokers.values():
                broker.manager.note_controller(SystemClock().monotonic_ms(), is_caught_up=True)
            slave = await _grown(cluster)
            assert (slave.start_position, slave.reach.whole_from) == (0, 0)
            await cluster.in_step(1, 2, 3)

    run(scenario())


def test_a_part_is_copied_anew_and_counts_no_more_under_a_policy_that_would_count_it(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, **NEWEST) as cluster:
            await cluster.make_set(1, 2)
            slave = await _grown(cluster)
            assert slave.reach.whole_from >= 65_536
            assert cluster.controllers.image_of(1).sync_state_set == (1, 2)
            master = cluster[1].member()
            end = master.log.end_position
            await cluster.until(lambda: master.confirm.acknowledged(BrokerId(3)) == end)
            (report,) = cluster[3].manager.reports()
            assert report.whole_from == slave.reach.whole_from
            cluster.controllers.submit(SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=QUORUM))
            assert master.confirm.acknowledged(BrokerId(3)) == 0
            await cluster.in_step(1, 2, 3)
            slave = cluster[3].member().log
            assert (slave.start_position, slave.reach.whole_from) == (0, 0)
            await cluster.equal(1, 2, 3)

    run(scenario())


def test_a_part_is_refused_by_a_master_that_would_count_it_until_its_member_knows_that(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, **NEWEST) as cluster:
            await cluster.make_set(1, 2)
            slave = await _grown(cluster)
            cluster[3].cut_off()
            cluster.controllers.submit(SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=QUORUM))
            master = cluster[1].member()
            await cluster.pause(0.2)
            assert master.confirm.acknowledged(BrokerId(3)) == 0
            assert slave.reach.whole_from > 0
            cluster[3].cut_off(is_cut=False)
            await cluster.in_step(1, 2, 3)
            assert cluster[3].member().log.reach.whole_from == 0

    run(scenario())
