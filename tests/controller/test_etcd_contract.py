"""The consensus port over a real etcd: the contract that every implementation passes."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.controller.replicated_log import ReplicatedLog
from tests.controller.replicated_log_contract import (
    GroupHarness,
    LogHarness,
    Machine,
    ReplicatedGroupContract,
    ReplicatedLogContract,
)
from tests.integration.etcd_members import Member, Members
from tests.integration.etcd_proxy import EtcdProxy
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


@pytest.fixture
def members(etcd: EtcdServer, tmp_path: Path) -> Iterator[Members]:
    cluster_id = f"contract-{next(_cluster_ids)}"
    with Members(tmp_path, etcd.url, cluster_id=cluster_id) as members:
        yield members


class OneController(LogHarness):
    def __init__(self, members: Members) -> None:
        self._members = members
        self._member = members.member(1)

    def open(self) -> ReplicatedLog:
        return self._member.open()

    def start(self, log: ReplicatedLog, machine: Machine) -> None:
        log.start(machine)
        self._members.wait(lambda: log.leadership.is_leader)

    def run(self) -> None:
        self._members.pass_time(0)
        self._members.wait(lambda: self._member.log.is_idle)

    def crash(self) -> None:
        self._member.crash()


class EtcdGroup(GroupHarness):
    """Each member reaches etcd over a way of its own, which can be cut."""

    def __init__(self, members: Members, etcd: EtcdServer) -> None:
        self._members = members
        self._etcd = etcd
        self._known: dict[int, Member] = {}
        self._ways: dict[int, EtcdProxy] = {}

    def open(self, member_id: int) -> ReplicatedLog:
        if member_id not in self._known:
            way = self._ways[member_id] = EtcdProxy(self._etcd.url)
            self._members.run(way.start())
            member = self._members.member(member_id, is_controller=member_id <= 3)
            member.endpoint = way.url
            self._known[member_id] = member
        return self._known[member_id].open()

    def run(self) -> None:
        self._members.wait(self._is_at_rest)

    def _is_at_rest(self) -> bool:
        opened = {one: member.log for one, member in self._known.items() if member.is_open}
        reached = {one: log for one, log in opened.items() if not self._ways[one].is_cut}
        leaders = {log.leadership.leader_id for log in reached.values()}
        leader = next((one for one, log in reached.items() if log.leadership.is_leader), None)
        lone = [log for one, log in opened.items() if one not in reached]
        return (
            all(log.is_idle for log in opened.values())
            and not any(log.leadership.is_leader for log in lone)
            and (leader is None or leaders == {leader})
            and (leader is not None or not any(one <= 3 for one in reached))
            and len({log.applied_index for log in reached.values()}) <= 1
        )

    def crash(self, member_id: int) -> None:
        self._known[member_id].crash()

    def cut_off(self, member_id: int) -> None:
        self._ways[member_id].cut()

    def heal(self) -> None:
        for way in self._ways.values():
            way.mend()

    def stop(self) -> None:
        for way in self._ways.values():
            self._members.run(way.stop())


class TestOneController(ReplicatedLogContract):
    @pytest.fixture(autouse=True)
    def _members(self, members: Members) -> None:
        self.members = members

    def make(self) -> LogHarness:
        return OneController(self.members)


class TestGroup(ReplicatedGroupContract):
    @pytest.fixture(autouse=True)
    def _group(self, members: Members, etcd: EtcdServer) -> Iterator[None]:
        self.harness = EtcdGroup(members, etcd)
        yield
        self.harness.stop()

    def make(self) -> GroupHarness:
        return self.harness
