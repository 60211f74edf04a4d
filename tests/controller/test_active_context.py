"""What the active controller counts and numbers, and what is left of it when it stops."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import BrokerId, ReplicaSetId, RequestId
from penstock.controller import session as s
from penstock.controller.active.context import ActiveStats
from penstock.controller.metadata.causes import Cause
from tests.controller.world import World


@given(st.lists(st.tuples(st.sampled_from([Cause.TRANSFER, Cause.RESTART]), st.integers(0, 9))))
def test_masterships_are_counted_by_cause_and_elections_by_time(
    begun: Sequence[tuple[Cause, int]],
) -> None:
    stats = ActiveStats()
    for cause, took_ms in begun:
        stats.count_mastership(cause)
        stats.note_election(took_ms)
    causes = [cause.value for cause, _ in begun]
    assert stats.masterships == {cause: causes.count(cause) for cause in causes}
    assert stats.elect_ms_max == max((took_ms for _, took_ms in begun), default=0)
    assert stats.elect_ms_total == sum(took_ms for _, took_ms in begun)


def test_transfers_of_two_sets_of_one_master_are_told_apart() -> None:
    world = World(directories=2)
    led = [set_id for set_id, one in world.image.replica_sets.items() if one.master == 1]
    assert len(led) == 2
    answers = [
        world.operate(
            s.TransferRequest(
                request_id=RequestId(7), replica_set_id=ReplicaSetId(set_id), target=BrokerId(to)
            )
        )
        for set_id, to in zip(led, (2, 3), strict=True)
    ]
    world.run(50)
    assert len({one.request_id for one in world.brokers[1].prepared}) == 2
    assert [world.replica_set(set_id).master for set_id in led] == [2, 3]
    assert [len(heard) for heard in answers] == [1, 1]
    assert world.active.stats.masterships[Cause.TRANSFER.value] == 2


def test_a_controller_that_has_stopped_leaves_no_timer() -> None:
    world = World(is_started=False)
    world.run(100)
    assert world.time.waiting_count == 1, "its tick"
    world.stop_controller(1)
    world.active.stop()
    assert world.time.waiting_count == 0
    world.run(100_000)
    assert world.time.waiting_count == 0


def test_a_broker_that_stops_again_is_relieved_at_once_as_the_first_time() -> None:
    world = World(settings={"preferred_master_delay_ms": -1})
    for _ in range(2):
        world.run(-(world.time.now - 100) % 500)  # far from the controller's own tick
        assert world.replica_set().master == 1
        world.brokers[1].is_stopping = True
        world.brokers[1].open_logs()
        world.run(20)
        assert world.replica_set().master != 1
        world.brokers[1].kill()
        world.brokers[1].start()
        world.run(1_000)
        world.shrink(1, 2, 3)
        world.operate(
            s.TransferRequest(
                request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(1)
            )
        )
        world.run(1_000)
