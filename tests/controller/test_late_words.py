"""Words that come late, or from somebody who is not asked, change nothing."""

from dataclasses import replace
from typing import Any

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, ReplicaSetId, RequestId, SessionId, SyncStateSetEpoch
from penstock.controller import session as s
from penstock.controller.commands import command as c
from penstock.controller.errors import InvalidMetadataRequest, StaleSyncStateSet
from penstock.controller.metadata.causes import Cause
from tests.controller.world import Broker, World


def change(world: World, master: int, sync_state_set_epoch: int, *members: int) -> Any:
    return world.ask(
        c.ChangeSyncStateSet(
            replica_set_id=ReplicaSetId(1),
            master=BrokerId(master),
            leader_epoch=world.replica_set().leader_epoch,
            sync_state_set_epoch=SyncStateSetEpoch(sync_state_set_epoch),
            sync_state_set=as_brokers(*members),
        )
    )


def test_a_late_change_of_the_sync_state_set_does_not_undo_a_newer_one() -> None:
    world = World()
    known = world.replica_set().sync_state_set_epoch
    assert change(world, 1, known, 1, 2) == known + 1
    late = change(world, 1, known, 1, 3)
    assert isinstance(late, StaleSyncStateSet)
    assert world.replica_set().sync_state_set == (1, 2)


def test_only_the_master_says_who_is_in_step() -> None:
    world = World()
    known = world.replica_set().sync_state_set_epoch
    answer = change(world, 2, known, 2, 3)
    assert isinstance(answer, InvalidMetadataRequest)
    answer = change(world, 2, known, 1, 2)
    assert isinstance(answer, InvalidMetadataRequest)
    assert world.replica_set().sync_state_set == (1, 2, 3)


def test_a_mastership_that_may_lose_records_says_who_is_in_step() -> None:
    # Members that were in step may hold what an unclean master lacks.
    world = World()
    before = world.replica_set()
    wanted = c.NewMastership(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(2),
        leader_epoch=before.leader_epoch,
        sync_state_set_epoch=before.sync_state_set_epoch,
        cause=Cause.UNCLEAN,
        is_unclean=True,
    )
    silent = world.ask(c.BeginMasterships(masterships=(wanted,)))
    assert isinstance(silent, InvalidMetadataRequest)
    assert "must name its sync-state set" in str(silent)
    assert world.replica_set() == before
    world.ask(c.BeginMasterships(masterships=(replace(wanted, sync_state_set=as_brokers(2)),)))
    assert world.replica_set().unclean_epoch == before.leader_epoch + 1


def test_only_the_master_says_that_its_successor_is_ready() -> None:
    world = World()
    world.brokers[1].is_hung = True  # asked, and does not answer
    world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    (request_id,) = world.active._transfers._transfers
    ready = s.TransferReady(request_id=RequestId(request_id), is_ready=True, log_end_position=0)
    for broker_id in (2, 3):
        world.active.on_answer(BrokerId(broker_id), ready)
    world.run(20)
    assert world.replica_set().master == 1
    world.active.on_answer(BrokerId(1), ready)
    world.run(20)
    assert world.replica_set().master == 2


def test_an_answer_to_a_probe_does_not_outlive_the_session_that_it_was_asked_in() -> None:
    # The broker came back meanwhile: what it holds now, and has promised, nobody knows.
    world = World()
    world.write(50)
    for broker_id in (2, 3):
        world.brokers[broker_id].is_hung = True
    world.brokers[1].kill()
    world.run(5)
    (request_id,) = world.active._elections._rounds

    def answer(broker_id: int) -> None:
        report = world.brokers[broker_id].report(1)
        answer = s.ProbeAnswer(request_id=RequestId(request_id), reports=(report,))
        world.active.on_answer(BrokerId(broker_id), answer)

    answer(2)
    world.brokers[2].reconnect()
    answer(2)
    answer(3)
    world.run(20)
    after = world.replica_set()
    assert (after.master, after.sync_state_set) == (3, (3,))


