"""Whole runs in which something is wrong on purpose: each check that looks at a run tells it."""

import asyncio
import re
from dataclasses import replace

import pytest

from penstock.base.ids import Position, ProducerEpoch, ReplicaSetId, TopicId, TopicPartition
from penstock.client.fetch import FetchedPartition
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.records import TopicKey
from penstock.node.node import Node
from penstock.protocol.error_codes import ErrorCode
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.lease import Lease
from penstock.replication.sync_state import SyncStateKeeper
from penstock.storage.commit_log.pins import NOTHING_MOVABLE, Pin, PinReport, SegmentPins
from simulator.checks.equal_state import differences, kept_for_long
from simulator.checks.groups import states as group_states
from simulator.checks.invariants import Invariants
from simulator.checks.remains import Remains
from simulator.clients.all_clients import Clients
from simulator.clients.readers import Follower, Reader
from simulator.faults.weather import Effect, pairs
from simulator.history import Anomaly, Deletion, Outcome
from simulator.history.administration import AdminHistory
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from simulator.run.server import Server
from simulator.trials.operations import DiskTrials

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAN = Plan(seed=3, shape=Shape(partitions=1, producers=1), settle_ms=300)


async def a_second(_: Run) -> None:
    await asyncio.sleep(1.0)


def test_a_reader_that_polls_and_gets_nothing_while_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = Reader._note

    def note_little(self: Reader, found: FetchedPartition, begun_ns: int) -> None:
        is_deaf = isinstance(self, Follower) and self.places[found.partition].offset > 0
        note(self, found._replace(data=memoryview(b"")) if is_deaf else found, begun_ns)

    monkeypatch.setattr(Reader, "_note", note_little)
    findings = run_plan(PLAN, a_second).findings
    assert findings[0].startswith("not read in time: follower-0 stands at")
    assert any(finding.startswith("realtime-lag in 0: follower-0") for finding in findings)


def test_topics_that_are_answered_for_in_no_possible_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = AdminHistory.changed

    def never_there(self: AdminHistory, number: int, error_code: int) -> None:
        del error_code
        told(self, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    monkeypatch.setattr(AdminHistory, "changed", never_there)
    plan = replace(PLAN, shape=replace(PLAN.shape, is_churning=True))
    (finding,) = run_plan(plan, a_second).findings
    assert finding.startswith("topics: ")


def test_writes_of_a_replaced_epoch_are_tried_and_would_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[Run] = []

    async def note(run: Run) -> None:
        runs.append(run)
        await a_second(run)

    assert run_plan(PLAN, note).findings == []
    (zombie,) = [lane for lane in runs[0].clients.lanes if lane.name == "zombie"]
    assert getattr(zombie, "refused") > 0  # noqa: B009  lanes of other kinds have none
    late = [send for send in zombie.events() if send.outcome is Outcome.UNKNOWN][-1]
    last = max(poll.end_offset or 0 for poll in runs[0].clients.world.polls)

    def taken(_: Clients) -> list[object]:
        """The refused batch, as if it had been written after all."""
        return [*zombie.events(), late._replace(outcome=Outcome.ACKED, offset=last, end_ns=1)]

    monkeypatch.setattr(Clients, "sends", taken)
    report = runs[0].clients.judge(is_complete=False)
    assert Anomaly.ZOMBIE_WRITE in {finding.anomaly for finding in report.findings}


def test_deleted_records_that_are_there_again() -> None:
    runs: list[Run] = []

    async def note(run: Run) -> None:
        runs.append(run)
        await a_second(run)

    shape = replace(PLAN.shape, is_churning=True, retention_bytes=40_000)
    assert run_plan(replace(PLAN, shape=shape), note).findings == []
    churn = runs[0].clients.churn
    assert churn is not None
    churn.deletions.append(Deletion(0, 1 << 40, 1))
    report = runs[0].clients.judge(is_complete=True)
    assert {finding.anomaly for finding in report.findings} == {Anomaly.START_REGRESSION}


def test_positions_that_a_coordinator_tells_and_its_log_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = group_states._told

    def one_less(groups: GroupCoordinator, group_id: str) -> dict[TopicKey, int]:
        return {key: offset - 1 for key, offset in told(groups, group_id).items()}

    monkeypatch.setattr(group_states, "_told", one_less)
    plan = replace(PLAN, shape=replace(PLAN.shape, groups=1))
    findings = run_plan(plan, a_second).findings
    assert "stands at" in findings[0]
    assert "and the log says" in findings[0]


def members(run: Run) -> list[tuple[Server, ReplicaSetMember]]:
    """All members of the set with records, the master first."""
    set_id = run.cluster.set_ids()[0]
    found = []
    for server in run.cluster.servers.values():
        assert isinstance(server.node, Node)
        assert server.node.manager is not None
        found.append((server, server.node.manager.members[ReplicaSetId(set_id)]))
    return sorted(found, key=lambda one: one[1].role is not Role.MASTER)


def test_a_slave_that_calls_confirmed_what_no_master_has() -> None:
    async def claim(run: Run) -> None:
        _, slave = members(run)[-1]
        slave.confirm_position = Position(slave.log.end_position + 1_000)
        await asyncio.sleep(0.1)

    findings = run_plan(PLAN, claim).findings
    assert "is confirmed here, and no master has said so" in findings[0]


def test_a_segment_file_that_belongs_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskTrials, "watch", lambda *_: None)  # they would end the run before that

    async def leave(run: Run) -> None:
        server, member = members(run)[0]
        path = f"set-{member.replica_set_id}/log/{1 << 50:020d}.log"
        server.disk.open(path, create=True)
        await asyncio.sleep(0.1)

    told = run_plan(PLAN, leave).findings  # among them that such a disk can not be started from
    assert any(one.endswith(f"{1 << 50:020d}.log belongs to nothing") for one in told)


