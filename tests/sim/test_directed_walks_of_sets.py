"""Walks of members of a set, of coordinators and of a log, as those in test_directed_walks.py."""

from collections.abc import Iterator
from random import Random

import pytest

from simulator.kernel.disk import SimDisk
from simulator.trials.alignments import wrong_alignments
from simulator.trials.following import FollowingWalk
from simulator.trials.group_duties import DutiesWalk
from simulator.trials.group_walk import GroupWalk
from simulator.trials.groups import STEPS as GROUP_STEPS
from simulator.trials.leading.walk import LeadingWalk
from simulator.trials.log_pair import LogPairWalk
from simulator.trials.logs import Known, LogTrial
from simulator.trials.members import MemberWalk
from simulator.trials.replicas import ALIGNMENTS
from simulator.trials.replicas import STEPS as REPLICA_STEPS
from simulator.trials.retention import RetentionTrial
from tests.sim.test_directed_walks import first_findings
from tests.sim.test_disk_trials import CONFIG as LOG_CONFIG
from tests.sim.test_replica_trials import CONFIG as REPLICATION
from tests.sim.test_replica_trials import SET
from tests.sim.test_retention_trials import CONFIG as ROLLED
from tests.sim.test_retention_trials import filled

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quiet")]


def test_a_master_and_what_its_slaves_might_say() -> None:
    findings = first_findings(
        lambda draw: LeadingWalk(SET, REPLICATION, draw).run(REPLICA_STEPS), 150
    )
    assert findings == []


def test_a_slave_and_what_its_masters_might_say() -> None:
    def walk(draw: Random) -> Iterator[str]:
        yield from FollowingWalk(REPLICATION, draw).run(REPLICA_STEPS)
        yield from wrong_alignments(draw, ALIGNMENTS)

    findings = first_findings(walk, 160)
    assert findings == []


def test_a_member_and_whatever_becomes_of_it() -> None:
    def walk(draw: Random) -> Iterator[str]:
        return MemberWalk(SimDisk(draw), "set-1", LOG_CONFIG, draw).run(60)

    findings = first_findings(walk, 60)
    assert findings == []


def test_a_coordinator_and_what_its_groups_might_ask() -> None:
    findings = first_findings(lambda draw: GroupWalk([], draw).run(GROUP_STEPS), 100)
    assert findings == []


def test_loadings_and_rewrites_while_masterships_come_and_go() -> None:
    findings = first_findings(lambda draw: DutiesWalk(draw).run(GROUP_STEPS), 1_500)
    assert findings == []


def test_a_log_that_stops_dead_and_its_retention() -> None:
    disk, still = filled()
    still.confirm()
    log = still.log
    known = Known(
        name="here",
        directory="set-1",
        config=ROLLED,
        live=disk,
        durable=log.durable_position,
        confirmed=log.end_position,
        is_same_log=True,
        log=log,
        has_retention=False,
        has_ended=False,
    )

    def walk(draw: Random) -> Iterator[str]:
        yield from LogTrial(known, disk.duplicate("", draw), draw).findings()
        copy = disk.duplicate("", draw)
        yield from RetentionTrial(known._replace(has_retention=True), copy, draw).findings()

    findings = first_findings(walk, 120)
    assert findings == []


def test_two_logs_of_one_set_and_their_snapshots() -> None:
    findings = first_findings(lambda draw: LogPairWalk(draw).run(60), 80)
    assert findings == []
