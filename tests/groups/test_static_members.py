"""Static membership: KIP-345 and KIP-814."""

from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import DELAY_MS, REBALANCE_MS, SESSION_MS, World, only, subscription


def static_pair(world: World, **options: object) -> tuple[str, str]:
    """A stable group of two static members i0 (leads) and i1; returns their member ids."""
    parked = [world.join(instance=f"i{n}", **options) for n in range(2)]  # type: ignore[arg-type]
    world.pass_ms(3 * DELAY_MS)
    first, second = (only(answers).member_id for answers in parked)
    world.sync(first, 1, {first: b"A", second: b"B"})
    world.sync(second, 1)
    return first, second


def test_a_static_member_needs_no_id_in_advance() -> None:
    world = World()
    answers = world.join(instance="i0", id_required=True)
    world.pass_ms(DELAY_MS)
    assert only(answers).member_id == "i0-1"


def test_a_static_follower_that_comes_back_keeps_its_assignment_without_a_rebalance() -> None:
    world = World()
    first, old = static_pair(world)
    back = only(world.join(instance="i1"))
    assert (back.error, back.generation, back.leader_id) == (ErrorCode.NONE, 1, first)
    assert back.member_id != old
    assert only(world.sync(back.member_id, 1, instance="i1")).assignment == b"B"
    assert world.beat(first, 1, instance="i0") is ErrorCode.NONE


def test_the_former_owner_of_an_instance_id_is_fenced_everywhere() -> None:
    world = World()
    _, old = static_pair(world)
    world.join(instance="i1")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert world.beat(old, 1, instance="i1") is fenced
    assert only(world.join(old, instance="i1")).error is fenced
    assert only(world.sync(old, 1, instance="i1")).error is fenced
    assert only(world.commit({("t", 0): 1}, old, 1, instance="i1")) == {("t", 0): fenced}
    assert world.leave((old, "i1")).members[0].error is fenced
    assert world.beat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_new_member_id_is_durable_before_it_is_told() -> None:
    world = World()
    static_pair(world)
    world.journal.is_prompt = False
    answers = world.join(instance="i1")
    assert answers == []
    world.journal.confirm()
    new_id = only(answers).member_id
    world.restart()
    assert world.beat(new_id, 1, instance="i1") is ErrorCode.NONE


def test_a_returning_leader_is_told_to_skip_the_assignment_when_it_can() -> None:
    world = World()
    static_pair(world)
    back = only(world.join(instance="i0", can_skip=True))
    assert back.skip_assignment
    assert back.leader_id == back.member_id
    assert len(back.members) == 2
    assert only(world.sync(back.member_id, 1, instance="i0")).assignment == b"A"


def test_a_returning_leader_of_an_older_version_does_not_believe_to_be_leader() -> None:
    world = World()
    old, _ = static_pair(world)
    back = only(world.join(instance="i0"))
    assert (back.leader_id, back.members, back.skip_assignment) == (old, (), False)
    assert back.member_id != old


def test_a_static_member_that_comes_back_with_other_topics_causes_a_rebalance() -> None:
    world = World()
    static_pair(world, protocols=(("range", subscription("t")),))
    answers = world.join(instance="i1", protocols=(("range", subscription("t", "u")),))
    assert answers == []
    assert world.state() == "PreparingRebalance"


def test_a_static_member_that_changes_the_elected_protocol_causes_a_rebalance() -> None:
    world = World()
    static_pair(world, protocols=(("range", b""), ("sticky", b"")))
    world.join(instance="i1", protocols=(("sticky", b""),))
    assert world.state() == "PreparingRebalance"


def test_a_parked_join_of_the_former_owner_is_fenced_by_the_newcomer() -> None:
    world = World()
    first = world.join(instance="i0")
    second = world.join(instance="i0")
    assert only(first).error is ErrorCode.FENCED_INSTANCE_ID
    world.pass_ms(3 * DELAY_MS)
    assert only(second).error is ErrorCode.NONE
    assert [m.instance_id for m in only(second).members] == ["i0"]


