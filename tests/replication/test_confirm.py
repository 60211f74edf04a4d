import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, Position
from penstock.base.invariant import InvariantViolation
from penstock.replication.confirm import ConfirmTracker, Membership

A, B, C, D = 1, 2, 3, 4
QUORUM = AckPolicy(kind=PolicyKind.QUORUM)
TWO = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
ADAPTIVE = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2, minimum=1)


def in_step(*members: int, policy: AckPolicy | None = None, replicas: int = 0) -> Membership:
    every = members if not replicas else tuple(range(1, replicas + 1))
    return Membership(
        replicas=as_brokers(*every), committed=as_brokers(*members), policy=policy or AckPolicy()
    )


def changing(old: tuple[int, ...], new: tuple[int, ...], policy: AckPolicy) -> Membership:
    return Membership(
        replicas=as_brokers(A, B, C, D),
        committed=as_brokers(*old),
        proposed=(as_brokers(*new),),
        policy=policy,
    )


def tracker_of(membership: Membership, **acknowledged: int) -> ConfirmTracker:
    tracker = ConfirmTracker(membership, Position(0))
    for name, position in acknowledged.items():
        tracker.acknowledge(BrokerId("abcd".index(name) + 1), Position(position))
    return tracker


def test_confirm_position_of_a_lone_master_is_its_own_durable_end() -> None:
    assert tracker_of(in_step(A), a=100).position == 100


def test_confirm_position_waits_for_the_slowest_member() -> None:
    assert tracker_of(in_step(A, B), a=100).position == 0
    assert tracker_of(in_step(A, B), a=100, b=40).position == 40


def test_a_member_that_is_added_holds_the_confirm_position_and_never_lowers_it() -> None:
    tracker = tracker_of(in_step(A), a=100)
    assert not tracker.change_members(changing((A,), (A, B), AckPolicy()))
    assert not tracker.acknowledge(BrokerId(A), Position(200))
    assert tracker.position == 100


def test_a_member_that_leaves_counts_until_its_removal_is_recorded() -> None:
    tracker = tracker_of(in_step(A, B), a=100)
    assert not tracker.change_members(changing((A, B), (A,), AckPolicy()))
    assert tracker.change_members(in_step(A))
    assert tracker.position == 100


def test_an_acknowledgement_that_goes_back_is_an_invariant_violation() -> None:
    tracker = tracker_of(in_step(A), a=100)
    with pytest.raises(InvariantViolation):
        tracker.acknowledge(BrokerId(A), Position(99))


def test_a_member_that_shakes_hands_anew_may_say_less_than_before() -> None:
    tracker = tracker_of(in_step(A, B), a=100, b=100)
    tracker.forget(BrokerId(B))
    tracker.acknowledge(BrokerId(B), Position(60))
    tracker.acknowledge(BrokerId(A), Position(200))
    assert tracker.position == 100


def test_two_of_three_confirm_with_either_slave() -> None:
    assert tracker_of(in_step(A, B, C, policy=TWO), a=100, c=70).position == 70
    assert tracker_of(in_step(A, policy=TWO, replicas=3), a=100, b=70).position == 70
    assert tracker_of(in_step(A, policy=TWO, replicas=3), a=100).position == 0


def test_a_majority_of_five_is_three() -> None:
    five = in_step(A, policy=QUORUM, replicas=5)
    assert tracker_of(five, a=100, b=80).position == 0
    assert tracker_of(five, a=100, b=80, c=30).position == 30


def test_adaptive_waits_for_fewer_as_the_set_shrinks_and_for_more_again_after() -> None:
    tracker = tracker_of(in_step(A, B, C, policy=ADAPTIVE), a=100, b=50)
    assert tracker.position == 50
    assert tracker.change_members(in_step(A, policy=ADAPTIVE))
    assert tracker.position == 100
    tracker.change_members(in_step(A, B, policy=ADAPTIVE))
    assert not tracker.acknowledge(BrokerId(A), Position(200))


def test_while_a_set_may_have_shrunk_both_sets_must_hold_a_position_under_adaptive() -> None:
    # {A,B} would do for the old set, but an election among {A,C} would then lose the record.
    tracker = tracker_of(changing((A, B, C), (A, C), ADAPTIVE), a=100, b=100, c=40)
    assert tracker.position == 40


