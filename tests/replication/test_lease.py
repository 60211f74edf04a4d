from dataclasses import replace

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId
from penstock.replication.confirm import Membership
from penstock.replication.lease import Lease

A, B, C = 1, 2, 3
LEASE_MS = 1000


def members(kind: PolicyKind, *committed: int, required: int = 2) -> Membership:
    policy = AckPolicy(kind=kind, required=required)
    return Membership(
        replicas=as_brokers(A, B, C), committed=as_brokers(*committed or (A, B, C)), policy=policy
    )


def lease(*, is_wanted: bool = True) -> Lease:
    return Lease(BrokerId(A), lease_ms=LEASE_MS, is_wanted=is_wanted)


def test_a_new_mastership_holds_no_lease_before_somebody_has_answered() -> None:
    new = lease()
    assert not new.is_held(members(PolicyKind.K_OF_N), 0)
    assert not new.covers_reads(members(PolicyKind.ALL), 0)
    assert new.losses == 0
    new.note_controller(1)
    assert new.is_held(members(PolicyKind.K_OF_N), 1)
    assert new.covers_reads(members(PolicyKind.ALL), 1)


def test_who_is_alone_in_step_reads_at_once_though_every_controller_died_after_its_election() -> (
    None
):
    for kind in (PolicyKind.ALL, PolicyKind.ADAPTIVE, PolicyKind.ASYNC):
        assert lease().covers_reads(members(kind, A, required=1), 0)
        assert lease().is_held(members(kind, A, required=1), 0)


def test_members_alone_give_a_new_mastership_its_lease_with_every_controller_dead() -> None:
    for kind in (PolicyKind.ALL, PolicyKind.QUORUM, PolicyKind.K_OF_N):
        new = lease()
        assert not new.covers_reads(members(kind, A, B), 0)
        new.note_member(BrokerId(B), 1)
        assert new.covers_reads(members(kind, A, B), 1)


def test_an_answer_holds_the_lease_for_its_length_and_no_longer() -> None:
    held = lease()
    held.note_controller(0)
    two_of_three = members(PolicyKind.K_OF_N)
    assert held.is_held(two_of_three, LEASE_MS - 1)
    assert not held.is_held(two_of_three, LEASE_MS)


def test_a_controllers_answer_keeps_it() -> None:
    held = lease()
    held.note_controller(900)
    assert held.is_held(members(PolicyKind.ASYNC), 1899)
    assert not held.is_held(members(PolicyKind.ASYNC), 1900)


def test_so_many_members_keep_it_that_the_others_can_elect_nobody() -> None:
    # Two of three: an election asks two, so one answering slave is enough.
    held = lease()
    held.note_member(BrokerId(B), 1500)
    assert held.is_held(members(PolicyKind.K_OF_N), 2000)
    assert not held.is_held(members(PolicyKind.ASYNC), 2000)
    held.note_member(BrokerId(C), 1500)
    assert held.is_held(members(PolicyKind.ASYNC), 2000)


def test_with_the_whole_set_asked_or_nobody_else_in_it_none_is_needed() -> None:
    assert lease().is_held(members(PolicyKind.ALL), 10 * LEASE_MS)
    assert lease().is_held(members(PolicyKind.ADAPTIVE, A), 10 * LEASE_MS)
    assert not lease().is_held(members(PolicyKind.K_OF_N, A), 10 * LEASE_MS)


def test_switched_off_it_is_always_held() -> None:
    assert lease(is_wanted=False).is_held(members(PolicyKind.ASYNC), 10 * LEASE_MS)


def test_losses_are_counted_once_each() -> None:
    held = lease()
    held.note_controller(0)
    for now_ms in (500, 1500, 2500):
        held.is_held(members(PolicyKind.ASYNC), now_ms)
    assert held.losses == 1
    held.note_controller(2600)
    assert held.is_held(members(PolicyKind.ASYNC), 2700)
    held.is_held(members(PolicyKind.ASYNC), 9000)
    assert held.losses == 2


def test_reads_need_it_under_every_policy_unless_nobody_else_is_there() -> None:
    held = lease()
    held.note_controller(0)
    assert held.covers_reads(members(PolicyKind.ALL), LEASE_MS - 1)
    assert not held.covers_reads(members(PolicyKind.ALL), LEASE_MS)
    assert held.covers_reads(members(PolicyKind.ALL, A), 10 * LEASE_MS)
    held.note_member(BrokerId(B), 1500)
    assert not held.covers_reads(members(PolicyKind.ALL), 2000), "C may have been elected"
    held.note_member(BrokerId(C), 1500)
    assert held.covers_reads(members(PolicyKind.ALL), 2000)
    assert lease(is_wanted=False).covers_reads(members(PolicyKind.ALL), 10 * LEASE_MS)


def test_while_a_mastership_is_handed_over_only_members_keep_reads() -> None:
    """The controllers answer whoever lives, and may have made another one master meanwhile."""
    held = lease()
    held.note_controller(1500)
    everybody = members(PolicyKind.ALL)
    assert held.covers_reads(everybody, 1600)
    assert not held.covers_reads(everybody, 1600, is_handing_over=True)
    for member in (B, C):
        held.note_member(BrokerId(member), 1500)
    assert held.covers_reads(everybody, 1600, is_handing_over=True)
    assert lease(is_wanted=False).covers_reads(everybody, 1600, is_handing_over=True)


def test_who_is_alone_until_a_change_has_its_answer_reads_by_lease_only() -> None:
    # Whom the change lets in may be in step by now, and elected.
    for kind in (PolicyKind.ALL, PolicyKind.ASYNC):
        asking = replace(members(kind, A, required=1), proposed=(as_brokers(A, B),))
        assert not lease().covers_reads(asking, 0)


def test_while_a_change_has_no_answer_each_set_that_may_be_recorded_must_need_the_master() -> None:
    # Of A and B, B alone may be elected: that C, who is asked for, has answered says nothing of it.
    asking = replace(members(PolicyKind.ADAPTIVE, A, B), proposed=(as_brokers(A, B, C),))
    new = lease()
    new.note_member(BrokerId(C), 1)
    assert not new.covers_reads(asking, 1)
    assert not new.is_held(asking, 1)
    new.note_member(BrokerId(B), 1)
    assert new.covers_reads(asking, 1)
    assert new.is_held(asking, 1)


def test_how_many_must_be_silent_for_an_election_goes_by_the_set_that_elects() -> None:
    # Among {A, B}, who are asked for, B alone elects itself; among {A, B, C} it could not.
    asking = replace(members(PolicyKind.ADAPTIVE, A, B, C), proposed=(as_brokers(A, B),))
    new = lease()
    new.note_member(BrokerId(C), 1)
    assert new.is_held(members(PolicyKind.ADAPTIVE, A, B, C), 1)
    assert not new.is_held(asking, 1)
    assert not new.covers_reads(asking, 1)


def test_a_member_whose_connection_ended_keeps_nothing() -> None:
    both = members(PolicyKind.QUORUM)
    held = lease()
    held.note_member(BrokerId(B), 10)
    assert held.is_held(both, 11)
    held.forget_member(BrokerId(B))
    held.forget_member(BrokerId(C))
    assert not held.is_held(both, 11)
