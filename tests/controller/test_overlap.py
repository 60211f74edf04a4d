"""Whatever is changed about a set's members, policy and logs: who is elected has every record.

The machine has real commands and a real choice, and a data plane of lists: a log is a list of
(leader epoch, number). The master confirms by the view of its set that it has, which may be old.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.active.election import Ballot, Elected, choose_master
from penstock.controller.commands import command as c
from penstock.controller.commands.overlap import after_change, raised_floor
from penstock.controller.errors import RefusedCommand
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_FLOOR, NO_MASTER, ReplicaSetImage
from penstock.controller.session import SetReport
from tests.controller.cluster import Cluster
from tests.controller.joining import joining

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

_BROKERS = range(4)
_some = st.sets(st.sampled_from(_BROKERS))
_SIZE = 3
_policies = st.builds(
    lambda kind, required, minimum: AckPolicy(
        kind=kind, required=max(required, minimum), minimum=minimum
    ),
    st.sampled_from([PolicyKind.ALL, PolicyKind.ADAPTIVE, PolicyKind.K_OF_N, PolicyKind.QUORUM]),
    st.integers(1, 3),
    st.integers(1, 2),
)
Log = list[tuple[int, int]]


class SetMachine(RuleBasedStateMachine):
    """One replica set."""

    @initialize(policy=_policies)
    def begin(self, policy: AckPolicy) -> None:
        self.cluster = Cluster(sets=tuple((one,) for one in _BROKERS))
        members = tuple(range(_SIZE))
        self.set_id = self.cluster.submit(
            c.CreateReplicaSet(
                replica_set_id=ReplicaSetId(-1), replicas=as_brokers(*members), policy=policy
            )
        )
        self.logs: dict[int, Log] = {}
        self.log_count = 0
        self.confirmed: Log = []
        for member in members:
            self.new_log(member)
        self.elect(list(members))

    @property
    def now(self) -> ReplicaSetImage:
        return self.cluster.image.replica_sets[ReplicaSetId(self.set_id)]

    def new_log(self, broker: int) -> None:
        self.log_count += 1
        self.logs[broker] = []
        self.cluster.submit(
            c.RegisterReplica(
                replica_set_id=ReplicaSetId(self.set_id),
                broker_id=BrokerId(broker),
                log_id=f"log-{self.log_count}",
            )
        )

    def try_submit(self, command: c.Command[Any]) -> bool:
        try:
            self.cluster.submit(command)
        except RefusedCommand:
            return False
        return True

    def has_all(self, broker: int) -> bool:
        return self.logs[broker][: len(self.confirmed)] == self.confirmed

    def is_led(self) -> bool:
        return hasattr(self, "view") and self.now.master != NO_MASTER

    def copy(self, broker: int) -> None:
        """A slave cuts what the master has not, then takes all of its log."""
        master = self.now.master
        if broker != master and broker in {*self.now.replicas, *self.view.replicas}:
            self.logs[broker] = list(self.logs[master])

    def confirm(self) -> None:
        """Confirm what the policy allows, by the master's view of its set."""
        view, source = self.view, self.logs[self.now.master]
        counted = view.replicas if view.policy.counts_replicas else view.sync_state_set
        for length in range(len(source), len(self.confirmed), -1):
            holders = [one for one in counted if self.logs[one][:length] == source[:length]]
            if len(holders) >= view.copies_needed:
                self.confirmed = source[:length]
                return

    @precondition(is_led)
    @rule(to=_some)
    def write(self, to: set[int]) -> None:
        """A record reaches some of the members, and is confirmed if they are enough."""
        log = self.logs[self.now.master]
        log.append((self.now.leader_epoch, len(log)))
        for one in sorted(to):
            self.copy(one)
        self.confirm()

    @precondition(is_led)
    @rule(to=_some)
    def catch_up(self, to: set[int]) -> None:
        for one in sorted(to):
            self.copy(one)

    @precondition(is_led)
    @rule()
    def master_looks(self) -> None:
        self.view = self.now

    @precondition(is_led)
    @rule(members=_some)
    def change_sync_state_set(self, members: set[int]) -> None:
        """The master's duty: what is confirmed satisfies the rule as it will be."""
        view = self.view
        wanted = tuple(
            sorted({view.master, *(member for member in members if member in view.replicas)})
        )
        added = [one for one in wanted if one not in view.sync_state_set]
        if not all(self.has_all(one) for one in added):
            return
        if view.policy.kind is PolicyKind.ADAPTIVE:
            needed = view.policy.copies_needed(len(view.replicas), len(wanted))
            if sum(self.has_all(one) for one in wanted) < min(needed, len(wanted)):
                return
        self.try_submit(
            c.ChangeSyncStateSet(
                replica_set_id=ReplicaSetId(self.set_id),
                master=view.master,
                leader_epoch=view.leader_epoch,
                sync_state_set_epoch=view.sync_state_set_epoch,
                sync_state_set=as_brokers(*wanted),
                joining=joining(view, self.cluster.image.brokers, wanted),
            )
        )
        self.view = self.now

    @precondition(lambda self: hasattr(self, "view"))
    @rule(policy=_policies)
    def set_policy(self, policy: AckPolicy) -> None:
        self.try_submit(c.SetAckPolicy(replica_set_id=ReplicaSetId(self.set_id), policy=policy))

    @precondition(lambda self: hasattr(self, "view"))
    @rule(broker=st.sampled_from(_BROKERS))
    def add(self, broker: int) -> None:
        if broker in self.now.replicas:
            return
        if self.try_submit(
            c.AddReplica(replica_set_id=ReplicaSetId(self.set_id), broker_id=BrokerId(broker))
        ):
            self.new_log(broker)

    @precondition(lambda self: hasattr(self, "view"))
    @rule(broker=st.sampled_from(_BROKERS))
    def remove(self, broker: int) -> None:
        self.try_submit(
            c.RemoveReplica(replica_set_id=ReplicaSetId(self.set_id), broker_id=BrokerId(broker))
        )

    @precondition(lambda self: hasattr(self, "view"))
    @rule(broker=st.sampled_from(_BROKERS))
    def lose_log(self, broker: int) -> None:
        if broker in self.now.replicas:
            self.new_log(broker)

    @precondition(lambda self: hasattr(self, "view"))
    @rule(answering=_some)
    def fail_over(self, answering: set[int]) -> None:
        """The master is gone; what the others answer decides."""
        self.elect([one for one in sorted(answering) if one != self.now.master])

    def elect(self, answering: list[int]) -> None:
        before = self.now
        reports = {
            BrokerId(one): SetReport(
                replica_set_id=ReplicaSetId(self.set_id),
                log_id=before.log_ids[BrokerId(one)],
                role="idle",
                leader_epoch=LeaderEpoch(-1),
                last_log_epoch=LeaderEpoch(self.logs[one][-1][0] if self.logs[one] else -1),
                log_start_position=0,
                log_end_position=len(self.logs[one]),
                confirm_position=0,
            )
            for one in answering
            if one in before.replicas
        }
        choice = choose_master(Ballot(replica_set=before, reports=reports))
        if not isinstance(choice, Elected):
            return
        assert self.has_all(choice.master), "a confirmed record is lost"
        mastership = c.NewMastership(
            replica_set_id=ReplicaSetId(self.set_id),
            master=BrokerId(choice.master),
            leader_epoch=before.leader_epoch,
            sync_state_set_epoch=before.sync_state_set_epoch,
            cause=Cause.RETURN,
            sync_state_set=as_brokers(*choice.sync_state_set),
        )
        self.cluster.submit(c.BeginMasterships(masterships=(mastership,)))
        self.view = self.now
        self.logs[choice.master].append((self.now.leader_epoch, -1))  # the epoch's own frame


