"""JoinGroup: newcomers, ids, protocols, limits."""

from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import DELAY_MS, SESSION_MS, World, only


def test_first_member_leads_and_sees_everybody_after_the_initial_delay() -> None:
    world = World()
    first, second = world.join(client="a"), world.join(client="b")
    assert first == second == []
    world.pass_ms(3 * DELAY_MS)
    leader, follower = only(first), only(second)
    assert leader.error is follower.error is ErrorCode.NONE
    assert leader.generation == follower.generation == 1
    assert leader.leader_id == follower.leader_id == leader.member_id == "a-1"
    assert [m.member_id for m in leader.members] == ["a-1", "b-2"]
    assert follower.members == ()
    assert leader.protocol_name == "range"
    assert leader.protocol_type == "consumer"


def test_each_newcomer_prolongs_the_initial_delay_but_not_beyond_the_rebalance_timeout() -> None:
    world = World()
    first = world.join(rebalance_ms=DELAY_MS + 300)
    world.pass_ms(DELAY_MS - 1)
    second = world.join(rebalance_ms=DELAY_MS + 300)
    world.pass_ms(2)
    assert first == []
    world.pass_ms(300)
    assert only(first).generation == only(second).generation == 1


def test_without_initial_delay_a_lone_member_is_answered_at_once() -> None:
    world = World(initial_rebalance_delay_ms=0)
    assert only(world.join()).generation == 1


def test_dynamic_member_of_version_4_gets_an_id_first_and_joins_with_it() -> None:
    world = World()
    first = only(world.join(id_required=True))
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id == "client-1"
    assert world.state() == "Empty"
    answers = world.join(first.member_id, id_required=True)
    world.pass_ms(DELAY_MS)
    assert only(answers).member_id == first.member_id


def test_an_id_that_is_never_used_is_forgotten_after_the_session_timeout() -> None:
    world = World()
    given = only(world.join(id_required=True)).member_id
    world.pass_ms(SESSION_MS)
    assert world.state() == "Dead"
    assert only(world.join(given)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_an_id_that_was_given_out_until_it_expires() -> None:
    world = World()
    member = world.stable()[0]
    world.join(id_required=True, session_ms=6_000)
    rejoin = world.join(member.member_id)
    assert rejoin == []
    world.pass_ms(6_000)
    assert only(rejoin).generation == 2


def test_joining_with_an_unknown_id_must_start_over() -> None:
    world = World()
    assert only(world.join("ghost")).error is ErrorCode.UNKNOWN_MEMBER_ID
    world.stable()
    assert only(world.join("ghost")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_session_timeouts_outside_the_bounds_are_refused() -> None:
    world = World()
    for session_ms in (5_999, 1_800_001, 0, -1):
        answer = only(world.join(session_ms=session_ms))
        assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_group_ids_must_be_neither_empty_nor_huge() -> None:
    world = World()
    for group in ("", "x" * 1_025, "\u00e9" * 513):
        assert only(world.join(group=group)).error is ErrorCode.INVALID_GROUP_ID


def test_a_member_needs_a_protocol_type_and_a_protocol() -> None:
    world = World()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert only(world.join(protocol_type="")).error is inconsistent
    assert only(world.join(protocols=())).error is inconsistent
    assert world.coordinator.group_count == 0


def test_a_member_must_share_type_and_one_protocol_with_all_others() -> None:
    world = World()
    world.stable()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert only(world.join(protocol_type="connect")).error is inconsistent
    assert only(world.join(protocols=(("sticky", b""),))).error is inconsistent


def test_the_protocol_most_members_prefer_among_the_common_ones_is_elected() -> None:
    world = World()
    offers = ("abc", "cb", "bc", "cab", "cb")
    parked = [world.join(protocols=tuple((name, b"") for name in offer)) for offer in offers]
    world.pass_ms(10 * DELAY_MS)
    assert {only(answers).protocol_name for answers in parked} == {"c"}


def test_a_tie_between_protocols_goes_to_the_first_members_choice() -> None:
    world = World()
    parked = [world.join(protocols=tuple((name, b"") for name in offer)) for offer in ("ab", "ba")]
    world.pass_ms(10 * DELAY_MS)
    assert only(parked[0]).protocol_name == "a"


def test_a_full_group_refuses_newcomers_and_still_takes_its_own_members() -> None:
    world = World(group_size_max=2)
    members = world.stable(2)
    assert only(world.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(members[0].member_id) == []


def test_ids_given_out_count_towards_the_size_of_a_group() -> None:
    world = World(group_size_max=2)
    for _ in range(2):
        assert only(world.join(id_required=True)).error is ErrorCode.MEMBER_ID_REQUIRED
    assert only(world.join(id_required=True)).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_too_many_groups_are_refused_by_policy() -> None:
    world = World(groups_max=1)
    world.stable()
    assert only(world.join(group="another")).error is ErrorCode.POLICY_VIOLATION
    assert only(world.commit({("t", 0): 1}, group="third")) == {
        ("t", 0): ErrorCode.POLICY_VIOLATION
    }


def test_oversized_member_metadata_is_refused() -> None:
    world = World(member_metadata_bytes_max=100)
    answer = only(world.join(protocols=(("range", b"x" * 96),)))
    assert answer.error is ErrorCode.INVALID_REQUEST


def test_a_join_repeated_by_its_member_answers_the_older_one_and_parks_the_newer() -> None:
    world = World()
    given = only(world.join(id_required=True)).member_id
    first = world.join(given)
    second = world.join(given)
    assert only(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(3 * DELAY_MS)
    assert only(second).generation == 1


def test_a_follower_that_rejoins_unchanged_learns_the_generation_without_a_rebalance() -> None:
    world = World()
    _, follower = world.stable(2)
    again = only(world.join(follower.member_id))
    assert (again.generation, again.members) == (1, ())
    assert world.state() == "Stable"


def test_a_follower_with_new_metadata_causes_a_rebalance() -> None:
    world = World()
    _, follower = world.stable(2)
    assert world.join(follower.member_id, protocols=(("range", b"other topics"),)) == []
    assert world.state() == "PreparingRebalance"


def test_a_leader_that_rejoins_causes_a_rebalance() -> None:
    world = World()
    leader, _ = world.stable(2)
    assert world.join(leader.member_id) == []
    assert world.state() == "PreparingRebalance"


def test_a_join_lost_on_the_way_back_is_answered_again_while_the_group_completes() -> None:
    world = World()
    leader, follower = world.joined(2)
    again = only(world.join(leader.member_id))
    assert again.generation == 1
    assert len(again.members) == 2
    assert only(world.join(follower.member_id)).members == ()
    assert world.state() == "CompletingRebalance"


def test_a_newcomer_whose_join_stays_parked_too_long_is_dropped() -> None:
    world = World(new_member_join_timeout_ms=20_000)
    member = world.stable(rebalance_ms=1_000_000)[0]
    answers = world.join(client="impatient", rebalance_ms=1_000_000)
    for _ in range(5):
        world.pass_ms(4_000)
        world.beat(member.member_id, 1)
    assert only(answers).error is ErrorCode.UNKNOWN_MEMBER_ID
