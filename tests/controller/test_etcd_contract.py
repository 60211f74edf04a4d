"""The consensus port over a real etcd: the contract that every implementation passes."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.controller.replicated_log import ReplicatedLog, StateMachine
from tests.controller.replicated_log_contract import LogHarness, ReplicatedLogContract
from tests.integration.etcd_members import Member, Members
from tests.integration.etcd_server import EtcdServer, why_no_etcd

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(why_no_etcd() is not None, reason=str(why_no_etcd())),
]

_cluster_ids = itertools.count(1)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


class EtcdHarness(LogHarness):
    """One controller; its log leads when `start` returns, as one alone does."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.member: Member = members.member(1)

    def open(self) -> ReplicatedLog:
        log = self.member.open()
        start = log.start

        def start_and_lead(machine: StateMachine) -> None:
            start(machine)
            self.members.wait(lambda: log.leadership.is_leader)

        log.start = start_and_lead  # type: ignore[method-assign]
        return log

    def run(self) -> None:
        self.members.pass_time(0)
        self.members.wait(lambda: self.member.log.is_idle)

    def crash(self) -> None:
        self.member.crash()


class TestEtcdLog(ReplicatedLogContract):
    @pytest.fixture(autouse=True)
    def _members(self, etcd: EtcdServer, tmp_path: Path) -> Iterator[None]:
        cluster_id = f"contract-{next(_cluster_ids)}"
        with Members(tmp_path, etcd.url, cluster_id=cluster_id) as members:
            self.members = members
            yield

    def make(self) -> LogHarness:
        return EtcdHarness(self.members)
