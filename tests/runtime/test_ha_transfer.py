"""Planned transfers over real links: the target holds everything before the mastership moves."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.ha_cluster import HaCluster, ha_cluster
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ControllerEpoch, LeaderEpoch, ReplicaSetId, RequestId
from penstock.base.ports import Cancellable
from penstock.controller.session import (
    NOT_PROMISED,
    PrepareTransfer,
    ProbedSet,
    ReleasePromises,
)
from penstock.replication.errors import NotMaster
from penstock.replication.promise import Asker
from penstock.runtime.ha.transfer import prepare_transfer
from tests.net.serving import run

TWO_OF_THREE = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
ASKER = Asker(ControllerEpoch(1), RequestId(1))


def fill(cluster: HaCluster, broker: int, batches: int = 20) -> None:
    for number in range(batches):
        cluster[broker].append(3, fill=number + 7 * broker)


def transfer(epoch: int, target: int, timeout_ms: int = 3_000) -> PrepareTransfer:
    return PrepareTransfer(
        request_id=RequestId(1),
        replica_set_id=ReplicaSetId(1),
        leader_epoch=LeaderEpoch(epoch),
        target=BrokerId(target),
        timeout_ms=timeout_ms,
    )


def test_a_transfer_stops_writes_until_the_target_holds_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            fill(cluster, 1, 100)
            ready = await cluster[1].manager.prepare_transfer(transfer(0, 2))
            assert ready.is_ready, ready.reason
            end = cluster[1].member().log.end_position
            assert ready.log_end_position == end
            assert cluster[2].member().log.durable_position == end
            with pytest.raises(NotMaster):
                cluster[1].append()
            cluster.controllers.elect(1, 2, 1, 2)
            await cluster.leads(2)
            fill(cluster, 2)
            await cluster.equal(1, 2)

    run(scenario())


def test_a_transfer_that_comes_to_nothing_lets_the_master_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2)
            await cluster.confirmed(1)
            stale = await cluster[1].manager.prepare_transfer(transfer(7, 2))
            assert not stale.is_ready
            cluster[2].manager.drivers[ReplicaSetId(1)].promise.make(
                LeaderEpoch(0), ASKER
            )  # it acknowledges nothing
            fill(cluster, 1)
            late = await cluster[1].manager.prepare_transfer(transfer(0, 2, timeout_ms=50))
            assert not late.is_ready
            cluster[1].append()

    run(scenario())


def test_a_ready_master_that_hears_of_no_other_goes_on_after_the_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await cluster.confirmed(1)
            ready = await cluster[1].manager.prepare_transfer(transfer(0, 2, timeout_ms=1_000))
            assert ready.is_ready
            assert not cluster[1].member().is_master
            await cluster.leads(1)

    run(scenario())


def test_a_ready_master_answers_no_reads_once_the_others_are_silent_until_it_is_told(
    tmp_path: Path,
) -> None:
    """The controllers still answer it; the next master may lead already."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            member, manager = cluster[1].member(), cluster[1].manager
            request = replace(transfer(0, 2, timeout_ms=100), controller_epoch=ControllerEpoch(1))
            ready = await manager.prepare_transfer(request)
            assert ready.is_ready, ready.reason
            member.check_readable()  # the target still follows
            master_set = manager.drivers[ReplicaSetId(1)].master_set
            assert master_set is not None
            await cluster[2].stop()
            may_read = member.may_read
            assert may_read is not None
            await cluster.until(lambda: not may_read(), "reads are refused")
            master_set.lease.note_controller(master_set._clock.monotonic_ms())
            with pytest.raises(NotMaster):
                member.check_readable()
            manager.release(off())
            member.check_readable()

    run(scenario())


