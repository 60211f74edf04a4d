"""Whatever happens to a set while it is reassigned: who is elected has every record.

And a reassignment ends once all brokers are there and get in step.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.active.next_step import Add, End, Lead, Remove, Step, next_step
from penstock.controller.commands import command as c
from penstock.controller.commands.reassignment.commands import (
    NOBODY,
    AdvanceReassignment,
    Reassign,
    SetTarget,
)
from penstock.controller.commands.replica_sets import check_size
from penstock.controller.errors import InvalidMetadataRequest
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.reassignment_records import ReassignmentChanged
from tests.controller.test_overlap import _BROKERS, SetMachine, _some

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

_STEPS_MAX = 40
_members = st.lists(st.sampled_from(_BROKERS), min_size=1, unique=True)


class ReassignedSet(SetMachine):
    """The set of the other machine, which is on its way to other members."""

    def wanted(self) -> ReassignmentChanged | None:
        return self.cluster.image.configuration.reassignments.get(ReplicaSetId(self.set_id))

    @precondition(lambda self: hasattr(self, "view"))
    @rule(members=st.none() | _members)
    def reassign(self, members: list[int] | None) -> None:
        replicas = None if members is None else tuple(map(BrokerId, members))
        target = SetTarget(replica_set_id=ReplicaSetId(self.set_id), replicas=replicas)
        self.cluster.submit(Reassign(sets=(target,)))

    @precondition(lambda self: hasattr(self, "view") and self.wanted() is not None)
    @rule(alive=_some)
    def step(self, alive: set[int]) -> None:
        """What the active controller does, as long as these are alive."""
        wanted = self.wanted()
        assert wanted is not None
        self.take(next_step(self.now, wanted, lambda one: one in alive), wanted)

    def take(self, step: Step | None, wanted: ReassignmentChanged) -> None:
        before = self.now
        match step:
            case Add(broker_id):
                self.advance(wanted, added=broker_id)
                self.new_log(broker_id)
            case Remove(broker_id):
                stays = [one for one in wanted.target if one in before.sync_state_set]
                assert broker_id != before.master
                assert broker_id not in before.sync_state_set or len(stays) == len(wanted.target)
                self.advance(wanted, removed=broker_id)
            case Lead(broker_ids):
                self.lead(next(one for one in broker_ids if one in before.sync_state_set))
            case End():
                self.advance(wanted)
                assert self.wanted() is None
                assert self.now.replicas == wanted.target
            case None:
                pass

    def advance(
        self, wanted: ReassignmentChanged, added: BrokerId = NOBODY, removed: BrokerId = NOBODY
    ) -> None:
        """A step that was chosen is never refused."""
        self.cluster.submit(
            AdvanceReassignment(
                replica_set_id=ReplicaSetId(self.set_id),
                target=wanted.target,
                added=added,
                removed=removed,
            )
        )

    def lead(self, broker: BrokerId) -> None:
        """A transfer: the old master stops, the new one has all that it has."""
        self.copy(broker)
        before = self.now
        mastership = c.NewMastership(
            replica_set_id=ReplicaSetId(self.set_id),
            master=broker,
            leader_epoch=before.leader_epoch,
            sync_state_set_epoch=before.sync_state_set_epoch,
            cause=Cause.DRAIN,
        )
        self.cluster.submit(c.BeginMasterships(masterships=(mastership,)))
        assert self.has_all(broker)
        self.view = self.now
        self.logs[broker].append((self.now.leader_epoch, -1))

    def fits(self, wanted: ReassignmentChanged) -> bool:
        """Whether the policy, which may have changed since, allows so few members."""
        try:
            check_size(self.now.policy, len(wanted.target))
        except InvalidMetadataRequest:
            return False
        return True

    def teardown(self) -> None:
        """All are alive and get in step: it ends, if the set has a master and the policy allows."""
        if not hasattr(self, "view") or not self.is_led():
            return
        for _ in range(_STEPS_MAX):
            wanted = self.wanted()
            if wanted is None or not self.fits(wanted):
                return
            self.view = self.now
            for one in self.now.replicas:
                self.copy(one)
            self.confirm()
            self.change_sync_state_set(set(self.now.replicas))
            self.take(next_step(self.now, wanted, lambda one: True), wanted)
        raise AssertionError(f"{self.now} does not become {self.wanted()}")


ReassignedSet.TestCase.settings = settings(max_examples=400, stateful_step_count=30, deadline=None)
TestNobodyIsElectedWhoLacksARecordWhileASetIsReassigned = ReassignedSet.TestCase
