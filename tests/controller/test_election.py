"""The choice of a master, against a dumb twin."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.active.election import (
    Ballot,
    Elected,
    NeedMoreAnswers,
    NoCandidate,
    answers_needed,
    choose_master,
)
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.controller.session import SetReport

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

INT64_MAX = 2**63 - 1
_ends = st.one_of(st.integers(0, 3), st.sampled_from([2**31, 2**32, INT64_MAX - 1, INT64_MAX]))
_epochs = st.one_of(st.integers(-1, 2), st.just(2**31 - 1))
_policies = st.sampled_from(
    [
        AckPolicy(),
        AckPolicy(kind=PolicyKind.ADAPTIVE, required=2),
        AckPolicy(kind=PolicyKind.K_OF_N, required=2),
        AckPolicy(kind=PolicyKind.QUORUM),
        AckPolicy(kind=PolicyKind.ASYNC),
    ]
)


def _set(
    members: tuple[int, ...] = (1, 2, 3),
    in_step: tuple[int, ...] | None = None,
    policy: AckPolicy | None = None,
) -> ReplicaSetImage:
    return ReplicaSetImage(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(-1),
        leader_epoch=LeaderEpoch(5),
        replicas=as_brokers(*members),
        sync_state_set=as_brokers(*members if in_step is None else in_step),
        sync_state_set_epoch=SyncStateSetEpoch(3),
        policy=policy or AckPolicy(),
        last_master=BrokerId(members[0]),
    )


def _report(epoch: int, end: int) -> SetReport:
    return SetReport(
        replica_set_id=ReplicaSetId(1),
        log_id="x",
        role="slave",
        leader_epoch=LeaderEpoch(5),
        last_log_epoch=LeaderEpoch(epoch),
        log_start_position=0,
        log_end_position=end,
        confirm_position=0,
    )


@st.composite
def _ballots(draw: st.DrawFn) -> Ballot:
    members = tuple(draw(st.permutations(range(1, 1 + draw(st.integers(1, 5))))))
    in_step = tuple(sorted(draw(st.sets(st.sampled_from(members)))))
    answering = draw(st.lists(st.sampled_from(members), unique=True))
    return Ballot(
        replica_set=_set(members, in_step, draw(_policies)),
        reports={BrokerId(one): _report(draw(_epochs), draw(_ends)) for one in answering},
        racks=draw(st.dictionaries(st.sampled_from(members), st.sampled_from("ab"))),
        draining=tuple(draw(st.sets(st.sampled_from(members)))),
        is_unclean=draw(st.booleans()),
    )


def _dumb_winner(ballot: Ballot) -> int | None:
    """Throw out whoever somebody else beats, one criterion after another."""
    one = ballot.replica_set
    anybody = ballot.is_unclean or one.policy.counts_replicas
    pool = [b for b in one.replicas if anybody or b in one.sync_state_set]
    left = [b for b in pool if b in ballot.reports]
    needed = 1
    if not ballot.is_unclean and one.policy.kind not in {PolicyKind.ALL, PolicyKind.ASYNC}:
        copies = one.policy.copies_needed(len(one.replicas), len(one.sync_state_set))
        needed = max(1, len(pool) - copies + 1)
    if len(left) < needed:
        return None
    logs = {b: (ballot.reports[b].last_log_epoch, ballot.reports[b].log_end_position) for b in left}
    left = [b for b in left if not any(logs[other] > logs[b] for other in left)]
    left = [b for b in left if b not in ballot.draining] or left
    if one.replicas[0] in left:
        return one.replicas[0]
    old = ballot.racks.get(one.last_master)
    left = [b for b in left if old is not None and ballot.racks.get(b) == old] or left
    return next(b for b in one.replicas if b in left)


@settings(max_examples=500, deadline=None)
@given(_ballots())
def test_the_choice_is_that_of_the_dumb_twin(ballot: Ballot) -> None:
    choice = choose_master(ballot)
    winner = _dumb_winner(ballot)
    if winner is None:
        assert isinstance(choice, NoCandidate)
        return
    assert isinstance(choice, Elected)
    assert choice.master == winner
    assert winner in choice.sync_state_set
    assert set(choice.sync_state_set) <= ballot.reports.keys()


@settings(max_examples=300, deadline=None)
@given(_ballots(), st.randoms())
def test_the_order_of_answers_does_not_matter(ballot: Ballot, random: object) -> None:
    items = list(ballot.reports.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert choose_master(replace(ballot, reports=dict(items))) == choose_master(ballot)


def test_ends_that_differ_by_more_than_32_bits_elect_the_longer_log() -> None:
    # RocketMQ #10578: the difference, cut to 32 bits, is zero or has the wrong sign.
    for short, long in [(0, 2**32), (1, 2**31 + 1), (0, INT64_MAX), (2**32 - 1, 2**33)]:
        ballot = Ballot(
            replica_set=_set(),
            reports={BrokerId(1): _report(4, short), BrokerId(2): _report(4, long)},
        )
        choice = choose_master(ballot)
        assert isinstance(choice, Elected)
        assert choice.master == 2


def test_a_later_epoch_beats_a_longer_log() -> None:
    ballot = Ballot(
        replica_set=_set(), reports={BrokerId(1): _report(3, 900), BrokerId(2): _report(4, 10)}
    )
    assert choose_master(ballot) == Elected(master=BrokerId(2), sync_state_set=as_brokers(1, 2))


def test_as_long_as_a_candidate_may_still_answer_nobody_is_chosen() -> None:
    ballot = Ballot(
        replica_set=_set(), reports={BrokerId(1): _report(4, 10)}, waiting=as_brokers(3)
    )
    assert choose_master(ballot) == NeedMoreAnswers()
    outsider = replace(ballot, replica_set=_set(in_step=(1, 2)))
    assert choose_master(outsider) == Elected(master=BrokerId(1), sync_state_set=as_brokers(1))


def test_two_of_three_needs_two_answers_and_keeps_whoever_has_the_same_log() -> None:
    one = _set(policy=AckPolicy(kind=PolicyKind.K_OF_N, required=2))
    assert answers_needed(one) == 2
    alone = Ballot(replica_set=one, reports={BrokerId(2): _report(4, 10)})
    assert isinstance(choose_master(alone), NoCandidate)
    both = replace(alone, reports={BrokerId(2): _report(4, 10), BrokerId(3): _report(4, 10)})
    assert choose_master(both) == Elected(master=BrokerId(2), sync_state_set=as_brokers(2, 3))
    unequal = replace(alone, reports={BrokerId(2): _report(4, 10), BrokerId(3): _report(4, 11)})
    assert choose_master(unequal) == Elected(master=BrokerId(3), sync_state_set=as_brokers(3))


def test_an_operators_choice_wins_only_where_nothing_can_be_lost() -> None:
    reports = {BrokerId(1): _report(4, 10), BrokerId(2): _report(4, 9)}
    named = Ballot(replica_set=_set(), reports=reports, wanted=BrokerId(2))
    assert choose_master(named) == Elected(master=BrokerId(2), sync_state_set=as_brokers(1, 2))
    absent = replace(named, wanted=BrokerId(3))
    assert isinstance(choose_master(absent), NoCandidate)
    counted = replace(named, replica_set=_set(policy=AckPolicy(kind=PolicyKind.QUORUM)))
    assert isinstance(choose_master(counted), NoCandidate)


def test_after_the_only_copy_may_have_been_lost_nobody_is_elected_cleanly() -> None:
    one = replace(_set(policy=AckPolicy(kind=PolicyKind.K_OF_N, required=1)), copies_floor=0)
    reports = {key: _report(4, 10) for key in as_brokers(1, 2, 3)}
    choice = choose_master(Ballot(replica_set=one, reports=reports))
    assert isinstance(choice, NoCandidate)
    assert "lost log" in choice.reason
    unclean = choose_master(Ballot(replica_set=one, reports=reports, is_unclean=True))
    assert unclean == Elected(master=BrokerId(1), sync_state_set=as_brokers(1))


def test_a_part_of_a_log_is_no_answer_where_members_out_of_step_are_elected() -> None:
    # It ends where the longest log ends, and its member is the preferred one.
    part = replace(_report(4, 10), whole_from=7)
    counted = AckPolicy(kind=PolicyKind.QUORUM)
    one = Ballot(
        replica_set=_set(in_step=(2, 3), policy=counted),
        reports={BrokerId(1): part, BrokerId(3): _report(4, 10)},
    )
    assert isinstance(choose_master(one), NoCandidate), "what only broker 2 has may be confirmed"
    all_three = replace(one, reports={**one.reports, BrokerId(2): _report(4, 10)})
    assert choose_master(all_three) == Elected(master=BrokerId(2), sync_state_set=as_brokers(2, 3))
    judged = replace(one, replica_set=_set(in_step=(1, 2), policy=counted))
    assert choose_master(judged) == Elected(master=BrokerId(1), sync_state_set=as_brokers(1, 3))
    unclean = replace(one, is_unclean=True, reports={BrokerId(1): part})
    assert choose_master(unclean) == Elected(master=BrokerId(1), sync_state_set=as_brokers(1))
