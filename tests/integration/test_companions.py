"""Companions of a workload: a group that commits, and a producer whose epoch was replaced."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from harness.cluster import ClusterProcess
from harness.load import Load
from harness.waiting import wait_until
from harness.workload import Workload, create_topic
from reliability.clients.group_reader import GroupReader
from reliability.clients.zombie_writer import ZombieWriter
from simulator.history import Anomaly, Commit, History, Outcome, Rules, judge
from tests.integration.layouts import FAST, WAIT_SECONDS

pytestmark = pytest.mark.process

LOAD = Load(topic="history", partitions=2, records_per_second=200, lag_seconds_max=60.0)


MEMBERS = {"group member 0", "group member 1"}
COMMITS = {(0, False), (0, True), (1, False), (1, True)}
"""A position of each partition was committed, and told to somebody."""


@dataclass
class Told:
    """A cluster, and its workload with companions, when all has ended."""

    cluster: ClusterProcess
    zombie: ZombieWriter
    group: GroupReader


def _commits(group: GroupReader) -> set[tuple[int, bool]]:
    return {(int(commit.partition), commit.is_fetched) for commit in group.history().commits}


def _readers(group: GroupReader) -> set[str]:
    return {poll.consumer for poll in group.history().polls}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    directory: Path = tmp_path_factory.mktemp("companions")
    with ClusterProcess(directory, settings=FAST) as cluster:
        create_topic(cluster.bootstrap, LOAD.topic, LOAD.partitions)
        where = cluster.bootstrap, LOAD.topic, LOAD.partitions
        zombie, group = ZombieWriter(*where), GroupReader(*where)
        workload = Workload(cluster.bootstrap, LOAD, companions=(zombie, group))
        workload.start(has_topic=True)
        assert workload.wait_for(200)
        assert wait_until(lambda: zombie.refused > 0 and _readers(group) == MEMBERS, WAIT_SECONDS)
        assert wait_until(lambda: _commits(group) == COMMITS, WAIT_SECONDS)
        victim = cluster.wait_for_leader(LOAD.topic, 0)
        cluster.nodes[victim].kill()
        cluster.nodes[victim].launch()
        assert workload.wait_for(workload.acked + 400)
        report = workload.finish()
        assert report.is_clean(), report.findings[:3]
        assert workload.refusals == []
        yield Told(cluster, zombie, group)


def test_positions_are_committed_and_told_through_a_kill(told: Told) -> None:
    assert _commits(told.group) == COMMITS
    assert _readers(told.group) == MEMBERS


def test_a_batch_of_a_replaced_epoch_is_refused(told: Told) -> None:
    sends = told.zombie.history().sends
    assert told.zombie.refused > 0
    assert {send.producer_epoch for send in sends if send.outcome is Outcome.ACKED} == {0, 1}


def test_a_position_that_goes_back_is_found(told: Told) -> None:
    """Nobody is in the group any more, so anybody may set it back; here without saying so."""
    consumer = told.group.consumer()
    begun_ns = time.monotonic_ns()
    consumer.commit(offsets=[TopicPartition(LOAD.topic, 0, 1)], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(LOAD.topic, 0)], timeout=WAIT_SECONDS)
    consumer.close()
    back = Commit("history-group", 0, found.offset, begun_ns, time.monotonic_ns(), is_fetched=True)
    history = History(commits=[*told.group.history().commits, back])
    anomalies = {finding.anomaly for finding in judge(history, Rules()).findings}
    assert anomalies == {Anomaly.COMMIT_REGRESSION}
