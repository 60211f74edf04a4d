"""Walks of the parts of a node, many more than the runs of a campaign find the time for.

Random runs go a walk now and then, from where they have come to. These go hundreds of each
kind, and end with the first that something is wrong with. What is drawn are faults and their order;
the rules that are checked are those of the simulator (simulator/trials, simulator/checks).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from random import Random

import pytest

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.controller.metadata.image import ClusterImage
from simulator.checks.patched import trial
from simulator.trials.active.walk import ActiveWalk
from simulator.trials.metadata import STEPS as METADATA_STEPS
from simulator.trials.metadata import Walk
from simulator.trials.raft_walk import RaftWalk
from tests.sim.test_metadata_trials import cluster
from tests.sim.test_raft_walks import voters
from tests.sim.test_session_trials import _wrong as wrong_sessions

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quiet")]

Walking = Callable[[Random], Iterable[str]]


def first_findings(walk: Walking, count: int, seed: int = 5) -> list[str]:
    """Go so many walks, to the first that finds something; return what that is."""
    draw = Random(seed)
    with trial():
        for _ in range(count):
            if texts := list(walk(draw)):
                return texts
    return []


def test_an_active_controller_decides_by_what_it_was_told_in_its_term() -> None:
    kinds = (PolicyKind.ALL, PolicyKind.QUORUM)
    images = [cluster(AckPolicy(kind=kind, required=2), size) for kind in kinds for size in (3, 4)]

    def walk(draw: Random) -> Iterator[str]:
        return ActiveWalk(draw.choice(images), draw).run(120)

    findings = first_findings(walk, 120)
    assert findings == []


def test_commands_and_snapshots_of_the_metadata() -> None:
    def image(draw: Random) -> ClusterImage:
        kind = draw.choice(list(PolicyKind))
        return cluster(AckPolicy(kind=kind, required=2), draw.choice((3, 4)))

    findings = first_findings(lambda draw: Walk(image(draw), [], draw).run(METADATA_STEPS), 250)
    assert findings == []


def test_sessions_questions_and_the_duties_beside_a_raft_core() -> None:
    async def walk() -> list[str]:
        return first_findings(wrong_sessions, 150)

    findings = asyncio.run(walk())
    assert findings == []


def test_the_controllers_group_under_bad_luck() -> None:
    def walk(draw: Random) -> list[str]:
        findings: list[str] = []
        RaftWalk(voters(), draw, findings.append).go()
        return findings

    findings = first_findings(walk, 12)
    assert findings == []
