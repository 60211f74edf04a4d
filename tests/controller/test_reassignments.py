"""A reassigned set changes its members one at a time, and never has fewer in step than before."""

from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import (
    decode_answer,
    decode_command,
    encode_answer,
    encode_command,
)
from penstock.controller.commands.reassignment.commands import (
    AdvanceReassignment,
    Reassign,
    SetOutcome,
)
from penstock.controller.errors import (
    InvalidMetadataRequest,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MetadataError,
    NoReassignment,
    UnknownReplicaSet,
)
from penstock.controller.metadata import record_codec
from penstock.controller.metadata import records as r
from penstock.controller.metadata.record_codec import decode_records, encode_records
from tests.controller.cluster import Cluster
from tests.controller.reassigning import ask, get_in_step, shape, target_of, to
from tests.controller.world import COMMIT_MS, World

WHILE_MS = 1_000


def _world(**fields: Any) -> World:
    """Brokers 1 to 6; set 1 has the members 1, 2 and 3."""
    world = World(broker_count=6, **fields)
    assert shape(world.replica_set()) == ((1, 2, 3), 1, (1, 2, 3))
    return world


def _refusal(cluster: Cluster, command: Reassign) -> MetadataError:
    (outcome,) = cluster.submit(command)
    assert outcome.error is not None
    assert not cluster.image.configuration.reassignments
    return outcome.error


def test_a_member_is_replaced_once_its_successor_is_in_step() -> None:
    world = _world()
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    assert shape(world.replica_set()) == ((1, 2, 3, 4), 1, (1, 2, 3))
    get_in_step(world, 1, 2, 3, 4)
    world.run(WHILE_MS)
    assert shape(world.replica_set()) == ((1, 2, 4), 1, (1, 2, 4))
    assert target_of(world) is None


def test_all_members_and_the_master_are_replaced_one_at_a_time() -> None:
    world = _world()
    ask(world, (6, 5, 4))
    for members in ((1, 2, 3, 6), (1, 2, 3, 6, 5), (1, 2, 3, 6, 5, 4)):
        world.run(WHILE_MS)
        assert shape(world.replica_set()) == (members, 1, (1, 2, 3, *sorted(members[3:-1])))
        get_in_step(world, *members)
    world.run(WHILE_MS)
    one = world.replica_set()
    assert shape(one) == ((6, 5, 4), 6, (4, 5, 6))
    assert (one.last_cause, target_of(world)) == ("drain", None)


def test_the_set_does_not_go_back_to_a_preferred_master_that_is_to_leave() -> None:
    world = _world(settings={"preferred_master_delay_ms": 0})
    world.brokers[3].kill()
    get_in_step(world, 1, 2)
    ask(world, (4, 2, 3))
    world.run(WHILE_MS)
    get_in_step(world, 1, 2, 4)  # 3 is waited for
    world.brokers[1].is_stopping = True
    world.run(5 * WHILE_MS)
    assert world.replica_set().master == 2
    world.brokers[1].is_stopping = False
    world.run(60 * WHILE_MS)
    assert shape(world.replica_set()) == ((1, 2, 3, 4), 2, (1, 2, 4))


def test_another_order_of_the_same_members_is_there_at_once() -> None:
    world = _world(settings={"preferred_master_delay_ms": -1})
    ask(world, (3, 1, 2))
    assert shape(world.replica_set()) == ((3, 1, 2), 1, (1, 2, 3))
    assert target_of(world) is None


def test_what_is_so_already_or_under_way_makes_no_entry_of_the_log() -> None:
    world = _world()
    entries = len(world.log)
    ask(world, (1, 2, 3))
    assert len(world.log) == entries
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    entries = len(world.log)
    ask(world, (1, 2, 4))
    assert len(world.log) == entries


def test_another_controller_goes_on_where_the_first_has_stopped() -> None:
    world = _world(controller_count=2)
    ask(world, (4, 5, 6))
    world.run(WHILE_MS)
    get_in_step(world, 1, 2, 3, 4)
    world.stop_controller(1)
    world.lead(2)
    world.run(20_000)
    assert shape(world.replica_set()) == ((1, 2, 3, 4, 5), 1, (1, 2, 3, 4))


