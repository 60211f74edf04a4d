"""Walks of an active controller and of two logs: nothing is wrong with ours, and what is shows."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from penstock.base.ids import TopicPartition
from penstock.controller.active import election, elections
from penstock.controller.active.context import ActiveContext
from penstock.controller.active.drains import Drains
from penstock.controller.active.liveness import Liveness
from penstock.storage.commit_log.set_log import SetLog
from simulator.checks.patched import trial
from simulator.trials.active.walk import ActiveWalk
from simulator.trials.log_pair import LogPairWalk
from tests.sim.test_metadata_trials import cluster

pytestmark = pytest.mark.usefixtures("quiet")

WALKS = 120


def first_finding(walk: Callable[[Random], Iterator[str]]) -> str:
    """Return what was wrong in the first walk that something was wrong with."""
    draw = Random(1)
    with trial():
        for _ in range(WALKS):
            for text in walk(draw):
                return text
    return ""


def leads(draw: Random) -> Iterator[str]:
    return ActiveWalk(cluster(), draw).run(120)


def _does_nothing(*_: object, **__: object) -> None:
    pass


def _forgets_only(self: SetLog, key: TopicPartition) -> None:
    del self.partitions[key]


def _submits_once(self: ActiveContext, command: Any, done: Any) -> None:
    self.submit(command, done)


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "told"),
    [
        (Liveness, "expect", _does_nothing, "fences broker"),
        (election, "_log", lambda report: -report.log_end_position, "longer logs"),
        (elections, "_epochs", lambda one: one.leader_epoch, "not by its word"),
        (ActiveContext, "submit_to_the_end", _submits_once, "releases promises"),
        (ActiveContext, "has_failed_master", lambda *_: True, "leads well"),
        (Drains, "_on_left", _does_nothing, "is not asked to leave"),
    ],
)
def test_an_active_controller_that_forgets_a_rule_is_told_of(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: Any, told: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    assert told in first_finding(leads)


def test_a_log_whose_snapshots_keep_what_was_dropped_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SetLog, "drop_partition", _forgets_only)
    assert "is back, which was dropped" in first_finding(lambda draw: LogPairWalk(draw).run(60))
