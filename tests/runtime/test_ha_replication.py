"""Replica sets of one to three members over loopback, with logs on a real disk."""

from pathlib import Path

import pytest

from harness.ha_cluster import HaCluster, ha_cluster
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.replica.replica_set import Role
from penstock.replication.errors import NotMaster
from tests.net.serving import LOOPS, run

TWO_OF_THREE = AckPolicy(kind=PolicyKind.K_OF_N, required=2)


def fill(cluster: HaCluster, broker: int, batches: int = 20, *, set_id: int = 1) -> None:
    for number in range(batches):
        cluster[broker].append(3, fill=number + 7 * broker, set_id=set_id)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slave_gets_what_its_master_appends_and_confirms_it(tmp_path: Path, loop: str) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            slave, master = cluster[2].member(), cluster[1].member()
            await cluster.until(lambda: slave.confirm_position == master.confirm_position)
            await cluster.in_step(1, 2)
            with pytest.raises(NotMaster):
                slave.check_writable()

    run(scenario(), loop)


def test_a_set_of_one_confirms_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1) as cluster:
            await cluster.make_set(1)
            fill(cluster, 1)
            await cluster.confirmed(1)

    run(scenario())


def test_logs_of_many_segments_and_large_batches_become_equal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await cluster.make_set(1, 2, 3)
            for number in range(60):
                await cluster[1].append_when_ready(size=100 + 397 * number, fill=number)
                if number % 3 == 0:
                    await cluster.confirmed(1)
            await cluster.equal(1, 2, 3)
            assert len(cluster[1].member().log._store.segments) > 5

    run(scenario())


def test_a_master_is_replaced_and_the_old_one_follows_with_an_equal_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await cluster.make_set(1, 2, 3)
            fill(cluster, 1)
            await cluster.confirmed(1)
            cluster.controllers.elect(1, 2, 1, 2, 3)
            await cluster.leads(2)
            assert cluster[1].member().role is not Role.MASTER
            fill(cluster, 2)
            await cluster.confirmed(2)
            await cluster.equal(1, 2, 3)

    run(scenario())


def test_one_process_leads_one_set_and_follows_another_over_the_same_pair(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2, set_id=1)
            await cluster.make_set(2, 1, set_id=2)
            await cluster.make_set(1, 2, set_id=3)
            for set_id, master in ((1, 1), (2, 2), (3, 1)):
                fill(cluster, master, set_id=set_id)
                await cluster.confirmed(master, set_id)
                await cluster.equal(1, 2, set_id=set_id)
            assert len(cluster[2].manager.client.links) == 1, "one link for both sets"

    run(scenario())


def test_a_dead_slave_leaves_the_set_and_joins_again_when_it_is_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[2].crash()
            fill(cluster, 1)
            assert cluster[1].member().confirm_position < cluster[1].member().log.end_position
            await cluster.in_step(1)
            await cluster.confirmed(1)
            await cluster[2].start()
            await cluster.in_step(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)

    run(scenario())


def test_links_that_break_in_the_middle_of_runs_lose_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, disconnect_grace_ms=5_000) as cluster:
            await cluster.make_set(1, 2)
            for number in range(12):
                fill(cluster, 1, 15)
                await cluster.until(lambda: bool(cluster[1].manager.server.links))
                if number % 2:
                    cluster[1].manager.server.links[0].live.link.abort("cable")
                    continue
                dialled = cluster[2].manager.client.links[BrokerId(1)].live
                if dialled is not None:
                    dialled.link.abort("cable")
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            await cluster.in_step(1, 2)

    run(scenario())


def test_the_tail_of_a_stale_master_is_cut_when_it_follows(tmp_path: Path) -> None:
    # KIP-101: both have bytes at the same positions, and they differ.
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await cluster.make_set(1, 2, 3)
            fill(cluster, 1)
            await cluster.confirmed(1)
            confirmed = cluster[1].member().confirm_position
            cluster[1].cut_off()
            cluster.controllers.elect(1, 2, 2, 3)
            await cluster.leads(2)
            for number in range(30):
                cluster[1].append(2, fill=200 + number)
            fill(cluster, 2, 9)
            await cluster.confirmed(2)
            assert cluster[1].member().is_master, "it has not heard"
            assert cluster[1].member().confirm_position == confirmed, "fenced: nothing confirmed"
            cluster[1].cut_off(False)
            await cluster.equal(1, 2, 3)
            assert cluster[1].manager.follow_stats.truncated_bytes > 0
            await cluster.in_step(1, 2, 3)

    run(scenario())


def test_two_fast_failovers_with_tails_on_either_side_end_in_equal_logs(tmp_path: Path) -> None:
    # KIP-279: A, B, A again; B asks for an epoch that A never saw.
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            cluster[1].cut_off()
            cluster.controllers.elect(1, 2, 1, 2)
            await cluster.leads(2)
            fill(cluster, 2, 11)
            fill(cluster, 1, 5)
            cluster[2].cut_off()
            cluster[1].cut_off(False)
            cluster.controllers.elect(1, 1, 1, 2)
            await cluster.until(lambda: cluster[1].member().leader_epoch == 2)
            await cluster.leads(1)
            fill(cluster, 1, 3)
            cluster[2].cut_off(False)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            epochs = [epoch for epoch, _ in cluster[2].member().log.epochs]
            assert epochs == [0, 2]

    run(scenario())


def test_masterships_without_writes_are_followed_through(tmp_path: Path) -> None:
    # KAFKA-10706, KAFKA-7415: every epoch is in every log, also the empty ones.
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await cluster.make_set(1, 2, 3)
            await cluster.confirmed(1)
            for master in (2, 3, 2, 1):
                cluster.controllers.elect(1, master, 1, 2, 3)
                await cluster.leads(master)
                await cluster.confirmed(master)
            await cluster.equal(1, 2, 3)
            assert [epoch for epoch, _ in cluster[3].member().log.epochs] == [0, 1, 2, 3, 4]

    run(scenario())


def test_a_new_epoch_of_the_same_master_is_shaken_hands_for_again(tmp_path: Path) -> None:
    # KAFKA-7164
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            before = cluster[2].manager.drivers[ReplicaSetId(1)].followed
            cluster.controllers.elect(1, 1, 1, 2)
            await cluster.until(lambda: cluster[1].member().leader_epoch == 1)
            await cluster.leads(1)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            assert cluster[2].manager.drivers[ReplicaSetId(1)].followed is not before

    run(scenario())


def test_two_of_three_confirm_without_the_slow_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await cluster.make_set(1, 2, 3, policy=TWO_OF_THREE)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[3].crash()
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)
            await cluster[3].start()
            await cluster.equal(1, 2, 3)

    run(scenario())


def test_a_member_without_a_connection_holds_what_is_confirmed(tmp_path: Path) -> None:
    # RocketMQ #6662
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2, 3)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[3].crash()
            held = cluster[1].member().confirm_position
            fill(cluster, 1)
            await cluster.until(
                lambda: (
                    cluster[2].member().log.durable_position == cluster[1].member().log.end_position
                )
            )
            assert cluster[1].member().confirm_position == held

    run(scenario())