def test_a_step_with_a_lost_answer_is_asked_for_again_and_taken_once() -> None:
    world = _world()
    world.submit(to((1, 2, 4)))
    world.run(COMMIT_MS)
    world.is_log_slow = True
    world.run(50)  # the step is told a time-out
    world.commit_late()
    entries = len(world.log)
    world.run(WHILE_MS)
    steps = [one for one in world.commands if isinstance(one, AdvanceReassignment)]
    assert [one.added for one in steps] == [4]
    assert world.replica_set().replicas == (1, 2, 3, 4)
    assert len(world.log) == entries + 1  # the new member's log is registered


def test_a_dead_member_that_is_to_go_goes_first() -> None:
    world = _world()
    world.brokers[3].kill()
    get_in_step(world, 1, 2)
    world.run(200)
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    assert shape(world.replica_set()) == ((1, 2, 4), 1, (1, 2))
    assert target_of(world) == (1, 2, 4)
    get_in_step(world, 1, 2, 4)
    world.run(WHILE_MS)
    assert target_of(world) is None


def test_a_drained_member_that_is_to_go_goes_first() -> None:
    world = _world()
    world.ask(c.DrainBroker(broker_id=BrokerId(3)))
    world.run(WHILE_MS)
    assert world.replica_set().sync_state_set == (1, 2)
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    assert shape(world.replica_set()) == ((1, 2, 4), 1, (1, 2))


def test_a_slow_member_that_is_to_go_stays_until_its_successor_is_in_step() -> None:
    world = _world()
    get_in_step(world, 1, 2)
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    assert world.replica_set().replicas == (1, 2, 3, 4)


def test_a_member_that_stays_and_is_dead_is_waited_for_before_others_go() -> None:
    world = _world()
    world.brokers[2].kill()
    get_in_step(world, 1, 3)
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    get_in_step(world, 1, 3, 4)
    world.run(WHILE_MS)
    assert shape(world.replica_set()) == ((1, 2, 3, 4), 1, (1, 3, 4))
    world.brokers[2].start()
    world.run(WHILE_MS)
    get_in_step(world, 1, 2, 3, 4)
    world.run(WHILE_MS)
    assert (world.replica_set().replicas, target_of(world)) == ((1, 2, 4), None)


def test_a_member_that_is_not_there_is_added_when_it_comes() -> None:
    world = _world()
    world.brokers[4].kill()
    world.run(200)
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    assert world.replica_set().replicas == (1, 2, 3)
    world.brokers[4].start()
    world.run(WHILE_MS)
    assert world.replica_set().replicas == (1, 2, 3, 4)


def test_an_elected_master_does_not_stop_it() -> None:
    world = _world()
    ask(world, (4, 2, 3))
    world.run(WHILE_MS)
    get_in_step(world, 1, 2, 3, 4)
    world.brokers[1].kill()
    world.run(WHILE_MS)
    get_in_step(world, 2, 3, 4)
    world.run(WHILE_MS)
    assert (world.replica_set().replicas, target_of(world)) == ((4, 2, 3), None)
    assert world.replica_set().master in {2, 3, 4}


def test_a_cancelled_set_is_as_it_was_while_the_new_member_copies() -> None:
    world = _world()
    ask(world, (4, 1, 2))
    world.run(WHILE_MS)
    ask(world, None)
    world.run(WHILE_MS)
    assert shape(world.replica_set()) == ((1, 2, 3), 1, (1, 2, 3))
    assert target_of(world) is None


def test_a_cancelled_set_is_as_it_was_before_its_first_step() -> None:
    world = _world()
    world.brokers[4].kill()
    ask(world, (4, 1, 2))
    ask(world, None)
    assert target_of(world) is None
    assert world.replica_set().replicas == (1, 2, 3)