def test_a_segment_that_only_a_deleted_topic_keeps() -> None:
    runs: list[Run] = []

    async def note(run: Run) -> None:
        runs.append(run)
        await a_second(run)
        _, member = members(run)[0]
        partition = TopicPartition(TopicId(b"g" * 16), 0)
        gone = SegmentPins(0, 65_536, Pin.PARTITIONS, 1, (partition,))
        member.log.parts.segment_retention.pins = PinReport(1, (gone,), {}, NOTHING_MOVABLE)
        image = run.cluster.newest_image()
        assert image is not None
        (told,) = Remains(run.cluster.servers.values()).findings(image)
        assert "segment 0 is kept for" in told

    assert run_plan(PLAN, note).findings == []
    assert runs


def test_a_wish_after_which_a_set_is_not_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.run.one_run.WISHES", (FaultKind.TRANSFER, FaultKind.ELECT))
    looked = Run._not_equal

    def never_after_a_wish(run: Run) -> list[str]:
        wished = [event for event in run.simulation.trace.events if "elect" in str(event)]
        return ["set 1 has only (1,) in step"] if wished else looked(run)

    monkeypatch.setattr(Run, "_not_equal", never_after_a_wish)
    status = Fault(kind=FaultKind.STATUS, at_ms=0, lasting_ms=0, targets=())
    findings = run_plan(replace(PLAN, faults=(status,))).findings
    assert "not in step after elect: set 1 has only (1,) in step" in findings


def lie(servers: list[Server], part: str) -> None:
    """Let disks lie about such paths without anybody taking them for damaged."""
    for server in servers:
        server.disk.is_lying, server.disk.lying_part = True, part


def test_records_that_are_confirmed_and_durable_on_one_disk_alone() -> None:
    async def lie_for_slaves(run: Run) -> None:
        lie([server for server, _ in members(run)[1:]], "set-")
        await asyncio.sleep(0.3)

    findings = run_plan(PLAN, lie_for_slaves).findings
    told = [finding for finding in findings if "confirms the frame at" in finding]
    assert "which is durable on [" in told[0]


def test_entries_that_are_agreed_on_and_durable_on_one_disk_alone() -> None:
    async def lie_for_two(run: Run) -> None:
        lie(list(run.cluster.servers.values())[:2], "raft.log")
        await asyncio.sleep(2.0)  # topics come and go, so that something is agreed on

    plan = replace(PLAN, shape=replace(PLAN.shape, is_churning=True))
    told = re.compile(r"is agreed on, and durable on \[3?\] alone of voters \[1, 2, 3\]")
    assert any(told.search(finding) for finding in run_plan(plan, lie_for_two).findings)


def test_an_index_whose_segment_is_gone() -> None:
    async def leave(run: Run) -> None:
        server, member = members(run)[0]
        server.disk.open(f"set-{member.replica_set_id}/index/{1 << 50:020d}.idx", create=True)
        await asyncio.sleep(0.1)

    (finding,) = run_plan(PLAN, leave).findings
    assert finding.endswith(f"{1 << 50:020d}.idx belongs to nothing")


