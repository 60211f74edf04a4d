"""Who is in step, judged at times and positions that the tests say."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.ids import as_brokers
from penstock.base import ids
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.replication.config import ReplicationConfig
from penstock.replication.confirm import ConfirmTracker
from penstock.replication.sync_state import (
    OPEN_MAX,
    Change,
    Joining,
    MasterView,
    Outcome,
    Process,
    Recorded,
    SyncStateKeeper,
)

Members = tuple[ids.BrokerId, ...]
A, B, C, D = as_brokers(1, 2, 3, 4)
CONFIG = ReplicationConfig(
    replica_lag_time_ms=1000, disconnect_grace_ms=100, dial_timeout_ms=300, change_retry_ms=50
)
ADAPTIVE = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2, minimum=1)
EPOCH, SET_EPOCH = ids.LeaderEpoch(7), ids.SyncStateSetEpoch(20)
JOINING_B = Joining(B, ids.ReplicaId(20), ids.BrokerEpoch(42))


class Set:
    """A master's keeper with a clock and a log end; three replicas unless told otherwise."""

    def __init__(
        self,
        *in_step: ids.BrokerId,
        policy: AckPolicy | None = None,
        config: ReplicationConfig = CONFIG,
        replicas: Members = (A, B, C),
    ) -> None:
        self.now = 0
        self.end = 500
        self.confirm = 500
        self.kept_from = 0
        self.epoch_start = 100
        numbers = {broker: ids.ReplicaId(10 * broker) for broker in replicas}
        in_step, policy = in_step or (A, B, C), policy or AckPolicy()
        self.recorded = Recorded(replicas, in_step, SET_EPOCH, policy, numbers)
        self.processes = {
            replica: Process(f"process of {replica}", ids.BrokerEpoch(40 + replica))
            for replica in replicas
        }
        self.keeper = SyncStateKeeper(A, self.recorded, leader_epoch=EPOCH, config=config, now_ms=0)

    def connect(self, *brokers: ids.BrokerId, position: int = 500, whole_from: int = 0) -> None:
        for broker in brokers:
            self.keeper.connected(
                broker,
                replica_id=self.recorded.replica_ids[broker],
                incarnation=self.processes[broker].incarnation,
                whole_from=ids.Position(whole_from),
                position=ids.Position(position),
                log_end=ids.Position(self.end),
                now_ms=self.now,
            )

    def next(self, after_ms: int = 0, unwanted: Members = (), dead: Members = ()) -> Members | None:
        self.now += after_ms
        ends = self.kept_from, self.end, self.confirm, self.epoch_start
        view, barred = MasterView(*map(ids.Position, ends)), {"unwanted": unwanted, "dead": dead}
        change = self.keeper.next_change(view, self.now, **barred, process_of=self.processes.get)
        self.joining = () if change is None else change.joining
        if change is None:
            return None
        assert change[:2] == (EPOCH, self.recorded.sync_state_set_epoch)
        return change.sync_state_set

    def record(self, *in_step: ids.BrokerId) -> None:
        epoch = ids.SyncStateSetEpoch(self.recorded.sync_state_set_epoch + 1)
        self.recorded = self.recorded._replace(sync_state_set=in_step, sync_state_set_epoch=epoch)
        self.keeper.recorded(self.recorded, self.now)

    def new_log(self, broker: ids.BrokerId) -> tuple[int, ...]:
        """The controllers record another log for it; returns whose acknowledgements are void."""
        epoch = ids.SyncStateSetEpoch(self.recorded.sync_state_set_epoch + 1)
        logs = {**self.recorded.replica_ids, broker: ids.ReplicaId(99)}
        in_step = tuple(one for one in self.recorded.sync_state_set if one != broker)
        self.recorded = Recorded(self.recorded.replicas, in_step, epoch, self.recorded.policy, logs)
        return self.keeper.recorded(self.recorded, self.now)

    def answer(self, outcome: Outcome) -> None:
        self.keeper.answered(outcome, self.now)


