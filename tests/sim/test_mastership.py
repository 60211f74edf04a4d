"""The model of a mastership: each rule tells a hand-made history that breaks it, and no other."""

from dataclasses import replace

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
)
from penstock.controller.metadata.image import BrokerImage, ReplicaSetImage
from simulator.checks.masters.mastership import (
    OPEN_MAX,
    Asked,
    Log,
    Mastership,
    Times,
    answers_needed,
    copies_needed,
)

TIMES = Times(lease_ms=600, lag_ms=1_000, grace_ms=100, first_grace_ms=400, slack_ms=150)
LOG = Log(kept_from=0, end=1_000, durable=1_000, confirmed=700, epoch_start=500)
BROKERS = {
    broker: BrokerImage(
        broker_id=broker,
        host="",
        port=0,
        rack=None,
        incarnation=f"process-{broker}",
        broker_epoch=BrokerEpoch(broker),
    )
    for broker in as_brokers(1, 2, 3)
}
ADAPTIVE = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2)
QUORUM = AckPolicy(kind=PolicyKind.QUORUM)


def recorded(*in_step: int, policy: AckPolicy | None = None, epoch: int = 1) -> ReplicaSetImage:
    return ReplicaSetImage(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(1),
        leader_epoch=LeaderEpoch(4),
        replicas=as_brokers(1, 2, 3),
        sync_state_set=as_brokers(*in_step),
        sync_state_set_epoch=SyncStateSetEpoch(epoch),
        policy=policy or AckPolicy(),
        replica_ids={
            BrokerId(1): ReplicaId(11),
            BrokerId(2): ReplicaId(12),
            BrokerId(3): ReplicaId(13),
        },
    )


ALL = recorded(1, 2, 3)


def mastership(**held: int) -> Mastership:
    """A mastership that slaves follow since time 0: `s2=700` holds so much."""
    made = Mastership(own_id=1, leader_epoch=4, times=TIMES, began_ms=0, known=500)
    for name, position in held.items():
        broker_id = int(name[1:])
        made.greeted(broker_id, 10 + broker_id, f"process-{broker_id}", 0)
        made.begun(broker_id, position, 0)
    return made


def confirmed(
    made: Mastership, position: int, one: ReplicaSetImage = ALL, now_ms: int = 1
) -> list[str]:
    return list(made.wrong_confirmed(one, replace_log(confirmed=position), now_ms))


def replace_log(**changed: int) -> Log:
    return LOG._replace(**changed)


def ask(
    made: Mastership,
    *members: int,
    one: ReplicaSetImage = ALL,
    log: Log = LOG,
    now_ms: int = 1,
    brokers: dict[BrokerId, BrokerImage] = BROKERS,
) -> list[str]:
    joining = tuple((who, 10 + who, who) for who in members if who not in one.sync_state_set)
    change = Asked(4, one.sync_state_set_epoch, members, joining)
    return list(made.wrong_change(one, brokers, change, log, now_ms))


# --- how far it may confirm --------------------------------------------------------------------


def test_under_all_the_slowest_member_in_step_says_how_far() -> None:
    assert confirmed(mastership(s2=900, s3=700), 700) == []
    (told,) = confirmed(mastership(s2=900, s3=700), 701)
    assert told.startswith("confirms up to 701, and enough members of ((1, 2, 3),) hold 700")


def test_copies_of_who_is_not_in_step_count_under_a_quorum_alone() -> None:
    made = mastership(s2=900)
    assert confirmed(made, 900, recorded(1, policy=QUORUM)) == []
    made = mastership(s2=900)
    (told,) = confirmed(made, 901, recorded(1, policy=QUORUM))
    assert "hold 900" in told


def test_what_lies_below_the_own_mastership_is_not_confirmed_by_counting() -> None:
    made = mastership(s2=500, s3=500)
    made.known = 300
    assert confirmed(made, 300) == []
    (told,) = confirmed(made, 500)
    assert told.endswith("in a mastership from 500 on")


def test_a_set_that_may_be_recorded_counts_as_well_until_another_epoch() -> None:
    made = mastership(s2=900, s3=600)
    one = recorded(1, 2)
    made.follow(one)
    made.under_way[1, 2, 3] += 1
    assert confirmed(made, 601, one) != []
    assert confirmed(made, 601, recorded(1, 2, epoch=2)) == []


def test_what_was_held_before_another_handshake_or_by_another_log_counts_no_more() -> None:
    made = mastership(s2=900, s3=900)
    made.greeted(3, 13, "process-3", 0)
    assert confirmed(made, 700) != []
    made = mastership(s2=900, s3=900)
    assert (
        confirmed(
            made,
            700,
            replace(
                ALL,
                replica_ids={
                    BrokerId(1): ReplicaId(11),
                    BrokerId(2): ReplicaId(12),
                    BrokerId(3): ReplicaId(99),
                },
            ),
        )
        != []
    )