@pytest.mark.parametrize("name", ["log_end_offset", "last_end_position", "max_timestamp"])
def test_a_partition_that_members_with_equal_logs_know_differently(name: str) -> None:
    async def change(run: Run) -> None:
        run.clients.stop_writing()
        await run.until(lambda: run.clients.is_idle)
        await a_second(run)
        _, slave = members(run)[-1]
        partition = max(slave.log.partitions.values(), key=lambda one: one.last_end_position)
        setattr(partition, name, getattr(partition, name) + 1)
        found = list(differences(run.cluster.servers.values()))
        assert any(f" {name}: " in one for one in found)

    assert any(f" {name}: " in finding for finding in run_plan(PLAN, change).findings)


def test_a_partition_that_begins_later_at_one_member_though_nothing_goes_by_retention() -> None:
    async def change(run: Run) -> None:
        run.clients.stop_writing()
        await run.until(lambda: run.clients.is_idle)
        await a_second(run)
        image = run.cluster.newest_image()
        assert image is not None
        kept, servers = kept_for_long(image), run.cluster.servers.values()
        assert list(differences(servers, kept)) == []
        _, slave = members(run)[-1]
        partition = next(
            one
            for key, one in slave.log.partitions.items()
            if key.topic_id in kept and one.log_end_offset
        )
        partition.raise_log_start(partition.log_end_offset)
        assert any(" the first offsets, " in one for one in differences(servers, kept))

    assert any(" the first offsets, " in finding for finding in run_plan(PLAN, change).findings)


def test_a_producer_that_members_with_equal_logs_know_differently() -> None:
    async def change(run: Run) -> None:
        run.clients.stop_writing()
        await run.until(lambda: run.clients.is_idle)
        await a_second(run)
        assert list(differences(run.cluster.servers.values())) == []
        _, slave = members(run)[-1]
        entries = slave.log.parts.states.entries
        for key, (epoch, at_ms, window, coordinator) in entries.items():
            entries[key] = (ProducerEpoch(epoch + 1), at_ms, window, coordinator)

    findings = run_plan(PLAN, change).findings
    assert any("differ in producer" in finding for finding in findings)


def test_a_check_that_fails_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, is_final: bool = False) -> None:
        if not is_final:
            raise ZeroDivisionError("nothing to look at")

    monkeypatch.setattr(Invariants, "look", fail)
    assert any("looking has failed" in finding for finding in run_plan(PLAN, a_second).findings)


def test_a_new_master_that_lacks_what_was_confirmed() -> None:
    async def schedule(run: Run) -> None:
        await asyncio.sleep(0.3)
        set_id = run.cluster.set_ids()[0]
        run.invariants._confirmed[set_id].by_masters += 1 << 30

        def epoch() -> int:
            image = run.cluster.newest_image()
            return -1 if image is None else image.replica_sets[ReplicaSetId(set_id)].leader_epoch

        before, (master,) = epoch(), run.cluster.hosts(["master:0"])
        run.cluster.servers[master].kill()
        await run.until(lambda: epoch() > before)

    findings = run_plan(PLAN, schedule).findings
    assert any("is elected for epoch" in finding for finding in findings), findings[:3]


def test_a_replaced_master_that_answers_reads_as_if_it_still_were_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lease, "covers_reads", lambda *_, **__: True)

    async def cut_off(run: Run) -> None:
        (old, leading), *_ = members(run)
        others = [name for name in run.cluster.servers if name != old.name]
        apart = Effect(pairs=pairs([old.name], others, both_ways=True), is_cut=True)
        run.cluster.weather.add(apart)
        await asyncio.sleep(4.0)
        assert leading.role is Role.MASTER

    told = run_plan(PLAN, cut_off).findings
    assert any("answers reads as of" in one and "had confirmed" in one for one in told)


def test_a_member_that_gets_in_step_without_what_was_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SyncStateKeeper, "_may_join", lambda *_: True)

    async def come_back_late(run: Run) -> None:
        await asyncio.sleep(0.5)
        _, (slave, _) = members(run)[:2]
        slave.kill()
        await asyncio.sleep(1.5)
        slave.disk.sync_delay_ms += 400
        slave.start()
        await asyncio.sleep(1.5)

    told = run_plan(PLAN, come_back_late).findings
    assert any("gets in step with a log up to" in one for one in told)