def test_a_slave_that_keeps_up_stays_however_long_the_set_is_idle() -> None:
    sets = Set()
    sets.connect(B, C)
    assert all(sets.next(900) is None for _ in range(5))


def test_a_slave_leaves_after_the_grace_when_its_connection_is_lost() -> None:
    sets = Set()
    sets.connect(B, C)
    sets.keeper.disconnected(C, sets.now)
    assert sets.next(99) is None
    assert sets.next(1) == (A, B)


def test_a_slave_that_only_tries_to_connect_gets_no_new_grace() -> None:
    sets = Set()
    sets.connect(B, C)
    sets.keeper.disconnected(C, sets.now)
    sets.now += 60
    sets.keeper.disconnected(C, sets.now)  # it has greeted, and was gone before it began
    assert sets.next(39) is None
    assert sets.next(1) == (A, B)


def test_a_slave_that_is_back_within_the_grace_stays() -> None:
    sets = Set()
    sets.connect(B, C)
    sets.keeper.disconnected(C, sets.now)
    sets.now += 60
    sets.connect(C)
    assert sets.next(500) is None


def test_a_new_master_gives_its_slaves_the_time_to_connect_once() -> None:
    sets = Set()
    sets.connect(B)
    assert sets.next(299) is None
    assert sets.next(1) == (A, B)


def test_a_connected_slave_that_does_not_catch_up_leaves_by_time() -> None:
    sets = Set()
    sets.connect(B)
    sets.connect(C)
    sets.end = 900
    judged = []
    for _ in range(10):
        sets.keeper.acknowledged(B, ids.Position(sets.end), ids.Position(sets.end), sets.now)
        judged.append(sets.next(100))
    assert judged == [None] * 9 + [(A, B)]


def test_a_slave_behind_a_fast_writer_is_in_step_while_it_holds_what_there_was_a_moment_ago() -> (
    None
):
    # It is never at the end, and yet never further behind than 100 ms (KAFKA's lastCaughtUpTimeMs).
    sets = Set(A, B, replicas=(A, B))
    sets.connect(B)
    for _ in range(50):
        behind, sets.end = sets.end, sets.end + 1000
        sets.keeper.acknowledged(B, ids.Position(behind), ids.Position(sets.end), sets.now)
        assert sets.next(100) is None


def test_a_slave_leaves_by_distance_where_one_is_set() -> None:
    config = ReplicationConfig(replica_lag_bytes=1000)
    sets = Set(A, B, config=config, replicas=(A, B))
    sets.connect(B)
    sets.end = 1500
    assert sets.next() is None
    sets.end = 1501
    assert sets.next() == (A,)


def test_a_slave_joins_at_the_confirm_position_and_not_below() -> None:
    sets = Set(A)
    sets.connect(B, position=499)
    sets.connect(C, position=500)
    assert sets.next() == (A, C)


def test_a_slave_does_not_join_before_it_holds_the_start_of_the_mastership() -> None:
    sets = Set(A)
    sets.confirm, sets.epoch_start = 200, 500
    sets.connect(B, position=500)
    assert sets.next() is None
    sets.keeper.acknowledged(B, ids.Position(560), ids.Position(560), sets.now)
    assert sets.next() == (A, B)


def test_a_slave_that_lacks_what_the_master_keeps_does_not_join() -> None:
    sets = Set(A)
    sets.connect(B, whole_from=100)
    assert sets.next() is None
    sets.kept_from = 100
    assert sets.next() == (A, B)


def test_a_broker_that_is_drained_does_not_join_and_is_not_thrown_out() -> None:
    sets = Set(A, C)
    sets.connect(B, C)
    assert sets.next(unwanted=(B, C)) is None


def test_a_broker_that_the_controllers_found_dead_leaves_at_once() -> None:
    sets = Set()
    sets.connect(B, C)
    assert sets.next(dead=(B,)) == (A, C)