def test_a_cancelled_set_gets_back_what_has_left_it() -> None:
    world = _world()
    ask(world, (4,))
    world.run(WHILE_MS)
    get_in_step(world, 1, 2, 3, 4)
    while len(world.replica_set().replicas) == 4:
        world.run(1)
    assert (world.replica_set().replicas, world.replica_set().master) == ((2, 3, 4), 4)
    ask(world, None)
    assert target_of(world) == (1, 2, 3)
    for _ in (1, 2):  # one after the other
        world.run(WHILE_MS)
        get_in_step(world, *world.replica_set().replicas)
    world.run(WHILE_MS)
    assert (world.replica_set().replicas, target_of(world)) == ((1, 2, 3), None)
    assert world.replica_set().master == 1


def test_another_target_replaces_the_first_and_a_cancellation_gives_back_what_was_before_both() -> (
    None
):
    world = _world()
    ask(world, (1, 2, 4))
    world.run(WHILE_MS)
    ask(world, (1, 2, 5))
    world.run(WHILE_MS)
    assert world.replica_set().replicas == (1, 2, 3, 5)  # 4 was never in step
    ask(world, None)
    world.run(WHILE_MS)
    assert world.replica_set().replicas == (1, 2, 3)


def test_under_a_quorum_a_member_is_added_only_where_writes_go_on_meanwhile() -> None:
    world = _world()
    policy = AckPolicy(kind=PolicyKind.QUORUM)
    world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=policy))
    world.brokers[3].kill()
    get_in_step(world, 1, 2)
    world.run(200)
    ask(world, (1, 2, 3, 4))  # of four a majority are three, and two are in step
    world.run(WHILE_MS)
    assert world.replica_set().replicas == (1, 2, 3)
    world.brokers[3].start()
    world.run(WHILE_MS)
    get_in_step(world, 1, 2, 3)
    world.run(WHILE_MS)
    assert world.replica_set().replicas == (1, 2, 3, 4)


def test_a_few_sets_at_a_time_copy_their_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.controller.active.reassignments.COPIES_MAX", 2)
    world = World(broker_count=4, factor=1, directories=2)
    world.run(200)
    ids = sorted(
        set_id for set_id, one in world.image.replica_sets.items() if 4 not in one.replicas
    )
    wanted = [to((4, *world.replica_set(set_id).replicas), set_id).sets[0] for set_id in ids]
    world.ask(Reassign(sets=tuple(wanted)))
    world.run(20_000)
    assert len(ids) == 6
    assert sum(len(world.replica_set(set_id).replicas) == 2 for set_id in ids) == 2


@pytest.mark.parametrize(
    ("members", "fields", "error", "text"),
    [
        ((), {}, InvalidReplicaAssignment, "name 1 to 32 brokers"),
        ((0, 0), {}, InvalidReplicaAssignment, "each once"),
        (range(33), {}, InvalidReplicaAssignment, "name 1 to 32 brokers"),
        ((0, 1, 9), {}, InvalidReplicaAssignment, "Broker 9 is not registered"),
        ((0, 1, -1), {}, InvalidReplicaAssignment, "Broker -1 is not registered"),
        ((0, 1, 4), {}, InvalidReplicaAssignment, "Broker 4 is being drained"),
        ((3,), {}, InvalidReplicaAssignment, "asks for 2 copies"),
        ((0, 3), {"may_resize": False}, InvalidReplicationFactor, "has 3 members"),
        ((0, 1, 3), {"partition_count": 1}, InvalidReplicaAssignment, "got or lost partitions"),
        (None, {}, NoReassignment, "No reassignment of replica set 0"),
        ((0, 1), {"set_id": 7}, UnknownReplicaSet, "7"),
    ],
)
def test_what_no_set_can_become_is_refused_and_says_why(
    members: Any, fields: dict[str, Any], error: type[MetadataError], text: str
) -> None:
    cluster = Cluster(sets=((0, 1, 2), (3,), (4,)))
    policy = AckPolicy(minimum=2)
    cluster.submit(c.SetAckPolicy(replica_set_id=ReplicaSetId(0), policy=policy))
    cluster.submit(c.DrainBroker(broker_id=BrokerId(4)))
    found = _refusal(cluster, to(members, **{"set_id": 0, **fields}))
    assert type(found) is error
    assert text in str(found)


