"""What may become of a member of a set from where a run has come to: tried on copies of disks."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.confirm import ConfirmTracker, Membership
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan
from simulator.trials.members import MemberWalk
from tests.sim.test_directed import APART, SET_WITH_RECORDS, server

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WALKS = 40
STEPS = 60


def _walk(run: Run, place: str, draw: Random) -> None:
    """Walk once from the disk of a server as it is now."""
    one, directory = server(run, place), f"set-{SET_WITH_RECORDS}"
    copy = one.disk.duplicate(f"{directory}/", draw)
    walk = MemberWalk(copy, directory, one.log_config, draw)
    for text in walk.run(STEPS):
        run.invariants.tell(f"{one.name}, had it gone on so: {text}")


async def walk_from_two_moments(run: Run) -> None:
    """Walk from what a slave has, and from what a new master has behind a failover."""
    draw = Random("walks of members")
    await asyncio.sleep(0.5)
    slave, master = f"slave:{SET_WITH_RECORDS}", f"master:{SET_WITH_RECORDS}"
    for _ in range(WALKS):
        _walk(run, slave, draw)
    server(run, master).kill()
    for _ in range(WALKS):
        _walk(run, slave, draw)


def findings() -> list[str]:
    return run_plan(Plan(seed=1, shape=APART), walk_from_two_moments).findings


def test_whatever_becomes_of_a_member_it_confirms_and_claims_what_it_may() -> None:
    assert findings() == []


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "told"),
    [
        (Membership, "is_enough", lambda *_: True, "begins with"),
        (ConfirmTracker, "reachable", lambda self: max(self._acknowledged.values()), "confirmed"),
        (ReplicaSetMember, "check_in_step", lambda *_: None, "in step: True"),
        (ReplicaSetMember, "resume_writes", lambda *_: None, "earlier pause"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_member_that_goes_by_something_else_is_told_of(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: Callable[..., Any], told: str
) -> None:
    async def walk_only(run: Run) -> None:
        draw = Random(1)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, wrong)
            for _ in range(WALKS):
                _walk(run, f"slave:{SET_WITH_RECORDS}", draw)

    texts = run_plan(Plan(seed=1, shape=APART), walk_only).findings
    assert any(told in text for text in texts), texts[:1]