def test_a_member_that_comes_back_with_less_than_is_confirmed_leaves() -> None:
    sets = Set()
    sets.connect(B)
    sets.connect(C, position=400)
    assert sets.next() == (A, B)


def test_of_a_member_that_comes_back_with_less_the_newest_handshake_counts() -> None:
    # A master that resumes hears handshakes only: no acknowledgement comes to set it right.
    sets = Set()
    sets.connect(B, C)
    sets.keeper.disconnected(C, sets.now)
    sets.connect(C, position=300)
    assert sets.keeper.slaves[C].acknowledged == 300
    assert sets.next() == (A, B)


def effective(sets: Set) -> tuple[int, ...]:
    return sets.keeper.membership.effective


def test_who_is_proposed_counts_from_the_request_on() -> None:
    # RocketMQ #5663: a write acknowledged without the member that was just being added.
    sets = Set(A)
    sets.connect(B)
    assert effective(sets) == (A,)
    sets.next()
    assert effective(sets) == (A, B)
    sets.answer(Outcome.RECORDED)
    assert effective(sets) == (A, B)


def test_a_change_without_an_answer_stays_proposed_and_is_asked_for_again() -> None:
    sets = Set(A)
    sets.connect(B)
    assert sets.next() == (A, B)
    assert sets.next(1000) is None, "one at a time"
    sets.answer(Outcome.UNKNOWN)
    assert sets.next(40) is None, "not before its pause is over"
    assert sets.next(1000) == (A, B)
    assert effective(sets) == (A, B)


def test_a_change_that_lost_its_reason_is_not_asked_for_again_and_counts_until_it_is_over() -> None:
    sets = Set(A)
    sets.connect(B)
    sets.next()
    sets.answer(Outcome.UNKNOWN)
    sets.keeper.disconnected(B, sets.now)
    assert sets.next(50) == (A,), "the set as it is, so that its new epoch ends the other change"
    assert sets.joining == ()
    assert effective(sets) == (A, B)
    sets.answer(Outcome.RECORDED)
    assert effective(sets) == (A, B), "until the image shows it"
    sets.record(A)
    assert effective(sets) == (A,)
    assert sets.next(1000) is None


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.NOT_TAKEN])
def test_what_becomes_of_a_later_attempt_says_nothing_about_an_earlier_one(
    outcome: Outcome,
) -> None:
    sets = Set(A)
    sets.connect(B)
    sets.next()
    sets.answer(Outcome.UNKNOWN)
    for _ in range(3):
        assert sets.next(1000) == (A, B)
        sets.answer(outcome)
        assert effective(sets) == (A, B)


def test_different_changes_that_may_be_recorded_count_all_at_once() -> None:
    sets = Set(A, B)
    sets.connect(B, C)
    assert sets.next() == (A, B, C)
    sets.answer(Outcome.UNKNOWN)
    assert sets.next(50, dead=(B,)) == (A, C)
    sets.answer(Outcome.UNKNOWN)
    assert sets.keeper.membership.proposed == ((A, B, C), (A, C))
    sets.keeper.disconnected(C, sets.now)
    assert sets.next(1000, dead=(B,)) == (A,)
    sets.answer(Outcome.NOT_TAKEN)
    assert sets.keeper.membership.proposed == ((A, B, C), (A, C)), "of that one it was the first"


def test_no_more_than_so_many_changes_are_open() -> None:
    replicas = (A, *range(10, 10 + OPEN_MAX + 3))
    sets = Set(A, replicas=replicas)
    asked = []
    for broker in replicas[1:]:
        sets.connect(broker)
        asked.append(sets.next(10_000))
        sets.answer(Outcome.UNKNOWN)
    assert len(sets.keeper.membership.proposed) == OPEN_MAX
    assert asked[OPEN_MAX:] == [(A,)] * 3