def test_bytes_of_older_masterships_are_confirmed_with_the_start_of_the_own_one() -> None:
    # Raft 5.4.2: enough copies of an old mastership's bytes prove nothing.
    tracker = ConfirmTracker(in_step(A, B), Position(50), epoch_start=Position(100))
    tracker.acknowledge(BrokerId(A), Position(160))
    assert not tracker.acknowledge(BrokerId(B), Position(100))
    assert tracker.position == 50
    assert tracker.acknowledge(BrokerId(B), Position(160))
    assert tracker.position == 160


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 1000))))
def test_confirm_position_equals_the_running_minimum_of_a_dumb_twin(
    reports: list[tuple[int, int]],
) -> None:
    tracker = ConfirmTracker(in_step(A, B, C), Position(0))
    durable = {A: 0, B: 0, C: 0}
    for member, step in reports:
        durable[member] += step
        tracker.acknowledge(BrokerId(member), Position(durable[member]))
        assert tracker.position == min(durable.values())


policies = st.one_of(
    st.just(AckPolicy()),
    st.just(QUORUM),
    st.builds(AckPolicy, kind=st.just(PolicyKind.K_OF_N), required=st.integers(1, 4)),
    st.integers(1, 4).flatmap(
        lambda required: st.builds(
            AckPolicy,
            kind=st.just(PolicyKind.ADAPTIVE),
            required=st.just(required),
            minimum=st.integers(1, required),
        )
    ),
)
members = st.sets(st.sampled_from([B, C, D])).map(lambda some: tuple(sorted({A, *some})))


@given(policies, members, members, st.tuples(*[st.integers(0, 9)] * 4))
def test_every_election_that_may_go_by_either_set_finds_what_was_confirmed(
    policy: AckPolicy, old: tuple[int, ...], new: tuple[int, ...], held: tuple[int, ...]
) -> None:
    membership = changing(old, new, policy)
    tracker = tracker_of(membership, **dict(zip("abcd", held, strict=True)))
    for in_sync in (old, new):
        voters = (A, B, C, D) if policy.counts_replicas else in_sync
        answers = min(policy.answers_needed(4, len(in_sync)), len(voters))
        for candidates in itertools.combinations(voters, answers):
            assert max(held[candidate - 1] for candidate in candidates) >= tracker.position


@pytest.mark.parametrize(
    ("kind", "required", "replicas", "is_enough"),
    [
        (PolicyKind.ALL, 2, (1, 2, 3), True),
        (PolicyKind.QUORUM, 2, (1, 2, 3), False),
        (PolicyKind.K_OF_N, 2, (1, 2, 3), False),
        (PolicyKind.QUORUM, 1, (1,), True),
    ],
)
def test_a_master_alone_in_step_is_enough_only_where_the_others_can_not_elect_without_it(
    kind: PolicyKind, required: int, replicas: tuple[int, ...], is_enough: bool
) -> None:
    policy = AckPolicy(kind=kind, required=required)
    membership = Membership(replicas=as_brokers(*replicas), committed=as_brokers(1), policy=policy)
    assert membership.is_enough(BrokerId(1)) is is_enough


def test_writes_wait_for_whoever_is_in_step_or_may_be_in_a_moment() -> None:
    assert in_step(A, B, replicas=3).waits_for(BrokerId(B), as_brokers(A))
    assert not in_step(A, B, replicas=3).waits_for(BrokerId(C), as_brokers(A))
    joining = changing((A, B), (A, B, C), AckPolicy())
    assert joining.waits_for(BrokerId(C), as_brokers(A, B))
    assert not joining.waits_for(BrokerId(D), as_brokers(A, B))


def test_where_all_replicas_count_writes_wait_for_each_until_enough_in_step_are_there() -> None:
    for policy in (QUORUM, TWO):
        some = in_step(A, B, policy=policy, replicas=3)
        assert not some.waits_for(BrokerId(C), as_brokers(A, B))
        assert some.waits_for(BrokerId(C), as_brokers(A)), "B is in step, and away"
        alone = in_step(A, policy=policy, replicas=3)
        assert alone.waits_for(BrokerId(C), as_brokers(A, B)), "B is there, and has not caught up"


def test_writes_wait_for_every_member_while_the_set_is_smaller_than_they_need() -> None:
    two = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2, minimum=2)
    assert in_step(A, policy=two, replicas=3).waits_for(BrokerId(C), as_brokers(A))
    assert not in_step(A, B, policy=two, replicas=3).waits_for(BrokerId(C), as_brokers(A, B))
    assert not in_step(A, policy=ADAPTIVE, replicas=3).waits_for(BrokerId(C), as_brokers(A))


def test_it_is_told_once_that_the_confirm_position_moved() -> None:
    tracker = tracker_of(in_step(A, B), a=100)
    assert tracker.acknowledge(BrokerId(B), Position(40))
    assert not tracker.acknowledge(BrokerId(B), Position(40))
    assert not tracker.change_members(in_step(A, B))


def test_the_sets_that_count_are_those_of_the_last_change() -> None:
    tracker = tracker_of(in_step(A, B))
    changed = changing((A, B), (A,), AckPolicy())
    tracker.change_members(changed)
    assert tracker.membership is changed