def test_what_a_slave_held_counts_when_it_is_gone() -> None:
    made = mastership(s2=900, s3=900)
    made.gone(3, 1)
    assert confirmed(made, 900) == []


def test_who_is_alone_confirms_what_it_has_synced() -> None:
    assert confirmed(mastership(), 1_000, recorded(1)) == []
    assert confirmed(mastership(), 1_001, recorded(1)) != []
    assert confirmed(mastership(), 600, recorded(1, policy=QUORUM)) != []


def test_policies_that_may_elect_without_the_master_need_a_lease_to_confirm() -> None:
    one = recorded(1, 2, 3, policy=ADAPTIVE)
    made = mastership(s2=900, s3=700)
    assert confirmed(made, 900, one, now_ms=599) == []
    (told,) = confirmed(made, 900, one, now_ms=600)
    assert told == "confirms up to 900 without a lease, under adaptive"


# --- the lease ---------------------------------------------------------------------------------


def test_the_lease_begins_not_held_and_a_controller_gives_it_for_its_time() -> None:
    made = mastership()
    assert not made.has_lease(ALL, 0, is_paused=False)
    made.controller_answered(ALL, 10, sent_ms=10, is_caught_up=False, is_paused=False)
    assert not made.has_lease(ALL, 10, is_paused=False)
    made.controller_answered(ALL, 10, sent_ms=10, is_caught_up=True, is_paused=False)
    made.controller_answered(ALL, 20, sent_ms=20, is_caught_up=False, is_paused=False)
    assert made.has_lease(ALL, 619, is_paused=False)
    assert not made.has_lease(ALL, 620, is_paused=False)


def test_controllers_keep_no_lease_while_the_set_is_handed_over() -> None:
    made = mastership()
    made.controller_answered(ALL, 10, sent_ms=10, is_caught_up=True, is_paused=False)
    assert not made.has_lease(ALL, 11, is_paused=True)


@pytest.mark.parametrize(
    ("policy", "is_held"), [(AckPolicy(), False), (QUORUM, True), (ADAPTIVE, True)]
)
def test_members_keep_it_where_the_others_are_too_few_to_elect(
    policy: AckPolicy, is_held: bool
) -> None:
    made = mastership(s2=900)
    assert made.has_lease(recorded(1, 2, 3, policy=policy), 1, is_paused=False) is is_held
    made.gone(2, 1)
    assert not made.has_lease(recorded(1, 2, 3, policy=policy), 1, is_paused=False)


def test_each_set_that_may_be_recorded_must_be_unable_to_elect_without_it() -> None:
    made, one = mastership(), recorded(1)
    assert made.has_lease(one, 1, is_paused=False)
    made.under_way[1, 2] += 1
    assert not made.has_lease(one, 1, is_paused=False)


@pytest.mark.parametrize(
    ("policy", "in_step", "copies", "answers"),
    [
        (AckPolicy(), 3, 3, 1),
        (ADAPTIVE, 3, 2, 2),
        (ADAPTIVE, 1, 1, 1),
        (AckPolicy(kind=PolicyKind.K_OF_N, required=2), 3, 2, 2),
        (QUORUM, 3, 2, 2),
        (AckPolicy(kind=PolicyKind.ASYNC), 3, 1, 1),
    ],
)
def test_copies_and_answers_overlap(
    policy: AckPolicy, in_step: int, copies: int, answers: int
) -> None:
    assert copies_needed(policy, 3, in_step) == copies
    assert answers_needed(policy, 3, in_step) == answers


# --- the sets that it goes by ------------------------------------------------------------------


def test_it_goes_by_what_is_recorded_and_by_all_that_may_be() -> None:
    made, one = mastership(), recorded(1, 2)
    made.follow(one)
    made.asked.add((1, 2, 3))
    made.under_way[1, 2, 3] += 1
    assert list(made.wrong_sets(one, (1, 2), ((1, 2, 3),))) == []
    (told,) = made.wrong_sets(one, (1, 2), ())
    assert told == "does not go by (1, 2, 3), which may have been recorded"
    assert made.wrong_recorded(one, (1, 2)) == ""
    told = made.wrong_recorded(one, (1, 2, 3))
    assert told == "goes by the set (1, 2, 3), and (1, 2) is recorded"
    (told,) = made.wrong_sets(one, (1, 2), ((1, 2, 3), (1,)))
    assert told == "goes by (1,), which was not asked for since epoch 1"
    (told,) = made.wrong_sets(recorded(1, 2, epoch=2), (1, 2), ((1, 2, 3),))
    assert told.endswith("not asked for since epoch 2")


# --- whom it may ask for -----------------------------------------------------------------------


def test_who_holds_everything_joins() -> None:
    assert ask(mastership(s2=900, s3=900), 1, 2, 3, one=recorded(1, 2)) == []