def test_a_member_that_is_removed_takes_one_copy_with_it_and_no_more() -> None:
    # Counted twice, elections would ask for an answer more than is needed.
    before = ReplicaSetImage(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(0),
        leader_epoch=LeaderEpoch(3),
        replicas=as_brokers(0, 1, 2, 3, 4),
        sync_state_set=as_brokers(0, 1, 2, 3, 4),
        sync_state_set_epoch=SyncStateSetEpoch(7),
        policy=AckPolicy(kind=PolicyKind.QUORUM),
    )
    after = after_change(before, replicas=as_brokers(0, 1, 2, 3), lost=BrokerId(4))
    assert (after.sync_state_set, after.copies_floor) == ((0,), 2)


def test_a_floor_does_not_fall_when_fewer_are_in_step() -> None:
    # The copies stay where they are; a lower floor would have elections ask for more answers.
    alone = ReplicaSetImage(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(0),
        leader_epoch=LeaderEpoch(3),
        replicas=as_brokers(0, 1, 2, 3, 4),
        sync_state_set=as_brokers(0),
        sync_state_set_epoch=SyncStateSetEpoch(7),
        policy=AckPolicy(kind=PolicyKind.QUORUM),
        copies_floor=2,
    )
    assert raised_floor(alone) == 2
    assert raised_floor(replace(alone, sync_state_set=as_brokers(0, 1, 2))) == NO_FLOOR


SetMachine.TestCase.settings = settings(max_examples=400, stateful_step_count=30, deadline=None)
TestNobodyIsElectedWhoLacksAConfirmedRecord = SetMachine.TestCase
