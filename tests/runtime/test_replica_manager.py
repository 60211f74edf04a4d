"""Replica managers: restarts, installs, transfers, probes, membership, leases."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.ha_cluster import CONFIG, PARTITION, HaCluster, ha_cluster
from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.errors import ConfigError
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.commands.command import (
    AddReplica,
    RemoveReplica,
    SetAckPolicy,
    SetUncleanElection,
)
from penstock.controller.metadata.records import MastershipBegun, SyncStateSetChanged
from penstock.replica.followed_set import State
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.config import ReplicationConfig
from penstock.storage.config import Retention
from tests.net.serving import run

TWO_OF_THREE = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
ASYNC = AckPolicy(kind=PolicyKind.ASYNC)


def fill(cluster: HaCluster, broker: int, batches: int = 20, *, set_id: int = 1) -> None:
    for number in range(batches):
        cluster[broker].append(3, fill=number + 7 * broker, set_id=set_id)


async def roll(cluster: HaCluster, broker: int, segments: int) -> None:
    """Append so much that the log has that many segments more."""
    member = cluster[broker].member()
    end = member.log.end_position + segments * 65_536
    while member.log.end_position < end:
        cluster[broker].append(size=8_000)
        await cluster.confirmed(broker)


async def drop_old_segments(cluster: HaCluster, broker: int) -> None:
    """Let retention take every closed segment away."""
    own_log = cluster[broker].member().log
    partition = own_log.open_partition(PARTITION)
    own_log.delete_records(partition, partition.log_end_offset)
    await cluster.confirmed(broker)
    done: list[bool] = []
    own_log.checkpoint(done.append)
    await cluster.until(lambda: bool(done))
    before = own_log.start_position
    own_log.apply_retention(1 << 50, lambda _: Retention(bytes=-1, ms=-1))
    await cluster.until(lambda: own_log.start_position > before, "segments are deleted")


# --- restarts ------------------------------------------------------------------------------------


def test_a_restarted_master_leads_again_only_when_it_is_elected_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[1].crash()
            await cluster[1].start()
            await cluster.until(lambda: 1 in cluster[1].manager.members)
            cluster.controllers.elect(1, 1, 1, 2)
            await cluster.leads(1)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)

    run(scenario())


def test_a_log_of_a_newer_epoch_is_not_cut_for_a_master_that_old_metadata_names(
    tmp_path: Path,
) -> None:
    # After a loss of power the metadata log may not know yet that its last entries were agreed on.
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            known = len(cluster.controllers.entries)
            cluster[1].cut_off()
            cluster.controllers.elect(1, 2, 2)
            await cluster.leads(2)
            fill(cluster, 2)
            await cluster.confirmed(2)
            confirmed = cluster[2].frames()
            for broker in cluster.brokers.values():
                await broker.crash()
            cluster[2].forget_entries(known)
            for broker in cluster.brokers.values():
                await broker.start(is_registering=False)
            await cluster.until(lambda: "metadata is older" in cluster[2].trouble())
            assert cluster[1].member().role is Role.IDLE
            for broker in cluster.brokers.values():
                broker.cut_off(is_cut=False)
            await cluster.leads(2)
            assert cluster[2].frames()[: len(confirmed)] == confirmed
            await cluster.equal(1, 2)

    run(scenario())


def test_a_restarted_slave_follows_by_what_it_knew_when_no_controller_answers(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            cluster[1].cut_off()
            cluster[2].cut_off()
            await cluster[2].crash()
            fill(cluster, 1)
            await cluster[2].start(is_registering=False)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)

    run(scenario())


def test_a_broker_that_lost_its_log_does_not_lead_with_an_empty_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[1].crash()
            (cluster[1].directory / "set-1.log-id").unlink()
            for path in (cluster[1].directory / "set-1").rglob("*"):
                if path.is_file():
                    path.unlink()
            cluster[1].cut_off()
            await cluster[1].start(is_registering=False)
            await cluster.until(lambda: 1 in cluster[1].manager.members)
            assert cluster[1].member().role is Role.IDLE
            assert not cluster[1].manager.server.sets
            cluster[1].cut_off(False)
            cluster[1].register(cluster[1].manager.incarnation)
            cluster.controllers.elect(1, 2, 2)
            await cluster.leads(2)
            fill(cluster, 2)
            await cluster.equal(1, 2)

    run(scenario())


# --- installs ------------------------------------------------------------------------------------


def test_a_new_member_installs_what_the_master_still_keeps(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1)
            await roll(cluster, 1, 3)
            await drop_old_segments(cluster, 1)
            fill(cluster, 1)
            cluster.controllers.submit(
                AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2))
            )
            await cluster.in_step(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            assert cluster[2].member().log.start_position > 0
            assert cluster[2].manager.follow_stats.installs > 0
            await cluster.equal(1, 2)

    run(scenario())


def test_a_member_that_was_away_too_long_installs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[2].crash()
            await cluster.in_step(1)
            await roll(cluster, 1, 3)
            await drop_old_segments(cluster, 1)
            await cluster[2].start()
            await cluster.in_step(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster.equal(1, 2)

    run(scenario())


def test_an_install_goes_on_after_its_link_was_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1)
            await roll(cluster, 1, 6)
            await drop_old_segments(cluster, 1)
            await roll(cluster, 1, 3)
            cluster.controllers.submit(
                AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2))
            )
            followed = cluster[2].manager.drivers
            for _ in range(3):
                await cluster.until(
                    lambda: (
                        1 in followed
                        and (one := followed[ReplicaSetId(1)].followed) is not None
                        and one.state in {State.INSTALLING, State.STREAMING}
                    )
                )
                cluster[1].manager.server.links[0].live.link.abort("cable")
            await cluster.in_step(1, 2)
            await cluster.equal(1, 2)

    run(scenario())


# --- divergence that an operator has to see ------------------------------------------------------


def test_a_slave_whose_confirmed_records_would_be_cut_stops_and_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await cluster.make_set(1, 2, 3)
            fill(cluster, 1)
            await cluster.confirmed(1)
            await cluster[3].crash()
            await cluster.in_step(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            master, slave = cluster[1].member(), cluster[2].member()
            await cluster.until(lambda: slave.confirm_position == master.confirm_position)
            await cluster[1].crash()
            await cluster[3].start()
            before = slave.log.end_position
            known = cluster.controllers.image_of(1)
            cluster.controllers.record(  # as no controller does it: nobody has allowed a loss
                SyncStateSetChanged(
                    replica_set_id=ReplicaSetId(1),
                    sync_state_set=as_brokers(3),
                    sync_state_set_epoch=SyncStateSetEpoch(known.sync_state_set_epoch + 1),
                ),
                MastershipBegun(
                    replica_set_id=ReplicaSetId(1),
                    master=BrokerId(3),
                    leader_epoch=LeaderEpoch(known.leader_epoch + 1),
                ),
            )
            await cluster.leads(3)
            followed = cluster[2].manager.drivers
            await cluster.until(
                lambda: (
                    (one := followed[ReplicaSetId(1)].followed) is not None
                    and one.state is State.STOPPED
                )
            )
            assert slave.log.end_position == before
            cluster.controllers.submit(
                SetUncleanElection(replica_set_id=ReplicaSetId(1), is_allowed=True)
            )
            cluster.controllers.elect(1, 3, 3)
            await cluster.in_step(2, 3)
            await cluster.equal(2, 3)

    run(scenario())


def test_reports_say_what_the_master_knows_of_its_slaves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            (report,) = cluster[1].manager.reports()
            assert (report.role, report.leader_epoch) == ("master", 0)
            assert report.confirm_position == report.log_end_position
            (slave,) = report.slaves
            assert (slave.broker_id, slave.lag_bytes, slave.is_connected) == (2, 0, True)

    run(scenario())


# --- membership and policies ---------------------------------------------------------------------


def test_a_member_that_is_removed_closes_its_log_and_one_that_is_added_opens_one(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            opened: list[ReplicaSetMember] = []
            closed: list[ReplicaSetMember] = []
            cluster[2].manager.on_member_opened.append(opened.append)
            cluster[2].manager.on_member_closed.append(closed.append)
            await cluster.make_set(1, 2)
            fill(cluster, 1)
            await cluster.confirmed(1)
            cluster.controllers.submit(
                RemoveReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2))
            )
            await cluster.until(lambda: not cluster[2].manager.members)
            assert opened == closed
            await cluster.confirmed(1)
            cluster.controllers.submit(
                AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(3))
            )
            await cluster.in_step(1, 3)
            await cluster.equal(1, 3)
            cluster.controllers.submit(
                AddReplica(replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2))
            )
            await cluster.in_step(1, 2, 3)
            await cluster.equal(1, 2, 3)

    run(scenario())


def test_a_policy_can_be_changed_while_writes_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2, 3)
            await cluster.confirmed(1)
            await cluster[3].crash()
            fill(cluster, 1)
            await cluster.equal(1, 2)
            assert cluster[1].member().confirm_position < cluster[1].member().log.end_position
            cluster.controllers.submit(
                SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=TWO_OF_THREE)
            )
            await cluster.confirmed(1)

    run(scenario())


def test_a_cut_off_master_under_a_weak_policy_confirms_nothing_once_its_lease_is_over(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, lease_ms=100, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2, policy=ASYNC)
            manager = cluster[1].manager
            await cluster[2].crash()
            master_set = manager.server.sets[ReplicaSetId(1)]

            def is_held_once_answered() -> bool:
                manager.note_controller(manager.ports.clock.monotonic_ms(), is_caught_up=True)
                return master_set.may_confirm()

            await cluster.until(is_held_once_answered)
            await cluster.until(lambda: not master_set.may_confirm())
            held = cluster[1].member().confirm_position
            fill(cluster, 1)
            log = cluster[1].member().log
            await cluster.until(lambda: log.durable_position == log.end_position)
            assert cluster[1].member().confirm_position == held
            assert manager.lease_losses == 1
            await cluster.until(is_held_once_answered)
            await cluster.confirmed(1)

    run(scenario())


def test_one_log_that_fails_gives_up_its_mastership_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2, set_id=1)
            await cluster.make_set(1, 2, set_id=2)
            lost: list[ReplicaSetMember] = []
            fenced: list[ReplicaSetMember] = []
            cluster[1].manager.on_lost_mastership.append(lost.append)
            cluster[1].manager.on_member_fenced.append(lambda one, _: fenced.append(one))
            member = cluster[1].member(1)
            member.log.writer.fence("the disk has failed")
            assert lost == fenced == [member]
            assert member.role is Role.IDLE
            cluster[1].append(set_id=2)
            cluster.controllers.elect(1, 2, 2)
            await cluster.leads(2)

    run(scenario())


def test_settings_of_replication_that_contradict_each_other_are_refused() -> None:
    config = ReplicationConfig()
    with pytest.raises(ConfigError, match="keep_alive_ms"):
        replace(config, keep_alive_ms=5_000)
    with pytest.raises(ConfigError, match="run_bytes"):
        replace(config, in_flight_bytes=65_536, run_bytes=1 << 20)


def test_a_slave_that_takes_nothing_delays_neither_the_other_one_nor_memory(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, link_silence_ms=60_000) as cluster:
            await cluster.make_set(1, 2, 3, policy=TWO_OF_THREE)
            await cluster.equal(1, 2, 3)
            link = cluster[3].manager.client.links[BrokerId(1)].live
            assert link is not None
            link.link.pause_reading()
            await roll(cluster, 1, 6)
            await cluster.equal(1, 2)
            session = cluster[1].manager.server.sets[ReplicaSetId(1)].sessions[BrokerId(3)]
            in_flight = session.next_position - session.acknowledged
            assert in_flight <= CONFIG.in_flight_bytes + CONFIG.run_bytes + 65_536
            link.link.resume_reading()
            await cluster.equal(1, 2, 3)

    run(scenario())
