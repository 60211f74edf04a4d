"""Walks of sessions, questions and the duties beside a Raft core: ours are right, others show."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from penstock.base.ids import ControllerEpoch, PeerId
from penstock.controller.commands.command import ChangeSyncStateSet
from penstock.controller.replicated_log import MachineIndex
from penstock.raft.ids import RaftIndex, Term
from penstock.runtime.raft import disk_queue
from penstock.runtime.raft.member_changes import MemberChanges
from penstock.runtime.raft.proposals import Proposals
from penstock.runtime.session import commands
from penstock.runtime.session.active import ActiveTracker
from penstock.runtime.session.client import SessionClient
from penstock.runtime.session.service import ControllerService
from simulator.checks.patched import trial
from simulator.trials.asking import wrong_askings
from simulator.trials.raft_duties import WriteWalk, wrong_proposals, wrong_transfers
from simulator.trials.sessions import ClientWalk, ServiceWalk

WALKS, STEPS = 30, 60


def _wrong(draw: Random) -> Iterator[str]:
    yield from ServiceWalk(draw).run(STEPS)
    yield from ClientWalk(draw).run(STEPS)
    yield from wrong_askings(draw, STEPS)
    yield from wrong_proposals(draw, STEPS)
    yield from wrong_transfers(draw, STEPS)
    yield from WriteWalk(draw).run(STEPS)


async def _walk() -> list[str]:
    draw = Random(1)
    with trial():
        for _ in range(WALKS):
            if texts := list(_wrong(draw)):
                return texts
    return []


def walk() -> list[str]:
    """Return what was wrong in the first walk that something was wrong with."""
    return asyncio.run(_walk())


def test_nothing_is_wrong_with_sessions_questions_and_duties() -> None:
    assert walk() == []


def _believes(self: ActiveTracker, active_id: int, controller_epoch: int) -> None:
    self.active_id, self.controller_epoch = PeerId(active_id), ControllerEpoch(controller_epoch)


def _drop_any(self: ControllerService, session: Any, reason: str) -> None:
    if self._sessions.pop(session.broker_id, None) is not None:
        self._brain.on_session_closed(session.broker_id, session.channel.session_id)


def _answer_any(self: Proposals, index: RaftIndex, term: Term, outcome: MachineIndex) -> None:
    known = self._open.pop(index, None)
    if known is not None:
        known.done(outcome)


def _end_any(self: MemberChanges, done: object) -> None:
    self._end_transfer(RuntimeError("late"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "told"),
    [
        (ControllerService, "_drop", _drop_any, "is told"),
        (ControllerService, "_is_rival", lambda *_: False, "speaks to"),
        (ActiveTracker, "on_heartbeat_answer", _believes, "believes"),
        (SessionClient, "_on_heartbeat_answer", lambda *_: None, "believes"),
        (commands, "REPEATABLE", frozenset({ChangeSyncStateSet}), "asks again"),
        (Proposals, "on_applied", _answer_any, "answers"),
        (MemberChanges, "_on_timeout", _end_any, "too early"),
        (disk_queue, "merge_entries", lambda some: [e for r in some for e in r.entries], "writes"),
    ],
)
def test_what_is_forgotten_shows(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any, told: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    assert told in "".join(walk())
