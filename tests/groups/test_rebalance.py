"""From one generation to the next: expiry, laggards, hold-ups, sync deadlines, leaving."""

from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import REBALANCE_MS, SESSION_MS, World, only


def test_members_learn_of_a_rebalance_by_heartbeat_and_meet_in_the_next_generation() -> None:
    world = World()
    old = world.stable()[0]
    newcomer = world.join(client="new")
    assert world.beat(old.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = only(world.join(old.member_id))
    assert (rejoined.generation, rejoined.leader_id) == (2, old.member_id)
    assert only(newcomer).generation == 2


def test_a_silent_member_expires_and_the_others_are_asked_to_rejoin() -> None:
    world = World()
    first, _second = world.stable(2)
    world.pass_ms(SESSION_MS - 1)
    assert world.beat(first.member_id, 1) is ErrorCode.NONE
    world.pass_ms(1)
    assert world.beat(first.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert only(world.join(first.member_id)).generation == 2
    assert [*world.assignments()] == [first.member_id]
    assert world.coordinator.counters.members_expired == 1


def test_heartbeats_keep_members_for_ever() -> None:
    world = World()
    member = world.stable()[0]
    for _ in range(50):
        world.pass_ms(SESSION_MS - 1)
        assert world.beat(member.member_id, 1) is ErrorCode.NONE


def test_a_laggard_is_removed_at_the_rebalance_timeout_and_named() -> None:
    world = World()
    first, laggard = world.stable(2)
    rejoin = world.join(first.member_id)
    for _ in range(REBALANCE_MS // 5_000):
        assert not rejoin, "the laggard is waited for"
        world.beat(laggard.member_id, 1)
        world.pass_ms(5_000)
    assert only(rejoin).generation == 2
    hold_up = world.coordinator.counters.hold_ups[-1]
    assert (hold_up.member_id, hold_up.phase) == (laggard.member_id, "join")
    assert hold_up.waited_ms == REBALANCE_MS
    assert world.beat(laggard.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_of_the_members_counts() -> None:
    world = World()
    first = world.join(rebalance_ms=30_000)
    world.join(client="slow", rebalance_ms=90_000, session_ms=200_000)
    world.pass_ms(2_000)
    member = only(first).member_id
    rejoin = world.join(member, rebalance_ms=30_000, protocols=(("range", b"new"),))
    world.pass_ms(89_999)
    assert rejoin == []
    world.pass_ms(1)
    assert only(rejoin).generation == 2


def test_a_laggard_that_led_is_followed_by_the_first_that_joined() -> None:
    world = World()
    leader, follower = world.stable(2)
    rejoin = world.join(follower.member_id, protocols=(("range", b"changed"),))
    for _ in range(12):
        world.beat(leader.member_id, 1)
        world.pass_ms(5_000)
    assert only(rejoin).leader_id == follower.member_id
    assert len(only(rejoin).members) == 1


def test_a_parked_join_keeps_its_member_alive_longer_than_its_session() -> None:
    world = World()
    first, second = world.stable(2)
    rejoin = world.join(first.member_id)
    for _ in range(5):
        world.beat(second.member_id, 1)
        world.pass_ms(SESSION_MS - 1)
    assert rejoin == []
    assert world.join(second.member_id) != []
    assert only(rejoin).generation == 2


def test_the_last_member_leaving_empties_the_group_durably() -> None:
    world = World()
    member = world.stable()[0]
    reply = world.leave((member.member_id, None))
    assert [left.error for left in reply.members] == [ErrorCode.NONE]
    assert world.state() == "Empty"
    world.restart()
    assert world.state() == "Empty"
    assert only(world.commit({("t", 0): 5})) == {("t", 0): ErrorCode.NONE}


def test_the_generation_goes_on_after_the_group_was_empty() -> None:
    world = World()
    member = world.stable()[0]
    world.leave((member.member_id, None))
    answers = world.join()
    world.pass_ms(5_000)
    assert only(answers).generation == 3


def test_leaving_answers_each_member_of_a_batch_on_its_own() -> None:
    world = World()
    first, second = world.stable(2)
    reply = world.leave((first.member_id, None), ("ghost", None), (second.member_id, None))
    assert [left.error.name for left in reply.members] == ["NONE", "UNKNOWN_MEMBER_ID", "NONE"]
    assert world.state() == "Empty"


def test_leaving_an_unknown_group_says_unknown_member() -> None:
    reply = World().leave(("ghost", None))
    assert reply.members[0].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_can_leave_and_nobody_waits_for_it_any_more() -> None:
    world = World()
    member = world.stable()[0]
    given = only(world.join(id_required=True)).member_id
    rejoin = world.join(member.member_id)
    assert rejoin == []
    assert world.leave((given, None)).members[0].error is ErrorCode.NONE
    assert only(rejoin).generation == 2


def test_a_member_that_leaves_while_its_join_is_parked_gets_an_answer() -> None:
    world = World()
    first, second = world.stable(2)
    parked = world.join(first.member_id)
    world.leave((first.member_id, None))
    assert only(parked).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert only(world.join(second.member_id)).leader_id == second.member_id


def test_a_member_that_joins_and_never_syncs_is_removed_and_named() -> None:
    world = World()
    leader, silent = world.joined(2)
    parked = world.sync(leader.member_id, 1, {leader.member_id: b"all"})
    assert only(parked).error is ErrorCode.NONE
    for _ in range(REBALANCE_MS // 5_000):
        world.pass_ms(5_000)
        world.beat(leader.member_id, 1)
        world.beat(silent.member_id, 1)
    assert world.beat(silent.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.counters.hold_ups[-1].phase == "sync"
    assert world.state() == "PreparingRebalance"


def test_followers_waiting_for_a_leader_that_died_are_asked_to_rejoin() -> None:
    world = World()
    leader, follower = world.joined(2)
    parked = world.sync(follower.member_id, 1)
    world.pass_ms(SESSION_MS)
    assert only(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = only(world.join(follower.member_id))
    assert rejoin.leader_id == follower.member_id != leader.member_id


def test_a_newcomer_while_the_group_completes_starts_over_with_everybody() -> None:
    world = World()
    leader, follower = world.joined(2)
    parked = world.sync(follower.member_id, 1)
    newcomer = world.join(client="new")
    assert only(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    late = only(world.sync(leader.member_id, 1, {}))
    assert late.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(leader.member_id)
    world.join(follower.member_id)
    assert only(newcomer).generation == 2