@pytest.mark.parametrize(
    ("held", "log", "told"),
    [
        (699, LOG, "which holds 699 of 700 that are confirmed"),
        (500, replace_log(confirmed=500), "which holds 500, and the mastership begins at 500"),
        (900, replace_log(kept_from=-1), "which may lack what lies below 0, and -1 on is kept"),
    ],
)
def test_who_lacks_something_does_not_join(held: int, log: Log, told: str) -> None:
    wrong = ask(mastership(s2=900, s3=held), 1, 2, 3, one=recorded(1, 2), log=log)
    assert wrong == [f"asks for 3 to join, {told}"]


def test_who_is_gone_or_drained_does_not_join() -> None:
    made, one = mastership(s2=900, s3=900), recorded(1, 2)
    drained = {**BROKERS, BrokerId(3): replace(BROKERS[BrokerId(3)], is_draining=True)}
    (told,) = ask(made, 1, 2, 3, one=one, brokers=drained)
    assert told.endswith("and it is fenced, or being drained")
    made.gone(3, 1)
    (told,) = ask(made, 1, 2, 3, one=one)
    assert told.endswith("and it does not follow")


def test_logs_and_processes_join_and_not_brokers() -> None:
    made, one = mastership(s2=900, s3=900), recorded(1, 2)
    other = {
        **BROKERS,
        BrokerId(3): replace(
            BROKERS[BrokerId(3)], incarnation="later", broker_epoch=BrokerEpoch(9)
        ),
    }
    told = ask(made, 1, 2, 3, one=one, brokers=other)
    assert told[0].endswith("whose process process-3 is not the registered one")
    assert told[1].endswith("by the log and process (13, 3)")
    other_log = replace(
        one,
        replica_ids={
            BrokerId(1): ReplicaId(11),
            BrokerId(2): ReplicaId(12),
            BrokerId(3): ReplicaId(99),
        },
    )
    told = ask(made, 1, 2, 3, one=other_log)
    assert told[0].endswith("with log 13, and 99 is registered")


def test_who_is_dead_gone_or_cut_does_not_stay() -> None:
    fenced = {**BROKERS, BrokerId(3): replace(BROKERS[BrokerId(3)], is_fenced=True)}
    made = mastership(s2=900, s3=900)
    assert ask(made, 1, 2, 3, brokers=fenced) == ["asks for 3 to stay, and it is fenced"]
    made.gone(3, 10)
    assert ask(made, 1, 2, 3, now_ms=200) == []
    assert ask(made, 1, 2, 3, now_ms=260) == ["asks for 3 to stay, and it is gone for 250 ms"]
    made = mastership(s2=900, s3=699)
    (told,) = ask(made, 1, 2, 3)
    assert told.endswith("it holds 699 of 700 that are confirmed")


def test_who_never_came_has_longer_and_goes_then() -> None:
    made = mastership(s2=900)
    assert ask(made, 1, 2, 3, now_ms=500) == []
    assert ask(made, 1, 2, 3, now_ms=600) == ["asks for 3 to stay, and it is gone for 600 ms"]


def test_who_falls_behind_for_long_does_not_stay() -> None:
    made = mastership(s2=2_000, s3=900)
    for now_ms in range(0, 1_400, 100):
        made.acknowledged(3, 900 + now_ms // 10, now_ms)
        made.sees(ALL, replace_log(end=900 + now_ms), now_ms)
    told = ask(made, 1, 2, 3, log=replace_log(end=2_300), now_ms=1_400)
    assert told == ["asks for 3 to stay, and it is behind for 1300 ms"]
    made.acknowledged(3, 1_400, 1_400)
    assert ask(made, 1, 2, 3, log=replace_log(end=2_300), now_ms=1_400) == []


def test_who_follows_and_holds_everything_does_not_leave() -> None:
    assert ask(mastership(s2=1_000, s3=999), 1, 2) == []
    assert ask(mastership(s2=1_000, s3=1_000), 1, 2) == [
        "asks for 3 to leave, which follows and holds everything"
    ]


def test_with_many_sets_under_way_only_the_recorded_one_is_asked_for() -> None:
    made = mastership(s2=900)
    made.follow(ALL)
    made.asked |= {(1, number) for number in range(OPEN_MAX)}
    assert ask(made, 1, 2, 3, now_ms=5_000) == []


def test_a_set_under_adaptive_shrinks_to_members_that_elections_can_rely_on() -> None:
    one = recorded(1, 2, 3, policy=ADAPTIVE)
    assert ask(mastership(s2=700, s3=0), 1, 2, one=one) == []
    (told,) = ask(mastership(s2=699, s3=0), 1, 2, one=one)
    assert told == "asks for (1, 2) alone, of which [2] lack confirmed records"


def test_a_change_names_the_present_epochs_and_the_master_itself() -> None:
    made = mastership(s2=900, s3=900)
    told = list(made.wrong_change(ALL, BROKERS, Asked(3, 1, (1, 2, 3)), LOG, 1))
    assert told == ["asks in epochs 3, 1"]
    told = list(made.wrong_change(ALL, BROKERS, Asked(4, 1, (2, 3)), LOG, 1))
    assert told == ["asks for a set without itself"]