def test_a_controller_that_stood_still_does_not_say_that_it_is_active() -> None:
    # Masters keep their leases by that word, and another controller may lead by now.
    world = World()
    timeout_ms = world.config.session_timeout_ms

    def said() -> int:
        session_id = world.brokers[1].sessions[world.leader]
        heartbeat = s.Heartbeat(
            session_id=SessionId(session_id),
            broker_id=BrokerId(1),
            incarnation=world.brokers[1].incarnation,
        )
        answer = world.active.on_heartbeat(BrokerId(1), heartbeat)
        assert answer is not None
        return answer.active_id

    assert said() == world.leader
    world.time.now += timeout_ms
    assert said() == -1
    world.run(3 * timeout_ms)
    assert said() == world.leader


def test_a_broker_that_was_removed_while_it_runs_is_answered_and_comes_back_at_once() -> None:
    world = World(settings={"session_timeout_ms": 60_000})
    joined = world.brokers[4] = Broker(world, 4, None, 1)
    world.submit(c.RegisterBroker(broker_id=BrokerId(4), host="h", port=1, incarnation="run-4-1"))
    world.submit(c.DrainBroker(broker_id=BrokerId(4)))  # so that it is given no set
    joined.start()
    world.run(200)
    assert world.ask(c.RemoveBroker(broker_id=BrokerId(4))) is None
    session_id = joined.sessions[1]
    world.run(2 * world.config.heartbeat_interval_ms)
    assert 4 in world.image.brokers, "it was told to register with its next heartbeat"
    assert joined.sessions[1] == session_id, "by the session that it had"
    joined.kill()
    world.run(200)
    assert world.image.brokers[BrokerId(4)].is_fenced, "and the close of that counts"


def test_a_broker_that_was_removed_when_it_was_gone_is_not_remembered() -> None:
    world = World()
    joined = world.brokers[4] = Broker(world, 4, None, 1)
    world.submit(c.RegisterBroker(broker_id=BrokerId(4), host="h", port=1, incarnation="run-4-1"))
    world.submit(c.DrainBroker(broker_id=BrokerId(4)))
    joined.start()
    world.run(200)
    joined.is_stopping = True
    joined.open_logs()
    context = world.active._context
    assert 4 in context.reports
    assert 4 in context.stopping
    joined.kill()
    world.ask(c.RemoveBroker(broker_id=BrokerId(4)))
    world.run(200)
    assert 4 not in context.liveness._sessions
    assert 4 not in context.reports
    assert 4 not in context.stopping


def test_sets_that_nobody_knows_are_not_kept_of_heartbeats() -> None:
    world = World()
    session_id = world.brokers[1].sessions[1]
    for start in range(0, 10_000, 1_000):
        sets = tuple(
            replace(world.brokers[1].report(1), replica_set_id=ReplicaSetId(set_id))
            for set_id in range(start, start + 1_000)
        )
        beat = s.Heartbeat(
            session_id=SessionId(session_id), broker_id=BrokerId(1), incarnation="i", sets=sets
        )
        assert world.active.on_heartbeat(BrokerId(1), beat) is not None
    known = set(world.image.replica_sets)
    assert world.active._context.liveness._sessions[BrokerId(1)].set_ids <= known
    assert set(world.active._context.reports[BrokerId(1)]) <= known


def test_an_answer_to_a_probe_counts_for_the_sets_that_were_asked_for_only() -> None:
    world = World()
    world.brokers[2].is_hung = world.brokers[3].is_hung = True
    world.brokers[1].kill()
    world.run(20)
    (one,) = world.active._elections._rounds.values()
    reports = tuple(
        replace(world.brokers[2].report(1), replica_set_id=ReplicaSetId(set_id))
        for set_id in range(1_000)
    )
    world.active.on_answer(BrokerId(2), s.ProbeAnswer(request_id=one.request_id, reports=reports))
    assert set(one.answers[BrokerId(2)]) == set(one.set_ids)