def test_a_change_names_the_logs_and_processes_of_those_who_join() -> None:
    sets = Set(A, C)
    sets.connect(B, C)
    assert sets.next() == (A, B, C)
    assert sets.joining == (JOINING_B,)


def test_a_member_of_which_the_controllers_know_another_process_does_not_join() -> None:
    # KIP-903: it may have lost what the process before it held, and its link may look alive.
    sets = Set(A)
    sets.connect(B)
    known = sets.processes[B]
    sets.processes[B] = Process("the next one", ids.BrokerEpoch(known.broker_epoch + 5))
    assert sets.next() is None
    sets.connect(B)
    assert sets.next() == (A, B)
    assert sets.joining == (JOINING_B._replace(broker_epoch=ids.BrokerEpoch(47)),)


def test_a_member_with_another_log_has_acknowledged_nothing() -> None:
    sets = Set(A)
    sets.connect(B)
    sets.next()
    sets.answer(Outcome.UNKNOWN)
    assert sets.new_log(B) == (B,)
    assert sets.next(1000) is None
    assert sets.keeper.slaves[B].acknowledged == -1
    assert sets.new_log(B) == (), "it has not shaken hands since"
    sets.connect(B, position=500)
    assert sets.next() == (A, B)
    assert sets.joining[0].replica_id == 99


def test_a_member_that_was_removed_and_added_again_has_acknowledged_nothing() -> None:
    sets = Set(A)
    sets.connect(B)
    known = {A: ids.ReplicaId(10), B: ids.ReplicaId(77), C: ids.ReplicaId(30)}
    sets.recorded = sets.recorded._replace(replica_ids=known)
    assert sets.keeper.recorded(sets.recorded, sets.now) == (B,)
    assert sets.next() is None
    sets.connect(B)
    del known[B]
    assert sets.keeper.recorded(sets.recorded._replace(replica_ids=known), sets.now) == (B,)


def test_a_refused_change_counts_no_more_and_is_judged_anew() -> None:
    sets = Set(A)
    sets.connect(B)
    sets.next()
    sets.answer(Outcome.REFUSED)
    assert effective(sets) == (A,)
    sets.connect(C)
    assert sets.next(50) == (A, B, C)


def test_pauses_between_refused_changes_double_up_to_a_bound() -> None:
    sets = Set(A)
    sets.connect(B)
    pauses = []
    for _ in range(7):
        pause = 0
        while sets.next(10) is None:
            pause += 10
        pauses.append(pause + 10)
        sets.answer(Outcome.REFUSED)
    assert pauses == [10, 50, 100, 200, 400, 800, 800]


def test_pauses_begin_anew_when_another_set_was_recorded() -> None:
    sets = Set(A)
    sets.connect(B)
    for _ in range(5):
        sets.next(800)
        sets.answer(Outcome.REFUSED)
    sets.record(A, C)
    sets.connect(C)
    assert sets.next(800) == (A, B, C)
    sets.answer(Outcome.REFUSED)
    assert sets.next(CONFIG.change_retry_ms - 1) is None
    assert sets.next(1) == (A, B, C)


def test_a_change_that_lost_against_another_is_over_when_the_image_shows_that() -> None:
    sets = Set(A)
    sets.connect(B)
    sets.next()
    sets.answer(Outcome.STALE)
    assert effective(sets) == (A, B)
    sets.record(A, C)
    assert effective(sets) == (A, C)


def test_the_image_may_come_before_the_answer() -> None:
    sets = Set(A)
    sets.connect(B)
    sets.next()
    sets.record(A, B)
    sets.answer(Outcome.RECORDED)
    sets.connect(C)
    assert sets.next() == (A, B, C)


def test_adaptive_drops_a_laggard_with_the_member_whose_copy_counted() -> None:
    # A and B confirmed 500, C is in step by time with 300. Without B, an election among {A, C}
    # asks one member: C could be chosen, and records 300 to 500 would be gone.
    sets = Set(A, B, C, policy=ADAPTIVE)
    sets.connect(B)
    sets.connect(C, position=300)
    sets.keeper.disconnected(B, sets.now)
    assert sets.next(100) == (A,)