def test_the_time_of_an_earlier_transfer_does_not_end_the_pause_of_a_later_one(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            manager = cluster[1].manager
            times: list[Callable[[], None]] = []
            call_later = manager.ports.scheduler.call_later

            class Held:
                """A scheduler that keeps what is to come after a transfer's time."""

                def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
                    times.append(callback)
                    return call_later(1 << 30, callback)

            master_set = manager.server.sets[ReplicaSetId(1)]
            for _ in range(2):  # the first one's controller died
                ready = await prepare_transfer(master_set, transfer(0, 2), Held())  # type: ignore[arg-type]
                assert ready.is_ready, ready.reason
            times[0]()
            assert not cluster[1].member().is_master
            times[1]()
            assert cluster[1].member().is_master

    run(scenario())


def test_a_second_request_while_the_first_still_waits_is_answered_as_soon_as_it_can_be(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, disconnect_grace_ms=60_000) as cluster:
            await cluster.make_set(1, 2)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            slave = cluster[2].manager.drivers[ReplicaSetId(1)]
            slave.promise.make(LeaderEpoch(0), ASKER)  # it acknowledges later
            fill(cluster, 1)
            manager = cluster[1].manager
            first = asyncio.create_task(manager.prepare_transfer(transfer(0, 2, timeout_ms=100)))
            await cluster.until(lambda: not cluster[1].member().is_master)
            second = asyncio.create_task(manager.prepare_transfer(transfer(0, 2, 10_000)))
            assert not (await first).is_ready
            assert not cluster[1].member().is_master, "the second one still waits"
            slave.release(LeaderEpoch(0), ASKER)
            assert (await second).is_ready

    run(scenario())


def off(request_id: int = 1) -> ReleasePromises:
    sets = (ProbedSet(replica_set_id=ReplicaSetId(1), leader_epoch=LeaderEpoch(0)),)
    return ReleasePromises(
        controller_epoch=ControllerEpoch(1), request_id=RequestId(request_id), sets=sets
    )


def test_what_a_master_writes_after_its_pause_is_confirmed_once_the_transfer_is_off(
    tmp_path: Path,
) -> None:
    """The transfer may still be recorded: its target would lack what is confirmed meanwhile."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2, 3) as cluster:
            await cluster.make_set(1, 2, 3, policy=TWO_OF_THREE)
            await cluster.in_step(1, 2, 3)
            await cluster.confirmed(1)
            request = replace(
                transfer(0, 2, timeout_ms=100),
                controller_epoch=ControllerEpoch(1),
                is_promise_wanted=True,
            )
            ready = await cluster[1].manager.prepare_transfer(request)
            assert ready.is_ready, ready.reason
            await cluster.leads(1)  # it takes writes again
            held = cluster[1].member().confirm_position
            fill(cluster, 1)
            await cluster.equal(1, 2, 3)
            assert cluster[1].member().confirm_position == held
            (report,) = cluster[1].manager.reports()
            assert report.promised_to == 1
            cluster[1].manager.release(off())
            await cluster.confirmed(1)
            (report,) = cluster[1].manager.reports()
            assert report.promised_to == NOT_PROMISED

    run(scenario())


def test_a_master_that_is_handing_over_reports_it_so_that_another_controller_can_end_it(
    tmp_path: Path,
) -> None:
    """Under `all` it promises nothing, but reads by its members' lease alone meanwhile."""

    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            manager = cluster[1].manager
            request = replace(transfer(0, 2, timeout_ms=100), controller_epoch=ControllerEpoch(1))
            ready = await manager.prepare_transfer(request)
            assert ready.is_ready, ready.reason
            (report,) = manager.reports()
            assert report.promised_to == 1
            manager.release(replace(off(), controller_epoch=ControllerEpoch(2)))
            (report,) = manager.reports()
            assert report.promised_to == NOT_PROMISED
            assert cluster[1].member().is_master

    run(scenario())


def test_a_master_that_is_told_so_goes_on_without_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            await cluster.in_step(1, 2)
            await cluster.confirmed(1)
            manager = cluster[1].manager
            second = replace(
                transfer(0, 2, timeout_ms=60_000),
                request_id=RequestId(2),
                controller_epoch=ControllerEpoch(1),
            )
            ready = await manager.prepare_transfer(second)
            assert ready.is_ready, ready.reason
            manager.release(off(request_id=1))
            assert not cluster[1].member().is_master, "an earlier request is off, not this one"
            manager.release(off(request_id=2))
            cluster[1].append()
            await cluster.confirmed(1)

    run(scenario())