def test_a_parked_sync_of_the_former_owner_is_fenced_by_the_newcomer() -> None:
    world = World()
    parked = [world.join(instance=f"i{n}") for n in range(2)]
    world.pass_ms(3 * DELAY_MS)
    follower = only(parked[1]).member_id
    sync = world.sync(follower, 1, instance="i1")
    world.join(instance="i1")
    assert only(sync).error is ErrorCode.FENCED_INSTANCE_ID
    assert world.state() == "PreparingRebalance"


def half_synced(world: World) -> None:
    """A stable group whose follower i1 has not asked for its assignment yet and comes back."""
    parked = [world.join(instance=f"i{n}", session_ms=1_800_000) for n in range(2)]
    world.pass_ms(3 * DELAY_MS)
    leader, follower = (only(answers).member_id for answers in parked)
    world.sync(leader, 1, {leader: b"A", follower: b"B"})


def test_a_static_member_that_comes_back_before_its_sync_is_still_waited_for() -> None:
    world = World()
    half_synced(world)
    back = only(world.join(instance="i1", session_ms=1_800_000))
    world.pass_ms(REBALANCE_MS)
    assert world.state() == "PreparingRebalance", "it never asked for its assignment"
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat(back.member_id, 1, instance="i1") is unknown


def test_a_static_member_that_comes_back_before_its_sync_and_syncs_stays() -> None:
    world = World()
    half_synced(world)
    back = only(world.join(instance="i1", session_ms=1_800_000))
    assert only(world.sync(back.member_id, 1, instance="i1")).assignment == b"B"
    world.pass_ms(REBALANCE_MS)
    assert world.state() == "Stable"
    assert world.beat(back.member_id, 1, instance="i1") is ErrorCode.NONE


def test_a_silent_static_member_stays_through_a_rebalance_until_its_session_ends() -> None:
    world = World()
    first, second = static_pair(world, session_ms=200_000)
    rejoin = world.join(first, instance="i0", session_ms=200_000)
    world.pass_ms(60_000)
    assert only(rejoin).generation == 2
    assert {m.instance_id for m in only(rejoin).members} == {"i0", "i1"}
    world.sync(first, 2, {first: b"A", second: b"B"}, instance="i0")
    back = only(world.join(instance="i1", session_ms=200_000))
    assert only(world.sync(back.member_id, 2, instance="i1")).assignment == b"B"


def test_a_group_of_silent_static_members_ends_with_their_sessions() -> None:
    world = World()
    first, second = static_pair(world, session_ms=100_000)
    assert world.leave((first, "i0")).members[0].error is ErrorCode.NONE
    assert world.state() == "PreparingRebalance"
    world.pass_ms(100_000)
    assert world.state() == "Empty"
    assert world.beat(second, 1, instance="i1") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_operator_removes_a_static_member_by_instance_id_alone() -> None:
    world = World()
    first, _ = static_pair(world)
    reply = world.leave(("", "i1"), ("", "nobody"))
    assert [left.error.name for left in reply.members] == ["NONE", "UNKNOWN_MEMBER_ID"]
    assert only(world.join(first, instance="i0")).generation == 2


def test_an_unknown_instance_with_a_member_id_must_start_over() -> None:
    world = World()
    first, _ = static_pair(world)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert only(world.join(first, instance="other")).error is unknown
    assert world.beat(first, 1, instance="other") is unknown


def test_a_restart_of_the_coordinator_keeps_static_members() -> None:
    world = World()
    _, second = static_pair(world)
    world.restart()
    world.pass_ms(SESSION_MS - 1)
    assert world.beat(second, 1, instance="i1") is ErrorCode.NONE
    back = only(world.join(instance="i1"))
    assert only(world.sync(back.member_id, 1, instance="i1")).assignment == b"B"


def test_a_silent_leader_does_not_lead_the_next_generation() -> None:
    world = World()
    first, second = static_pair(world, session_ms=1_800_000)
    newcomer = world.join(session_ms=1_800_000)
    rejoined = world.join(second, instance="i1", session_ms=1_800_000)
    world.pass_ms(REBALANCE_MS)
    answers = only(rejoined), only(newcomer)
    assert {answer.generation for answer in answers} == {2}
    (leader,) = {answer.leader_id for answer in answers}
    assert leader in {answer.member_id for answer in answers}
    everybody = {member.member_id for answer in answers for member in answer.members}
    assert first in everybody, "it keeps its place until its session ends"