def test_a_set_that_may_not_be_resized_may_be_moved() -> None:
    cluster = Cluster(sets=((0, 1), (2,)))
    (outcome,) = cluster.submit(to((0, 2), 0, may_resize=False, partition_count=0))
    assert outcome == SetOutcome()


def test_one_refused_set_does_not_keep_the_others() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    first, second = to((9,), 0), to((0,), 1)
    outcomes = cluster.submit(Reassign(sets=(*first.sets, *second.sets)))
    assert [one.error is None for one in outcomes] == [False, True]
    assert list(cluster.image.configuration.reassignments) == [1]
    with pytest.raises(InvalidMetadataRequest, match="not all different"):
        cluster.submit(Reassign(sets=(*first.sets, *first.sets)))


def test_a_cancelled_reassignment_can_not_be_cancelled_again() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    cluster.submit(to((1,), 0))
    cluster.submit(
        AdvanceReassignment(replica_set_id=ReplicaSetId(0), target=as_brokers(1), added=BrokerId(1))
    )
    assert cluster.submit(to(None, 0)) == (SetOutcome(),)
    (again,) = cluster.submit(to(None, 0))
    assert isinstance(again.error, NoReassignment)


@pytest.mark.parametrize("fields", [{"added": 2}, {"removed": 0}, {}])
def test_a_step_towards_an_earlier_target_is_refused(fields: dict[str, int]) -> None:
    cluster = Cluster(sets=((1, 0), (2,)))
    cluster.submit(to((1, 2), 0))
    cluster.submit(to((1, 2, 0), 0))
    step = AdvanceReassignment(
        replica_set_id=ReplicaSetId(0),
        target=as_brokers(1, 2),
        **{name: BrokerId(broker) for name, broker in fields.items()},
    )
    with pytest.raises(InvalidMetadataRequest, match=r"not on its way to \[1, 2\]"):
        cluster.submit(step)


def test_a_reassignment_does_not_end_before_its_members_are_there() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    cluster.submit(to((1,), 0))
    with pytest.raises(InvalidMetadataRequest, match="has the members"):
        cluster.submit(AdvanceReassignment(replica_set_id=ReplicaSetId(0), target=as_brokers(1)))


def test_a_request_and_its_outcomes_reach_the_active_controller_as_they_are() -> None:
    command = to((1, 2), may_resize=False, partition_count=3)
    assert decode_command(encode_command(command)) == command
    outcomes = (SetOutcome(), SetOutcome(error=NoReassignment(ReplicaSetId(1))))
    first, second = decode_answer(command, encode_answer(outcomes))
    assert first == SetOutcome()
    assert isinstance(second.error, NoReassignment)
    assert str(second.error) == str(outcomes[1].error)


def test_a_release_that_does_not_know_reassignments_carries_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(sets=((0,), (1,)))
    begun, over = len(cluster.log), len(cluster.log) + 1
    cluster.submit(to((1,), 0))
    cluster.submit(to((0,), 0))
    monkeypatch.delitem(record_codec._SHAPES_BY_KIND, 0x8000)
    (carried,) = decode_records(cluster.log[begun])
    assert isinstance(carried, r.CarriedRecord)
    assert (carried.key, carried.is_removal) == ("0", False)
    assert encode_records([carried], 2) == cluster.log[begun]
    (removal,) = decode_records(cluster.log[over])
    assert isinstance(removal, r.CarriedRecord)
    assert (removal.key, removal.is_removal) == ("0", True)


def test_a_level_that_can_not_hold_reassignments_says_so() -> None:
    cluster = Cluster(sets=((0,), (1,)))
    cluster.submit(to((1,), 0))
    (text,) = cluster.image.configuration.above(1)
    assert text == "1 replica sets whose members change"
    assert not cluster.image.configuration.above(2)
