"""Members that were asked before an election acknowledge and confirm nothing until told so."""

from dataclasses import replace
from pathlib import Path

from harness.ha_cluster import HaCluster, ha_cluster
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, ControllerEpoch, LeaderEpoch, ReplicaSetId, RequestId
from penstock.controller.session import ProbedSet, ProbeSets, ReleasePromises
from tests.net.serving import run

TWO_OF_THREE = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
ASYNC = AckPolicy(kind=PolicyKind.ASYNC)


def fill(cluster: HaCluster, broker: int) -> None:
    for number in range(20):
        cluster[broker].append(3, fill=number + 7 * broker)


def released(probe: ProbeSets) -> ReleasePromises:
    return ReleasePromises(
        controller_epoch=probe.controller_epoch, request_id=probe.request_id, sets=probe.sets
    )


def test_a_probed_slave_acknowledges_nothing_more_until_a_newer_mastership(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2, 3, policy=TWO_OF_THREE)
            await cluster.confirmed(1)
            probe = ProbeSets(
                request_id=RequestId(1),
                controller_epoch=ControllerEpoch(1),
                sets=(ProbedSet(replica_set_id=ReplicaSetId(1), leader_epoch=LeaderEpoch(0)),),
            )
            (two,), (three,) = (cluster[one].manager.probe(probe) for one in (2, 3))
            assert two.log_end_position == cluster[2].member().log.durable_position
            assert (two.last_log_epoch, three.role) == (0, "slave")
            held = cluster[1].member().confirm_position
            fill(cluster, 1)
            end = cluster[1].member().log.end_position
            await cluster.until(
                lambda: all(cluster[n].member().log.durable_position == end for n in (2, 3))
            )
            assert cluster[1].member().confirm_position == held
            cluster.controllers.elect(1, 2, 1, 2, 3)
            await cluster.leads(2)
            await cluster.confirmed(2)
            await cluster.equal(1, 2, 3)

    run(scenario())


def test_a_probed_slave_keeps_its_promise_when_it_shakes_hands_anew(tmp_path: Path) -> None:
    """Beginning to follow says how much is held: as good as an acknowledgement."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2, 3, policy=TWO_OF_THREE)
            await cluster.confirmed(1)
            sets = (ProbedSet(replica_set_id=ReplicaSetId(1), leader_epoch=LeaderEpoch(0)),)
            probe = ProbeSets(
                request_id=RequestId(1), controller_epoch=ControllerEpoch(1), sets=sets
            )
            for one in (2, 3):
                cluster[one].manager.probe(probe)
            held = cluster[1].member().confirm_position
            fill(cluster, 1)
            end = cluster[1].member().log.end_position
            await cluster.until(
                lambda: all(cluster[n].member().log.durable_position == end for n in (2, 3))
            )
            for one in (2, 3):
                old = cluster[one].manager.client.links[BrokerId(1)].live
                assert old is not None
                old.link.abort("cut")
                await cluster.until(
                    lambda one=one, old=old: (  # type: ignore[misc]
                        cluster[one].manager.client.links[BrokerId(1)].live not in {None, old}
                    )
                )
            followed = [cluster[n].manager.drivers[ReplicaSetId(1)].followed for n in (2, 3)]
            await cluster.until(
                lambda: all(one is not None and one._begin_at == end for one in followed)
            )
            assert cluster[1].member().confirm_position == held
            for one in (2, 3):
                cluster[one].manager.release(released(probe))
            await cluster.confirmed(1)

    run(scenario())


def test_a_probed_master_confirms_nothing_alone_until_it_is_released(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2, policy=ASYNC)
            await cluster.confirmed(1)
            probe = ProbeSets(
                request_id=RequestId(1),
                controller_epoch=ControllerEpoch(1),
                sets=(ProbedSet(replica_set_id=ReplicaSetId(1), leader_epoch=LeaderEpoch(0)),),
            )
            twice = replace(probe, sets=2 * probe.sets)
            (own,) = cluster[1].manager.probe(twice)
            assert own.slaves == (), "it is elected by what it holds, and the answer has a bound"
            held = cluster[1].member().confirm_position
            fill(cluster, 1)
            await cluster.equal(1, 2)
            assert cluster[1].member().confirm_position == held
            cluster[1].manager.release(released(probe))
            await cluster.confirmed(1)

    run(scenario())


def test_a_slave_that_started_again_acknowledges_nothing_before_it_is_registered(
    tmp_path: Path,
) -> None:
    """What the process before it had promised is not known any more, and may still be relied on."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2, 3, policy=TWO_OF_THREE)
            await cluster.confirmed(1)
            await cluster[3].crash()
            await cluster[2].crash()
            await cluster[2].start(is_registering=False)
            held = cluster[1].member().confirm_position
            fill(cluster, 1)
            await cluster.until(lambda: 1 in cluster[2].manager.members)
            followed = cluster[2].manager.drivers[ReplicaSetId(1)]
            await cluster.until(
                lambda: followed.followed is not None and followed.followed._begin_at is not None
            )
            assert cluster[1].member().confirm_position == held
            cluster[2].register(cluster[2].manager.incarnation)
            await cluster.confirmed(1)

    run(scenario())


def test_where_all_hold_every_write_a_slave_that_started_again_needs_no_controller(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2)
            await cluster.confirmed(1)
            await cluster[2].crash()
            await cluster[2].start(is_registering=False)
            fill(cluster, 1)
            await cluster.confirmed(1)

    run(scenario())


def test_a_member_that_is_asked_for_no_promise_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await cluster.confirmed(1)
            asked = ProbedSet(
                replica_set_id=ReplicaSetId(1), leader_epoch=LeaderEpoch(0), is_promise_wanted=False
            )
            probe = ProbeSets(
                request_id=RequestId(1), controller_epoch=ControllerEpoch(1), sets=(asked,)
            )
            for broker in (1, 2):
                assert cluster[broker].manager.probe(probe)
            fill(cluster, 1)
            await cluster.confirmed(1)

    run(scenario())


def test_a_log_that_is_being_opened_anew_is_not_told_of_and_promises_nothing(
    tmp_path: Path,
) -> None:
    """Where it ends is open until then; the controllers ask again."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2)
            await cluster.confirmed(1)
            fill(cluster, 1)
            await cluster.equal(1, 2)
            sets = (ProbedSet(replica_set_id=ReplicaSetId(1), leader_epoch=LeaderEpoch(0)),)
            probe = ProbeSets(
                request_id=RequestId(1), controller_epoch=ControllerEpoch(1), sets=sets
            )
            driver, log = cluster[2].manager.drivers[ReplicaSetId(1)], cluster[2].member().log
            opened: list[PlatformError | None] = []
            log.truncate(log.start_position, opened.append)
            assert cluster[2].manager.probe(probe) == ()
            assert not driver.promise.holds(LeaderEpoch(0))
            await cluster.until(lambda: bool(opened))
            assert len(cluster[2].manager.probe(probe)) == 1

    run(scenario())
