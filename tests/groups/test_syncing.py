"""SyncGroup and Heartbeat."""

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import SESSION_MS, World, only


def test_the_assignment_is_handed_out_when_it_is_durable_and_not_before() -> None:
    world = World()
    leader, follower = world.joined(2)
    world.journal.is_prompt = False
    first = world.sync(follower.member_id, 1)
    second = world.sync(leader.member_id, 1, {leader.member_id: b"L", follower.member_id: b"F"})
    assert first == second == []
    world.journal.confirm()
    assert (only(first).assignment, only(second).assignment) == (b"F", b"L")
    assert only(first).protocol_name == "range"
    assert world.state() == "Stable"


def test_members_the_leader_left_out_get_an_empty_assignment() -> None:
    world = World()
    leader, follower = world.joined(2)
    world.sync(leader.member_id, 1, {leader.member_id: b"L", "ghost": b"?"})
    assert only(world.sync(follower.member_id, 1)).assignment == b""
    assert world.assignments() == {leader.member_id: b"L", follower.member_id: b""}


def test_a_late_sync_gets_the_assignment_of_the_stable_group() -> None:
    world = World()
    _, follower = world.stable(2)
    assert only(world.sync(follower.member_id, 1)).assignment == follower.member_id.encode()


def test_sync_checks_member_generation_and_protocol() -> None:
    world = World()
    member = world.joined()[0].member_id
    for answers, error in (
        (world.sync("ghost", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (world.sync(member, 2), ErrorCode.ILLEGAL_GENERATION),
        (world.sync(member, 0), ErrorCode.ILLEGAL_GENERATION),
        (
            world.sync(member, 1, protocol_type="connect"),
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        (
            world.sync(member, 1, protocol_type="consumer", protocol_name="sticky"),
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        (world.sync(member, 1, group="nothing"), ErrorCode.UNKNOWN_MEMBER_ID),
        (world.sync(member, 1, group=""), ErrorCode.INVALID_GROUP_ID),
    ):
        assert only(answers).error is error


def test_an_assignment_that_can_not_be_journaled_fails_the_syncs_and_rebalances() -> None:
    world = World()
    leader, follower = world.joined(2)
    world.journal.is_prompt = False
    parked = [world.sync(follower.member_id, 1), world.sync(leader.member_id, 1, {})]
    world.journal.fail(Unwritten.OVERTAKEN)
    assert {only(answers).error for answers in parked} == {ErrorCode.NOT_COORDINATOR}
    assert world.state() == "PreparingRebalance"


def test_a_sync_that_fails_brings_nothing_of_an_earlier_generation() -> None:
    world = World()
    leader, follower = (one.member_id for one in world.joined(2))
    world.sync(leader, 1, {leader: b"L", follower: b"F"})
    world.sync(follower, 1)
    world.join(client="new")
    again = [world.join(leader), world.join(follower)]
    generation = only(again[0]).generation
    world.journal.is_prompt = False
    parked = [world.sync(follower, generation), world.sync(leader, generation, {})]
    world.journal.fail(Unwritten.OVERTAKEN)
    assert [only(answers).assignment for answers in parked] == [b"", b""]
    assert {only(answers).error for answers in parked} == {ErrorCode.NOT_COORDINATOR}


def test_an_assignment_confirmed_after_the_group_moved_on_changes_nothing() -> None:
    world = World()
    leader = world.joined()[0]
    world.journal.is_prompt = False
    parked = world.sync(leader.member_id, 1, {leader.member_id: b"old"})
    world.join(client="new")
    assert only(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.journal.confirm()
    assert world.state() == "PreparingRebalance"


def test_an_assignment_of_the_last_generation_is_not_handed_out_in_the_next() -> None:
    world = World()
    leader = world.joined()[0].member_id
    world.journal.is_prompt = False
    world.sync(leader, 1, {leader: b"old"})
    newcomer = world.join(client="new")
    world.join(leader)
    follower = only(newcomer).member_id
    parked = world.sync(follower, 2)
    world.journal.confirm()
    assert parked == []
    assert world.state() == "CompletingRebalance"
    world.sync(leader, 2, {follower: b"new"})
    world.journal.confirm()
    assert only(parked).assignment == b"new"


def test_a_member_that_leaves_while_its_sync_is_parked_gets_an_answer() -> None:
    world = World()
    _, follower = world.joined(2)
    parked = world.sync(follower.member_id, 1)
    world.leave((follower.member_id, None))
    assert only(parked).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_repeats_its_sync_does_not_replace_what_is_being_written() -> None:
    world = World()
    leader = world.joined()[0].member_id
    world.journal.is_prompt = False
    first = world.sync(leader, 1, {leader: b"one"})
    second = world.sync(leader, 1, {leader: b"two"})
    assert only(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.journal.confirm()
    assert only(second).assignment == b"one"
    world.restart()
    assert world.assignments() == {leader: b"one"}


def test_a_parked_sync_keeps_its_member_alive() -> None:
    world = World()
    leader, follower = world.joined(2)
    parked = world.sync(follower.member_id, 1)
    for _ in range(4):
        world.pass_ms(SESSION_MS // 2)
        assert world.beat(leader.member_id, 1) is ErrorCode.NONE
    world.sync(leader.member_id, 1, {})
    assert only(parked).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("m", 1, ErrorCode.NONE),
        ("m", 0, ErrorCode.ILLEGAL_GENERATION),
        ("m", 2, ErrorCode.ILLEGAL_GENERATION),
        ("ghost", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeat_checks_member_and_generation(
    member: str, generation: int, error: ErrorCode
) -> None:
    world = World()
    known = world.stable()[0].member_id
    assert world.beat(known if member == "m" else member, generation) is error


def test_heartbeat_to_a_group_that_is_not_there() -> None:
    world = World()
    assert world.beat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat("m", 1, group="") is ErrorCode.INVALID_GROUP_ID