def test_adaptive_keeps_a_laggard_where_enough_others_hold_what_is_confirmed() -> None:
    sets = Set(A, B, C, D, policy=ADAPTIVE, replicas=(A, B, C, D))
    sets.connect(B, C)
    sets.connect(D, position=300)
    sets.keeper.disconnected(B, sets.now)
    assert sets.next(100) == (A, C, D)


def test_change_carries_both_epochs() -> None:
    sets = Set(A)
    sets.connect(B)
    view = MasterView(*map(ids.Position, (0, 500, 500, 100)))
    change = sets.keeper.next_change(view, 0, process_of=sets.processes.get)
    assert change == Change(EPOCH, SET_EPOCH, (A, B), (JOINING_B,))


adaptive = st.builds(
    AckPolicy, kind=st.just(PolicyKind.ADAPTIVE), required=st.integers(2, 3), minimum=st.just(1)
)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), st.sampled_from([A, A, B, C, D]), st.integers(1, 3)),
        st.tuples(st.just("lose"), st.sampled_from([B, C, D]), st.just(0)),
        st.tuples(st.just("back"), st.sampled_from([B, C, D]), st.just(0)),
        st.tuples(st.just("record"), st.just(A), st.just(0)),
    ),
    min_size=3,
    max_size=30,
)


@settings(max_examples=600)
@given(st.one_of(adaptive, st.just(AckPolicy())), moves)
def test_whatever_set_is_recorded_next_its_elections_find_everything_confirmed(
    policy: AckPolicy, history: list[tuple[str, ids.BrokerId, int]]
) -> None:
    sets = Set(A, B, C, D, policy=policy, replicas=(A, B, C, D))
    sets.end = sets.confirm = sets.epoch_start = 0
    held = dict.fromkeys((A, B, C, D), 0)
    sets.connect(B, C, D, position=0)
    tracker = ConfirmTracker(sets.keeper.membership, ids.Position(0))
    asked: Members | None = None
    for kind, broker, amount in history:
        slave = sets.keeper.slaves.get(broker)
        if kind == "ack" and (slave is None or slave.is_connected):
            held[broker] = min(held[broker] + amount, held[A] if broker != A else 1 << 30)
            sets.end = held[A]
            holds, end = ids.Position(held[broker]), ids.Position(sets.end)
            sets.keeper.acknowledged(broker, holds, end, sets.now)
            tracker.acknowledge(broker, holds)
        elif kind == "lose":
            sets.keeper.disconnected(broker, sets.now)
        elif kind == "back":
            sets.connect(broker, position=held[broker])
        elif kind == "record" and asked is not None:
            sets.record(*asked)
            sets.answer(Outcome.RECORDED)
            asked = None
        sets.confirm = tracker.position
        asked = sets.next(100) or asked
        tracker.change_members(sets.keeper.membership)
        sets.confirm = tracker.position
        for in_sync in {sets.recorded.sync_state_set, asked or sets.recorded.sync_state_set}:
            answers = min(policy.answers_needed(4, len(in_sync)), len(in_sync))
            for candidates in itertools.combinations(in_sync, answers):
                assert max(held[candidate] for candidate in candidates) >= tracker.position


def test_the_sets_that_count_are_told_anew_after_every_change_and_only_then() -> None:
    one = Set(A, B, C)
    one.connect(B)
    first = one.keeper.membership
    assert one.keeper.membership is first
    assert one.next(after_ms=400) == (A, B)
    asked = one.keeper.membership
    assert (asked.committed, asked.proposed) == ((A, B, C), ((A, B),))
    assert one.keeper.membership is asked
    one.keeper.answered(Outcome.REFUSED, one.now)
    assert one.keeper.membership == first
    one.record(A, B)
    assert one.keeper.membership.committed == (A, B)
