"""Walks of masters and slaves on copies: nothing is wrong with ours, and what is shows."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, LeaderEpoch, Position, ReplicaSetId, SyncStateSetEpoch
from penstock.base.invariant import InvariantViolation
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.replica import followed_set
from penstock.replica.followed_set import FollowedSet
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.slave_session import SlaveSession
from penstock.replication.alignment import Alignment, Continue, Install, StartAnew, Stop, Truncate
from penstock.replication.confirm import ConfirmTracker, Membership
from penstock.replication.lease import Lease
from penstock.replication.promise import Promise
from penstock.replication.sync_state import SyncStateKeeper
from penstock.runtime.ha.server import ServedLink
from simulator.checks.patched import trial
from simulator.run.plan import Shape
from simulator.run.topology import hosts_of, settings_of
from simulator.trials import alignments
from simulator.trials.alignments import wrong_alignments
from simulator.trials.following import FollowingWalk
from simulator.trials.leading.walk import LeadingWalk
from simulator.trials.replicas import STEPS

pytestmark = pytest.mark.timeout(600)

WALKS = 25
CONFIG = settings_of(hosts_of(Shape())[0], Shape(), Path("unused")).replication
SET = ReplicaSetImage(
    replica_set_id=ReplicaSetId(1),
    master=BrokerId(1),
    leader_epoch=LeaderEpoch(3),
    replicas=as_brokers(1, 2, 3),
    sync_state_set=as_brokers(1, 2, 3),
    sync_state_set_epoch=SyncStateSetEpoch(4),
)


def leads() -> list[str]:
    """Return what was wrong in the first walk of a master that something was wrong with."""
    draw = Random(1)
    with trial():
        for _ in range(2 * WALKS):
            if texts := list(LeadingWalk(SET, CONFIG, draw).run(STEPS)):
                return texts
    return []


def test_nothing_is_wrong_with_what_masters_do() -> None:
    assert leads() == []


def test_a_set_of_one_member_gets_another_one_to_walk_with() -> None:
    alone = replace(SET, replicas=as_brokers(1), sync_state_set=as_brokers(1))
    with trial():
        for seed in range(20):
            assert list(LeadingWalk(alone, CONFIG, Random(seed)).run(STEPS)) == []


def _true(*_: Any, **__: Any) -> bool:
    return True


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _heard_when_read(self: MasterSet, broker_id: BrokerId, _: int) -> None:
    self.lease.note_member(broker_id, self._clock.monotonic_ms())


def _answered_without_end(self: Lease, sent_ms: int) -> None:
    self._controller_ms = sent_ms + self._lease_ms


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "told"),
    [
        (Lease, "covers_reads", _true, "without a lease"),
        (MasterSet, "heard", _heard_when_read, "without a lease"),
        (Lease, "note_controller", _answered_without_end, "without a lease"),
        (ConfirmTracker, "reachable", lambda self: max(self._acknowledged.values()), "confirms"),
        (Membership, "demands", lambda self: ((self.committed, 1),), "confirms"),
        (SyncStateKeeper, "_may_join", staticmethod(_true), "to join"),
        (SyncStateKeeper, "_stays", _true, "a set without"),
        (SyncStateKeeper, "_unregistered", lambda *_: (), "to join"),
        (Promise, "holds", lambda *_: False, "promise"),
        (ServedLink, "_why_not", _nothing, "greets"),
        (MasterSet, "can_begin", _true, "where the logs differ"),
        (SlaveSession, "acknowledge", _true, "takes that"),
        (ReplicaSetMember, "confirm_reached", _nothing, ""),
    ],
)
def test_what_a_master_forgets_shows(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, wrong: Any, told: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    texts = leads()
    assert bool(texts) is bool(told), "what is not done at all is no mistake"
    assert told in "".join(texts)


def follows() -> list[str]:
    """Return what was wrong in the first walk of a slave that something was wrong with."""
    draw = Random(1)
    with trial():
        for _ in range(4 * WALKS):
            if texts := list(FollowingWalk(CONFIG, draw).run(STEPS)):
                return texts
    return []


def test_nothing_is_wrong_with_what_slaves_do() -> None:
    assert follows() == []


@pytest.mark.parametrize(
    ("name", "wrong", "told"),
    [
        ("_is_promised", lambda _: False, "promised not to"),
        ("_acknowledge", lambda *_, **__: None, "left in peace"),
        ("_append_pending", lambda _: None, "left in peace"),
        ("_forget_session", lambda _: None, "greets anew"),
        ("_cut", lambda self, position: self._begin_when_durable(position), "begins at"),
    ],
)
def test_what_a_slave_forgets_shows(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any, told: str
) -> None:
    monkeypatch.setattr(FollowedSet, name, wrong)
    monkeypatch.setattr(followed_set, "invariant", lambda *_, **__: None)
    assert told in "".join(follows())


def test_a_slave_that_begins_below_its_end_is_stopped_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        FollowedSet, "_cut", lambda self, position: self._begin_when_durable(position)
    )
    with pytest.raises(InvariantViolation, match="runs go on at the end"):
        follows()


def aligned() -> list[str]:
    """Return what was wrong in the first pair of logs that something was wrong with."""
    return list(wrong_alignments(Random(1), 2_000))


def test_nothing_is_wrong_with_how_logs_are_aligned() -> None:
    assert aligned() == []


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Continue(Position(8)), "goes on at 8"),
        (Truncate(Position(8), LeaderEpoch(1)), "cuts to 8"),
        (Install("all"), "throws away"),
        (StartAnew("all"), "the beginning no more"),
        (Stop("all"), "loses nothing"),
    ],
)
def test_what_is_aligned_wrong_shows(
    monkeypatch: pytest.MonkeyPatch, outcome: Alignment, told: str
) -> None:
    monkeypatch.setattr(alignments, "align", lambda *_, **__: outcome)
    texts = [text for seed in range(200) for text in wrong_alignments(Random(seed), 1)]
    assert any(told in text for text in texts)
