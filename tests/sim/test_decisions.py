"""Whole runs in which masters decide, and brokers answer, what they may not: each is told."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, Offset, Position
from penstock.broker import partitions
from penstock.broker.fetch import epoch_ends
from penstock.broker.fetch import operation as fetch_operation
from penstock.broker.fetch import served as fetch_served
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.broker.fetch.record_search import Found
from penstock.broker.fetch.watermarks import End
from penstock.broker.partitions import HostedPartition
from penstock.broker.producer_list import ProducerList
from penstock.broker.tier.view import TierView
from penstock.kafka.handlers.records import list_offsets
from penstock.kafka.handlers.records.list_offsets import Looked
from penstock.kafka.produce.pending import PendingProduce
from penstock.record.batch import BatchHeader
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.confirm import ConfirmTracker
from penstock.replication.lease import Lease
from penstock.replication.sync_state import Slave, SyncStateKeeper
from penstock.storage.commit_log.store import CommitLogStore
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import Duplicate, KnownProducer, ProducerTable
from penstock.storage.read.needs_disk import Turn, at_once
from penstock.storage.stores.port import EpochEnd, EpochEndFound
from simulator.checks.led import Led
from simulator.checks.masters.masterships import Masterships
from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.run.server import Server
from simulator.run.topology import TOPIC

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAN = Plan(seed=3, shape=Shape(partitions=1, producers=1), settle_ms=300)


async def a_while(_: Run) -> None:
    await asyncio.sleep(2.0)


async def an_absence(run: Run) -> None:
    """A member leaves the sync-state set of others, and comes back."""
    gone = next(server for server in run.cluster.servers.values() if server is not master_of(run))
    gone.kill()
    await asyncio.sleep(1.0)
    gone.start()
    await asyncio.sleep(1.0)


async def a_failover(run: Run) -> None:
    """Another mastership begins."""
    master = master_of(run)
    master.kill()
    await asyncio.sleep(2.0)
    master.start()
    await asyncio.sleep(1.0)


async def a_cut(run: Run) -> None:
    """The master is alone with the clients."""
    master = master_of(run)
    others = [name for name in run.cluster.servers if name != master.name]
    cut = Effect(pairs=pairs([master.name], others, both_ways=True), is_cut=True)
    run.cluster.weather.add(cut)
    await asyncio.sleep(2.0)


def master_of(run: Run) -> Server:
    """Whoever leads the partition that is written to."""
    image = run.cluster.newest_image()
    assert image is not None
    (placed,) = image.topics_by_name[TOPIC].partitions
    master = image.replica_sets[placed.replica_set_id].master
    return run.cluster.servers[run.cluster.brokers[master]]


def all_told(schedule: Callable[[Run], Any] = a_while, plan: Plan = PLAN) -> str:
    """Everything that is told of a run; a run ends soon after the first finding."""
    return "\n".join(run_plan(plan, schedule).findings)


def test_nothing_is_told_in_a_sound_cluster_and_all_is_asked() -> None:
    runs: list[Run] = []

    async def note(run: Run) -> None:
        runs.append(run)
        await a_failover(run)

    assert run_plan(PLAN, note).findings == []
    (run,) = runs
    assert run.clients.inquirer is not None
    assert {"NONE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"} <= {*run.clients.inquirer.told}
    assert run.invariants.kafka_port.answers > 100
    assert run.clients.sequences is not None
    assert run.clients.sequences.rounds > 1


# --- decisions of masters ----------------------------------------------------------------------


def test_a_master_that_confirms_what_its_slaves_have_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(self: ConfirmTracker) -> Position:
        return max(self._acknowledged.values(), default=Position(0))

    monkeypatch.setattr(ConfirmTracker, "reachable", own)
    assert "confirms up to" in all_told()


def test_a_master_that_lets_in_who_lacks_confirmed_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def anybody(slave: Slave, view: object) -> bool:
        del view
        return slave.is_connected

    monkeypatch.setattr(SyncStateKeeper, "_may_join", staticmethod(anybody))
    assert " to join, which holds " in all_told(an_absence)


def test_a_master_that_forgets_what_it_has_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = SyncStateKeeper.next_change

    def forgets(self: SyncStateKeeper, *args: Any, **named: Any) -> Any:
        change = asks(self, *args, **named)
        self._open = ()
        return change

    monkeypatch.setattr(SyncStateKeeper, "next_change", forgets)

    assert "which may have been recorded" in all_told(an_absence)


def test_a_master_that_waits_for_a_dead_member_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        """Ask for nothing."""

    async def let_one_go(run: Run) -> None:
        monkeypatch.setattr(MasterSet, "judge", never)
        list(run.cluster.servers.values())[-1].kill()
        await asyncio.sleep(3.0)

    assert "does not ask for another sync-state set, though" in all_told(let_one_go)


def test_a_master_that_takes_its_log_for_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ReplicaSetMember.change_members

    def alone(self: ReplicaSetMember, membership: Any) -> None:
        changes(self, membership)
        self.log.is_sole_member = True

    monkeypatch.setattr(ReplicaSetMember, "change_members", alone)
    assert "takes its log for the only one" in all_told(an_absence)


def test_a_master_whose_count_of_what_is_held_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_it_is(self: ConfirmTracker) -> bool:
        self.position = self.reachable()
        return True

    monkeypatch.setattr(ConfirmTracker, "_advance", as_it_is)
    assert "takes back what enough members hold" in all_told(an_absence)


def test_a_master_that_reports_more_of_a_slave_than_it_has_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acknowledged = SyncStateKeeper.acknowledged

    def more(self: SyncStateKeeper, broker_id: int, position: int, *rest: Any) -> None:
        acknowledged(self, BrokerId(broker_id), Position(position), *rest)
        self.slaves[BrokerId(broker_id)].acknowledged = Position(position + 1)

    monkeypatch.setattr(SyncStateKeeper, "acknowledged", more)
    assert "reports more of" in all_told()


def test_a_master_that_was_cut_off_and_answers_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "covers_reads", lambda *_, **__: True)
    assert "without a lease" in all_told(a_cut)


# --- answers of brokers ------------------------------------------------------------------------


def test_a_high_watermark_above_what_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(self: ReplicaSetMember, log: Any) -> Offset:
        del self
        return Offset(log.log_end_offset + 1)

    monkeypatch.setattr(ReplicaSetMember, "high_watermark", all_of_it)
    assert " is confirmed" in all_told()


def test_a_client_of_another_epoch_that_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (partitions, fetch_served):
        monkeypatch.setattr(module, "check_leader_epoch", lambda *_: None)
    assert "a client of epoch" in all_told()


def test_a_latest_offset_that_is_one_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    at_an_end = list_offsets._at_an_end

    def low(hosted: Any, timestamp: int, looked: Looked, tier: Any) -> Found:
        found = at_an_end(hosted, timestamp, looked, tier)
        return found._replace(offset=max(0, found.offset - 1))

    monkeypatch.setattr(list_offsets, "_at_an_end", low)
    assert "the latest offset is said to be" in all_told()


def test_an_end_of_an_epoch_that_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    find = CommitLogStore.find_epoch_end

    def earlier(
        self: CommitLogStore,
        partition: PartitionLog,
        leader_epoch: int,
        done: EpochEndFound,
        turn: Turn = at_once,
    ) -> None:
        def found(end: EpochEnd | None, error: PlatformError | None) -> None:
            done(end and end._replace(end_offset=Offset(end.end_offset - 1)), error)

        find(self, partition, LeaderEpoch(leader_epoch), found, turn)

    monkeypatch.setattr(CommitLogStore, "find_epoch_end", earlier)
    told = all_told(a_failover)
    assert "is said to be" in told or "and that ended at" in told


def test_an_epoch_that_nobody_knows_and_that_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    find = epoch_ends.find_epoch_end

    def known(
        hosted: HostedPartition,
        leader_epoch: int,
        done: EpochEndFound,
        turn: Turn,
        tier: TierView | None,
    ) -> None:
        if leader_epoch > hosted.member.epochs.latest:
            done(EpochEnd(LeaderEpoch(leader_epoch - 1), hosted.log.log_end_offset), None)
        else:
            find(hosted, LeaderEpoch(leader_epoch), done, turn, tier)

    monkeypatch.setattr(fetch_operation, "find_epoch_end", known)

    async def long_enough(_: Run) -> None:
        await asyncio.sleep(8.0)

    assert ", which is not known" in all_told(long_enough)


def test_records_of_another_offset_than_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    take = FetchOperation._take

    def twice(self: FetchOperation, read: Any, chunk: Any) -> None:
        take(self, read, chunk)
        read.buffers = [*read.buffers, *read.buffers]

    monkeypatch.setattr(FetchOperation, "_take", twice)
    assert " gets a batch from " in all_told()


def test_a_write_that_is_acknowledged_before_it_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    park = PendingProduce.park

    def at_once(self: PendingProduce, members: Any, acks: int) -> None:
        del members
        park(self, [], acks)

    monkeypatch.setattr(PendingProduce, "park", at_once)
    assert " is acknowledged, and " in all_told()


def test_a_write_that_is_acknowledged_by_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaSetMember, "check_in_step", lambda *_: None)
    monkeypatch.setattr(ReplicaSetMember, "least_in_step", lambda *_: 1)
    plan = Plan(seed=3, shape=Shape(partitions=1, producers=1, min_insync_replicas=3))
    assert "a write is acknowledged with 2 members in step, and 3 are" in all_told(an_absence, plan)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "a batch that leaves a gap is stored at"),
        (Duplicate(Offset(0)), "a batch that leaves a gap is stored at 0"),
    ],
)
def test_sequences_that_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, answer: Duplicate | None, told: str
) -> None:
    check = ProducerTable.check

    def lax(self: ProducerTable, header: BatchHeader) -> Duplicate | None:
        state = self.states.entries.get((self.serial, header.producer_id))
        if state is not None and state[2] and header.base_sequence > state[2][-1][1] + 1:
            return answer
        return check(self, header)

    monkeypatch.setattr(ProducerTable, "check", lax)
    assert told in all_told()


def test_producers_that_are_told_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = ProducerList.add

    def oldest(self: ProducerList, producer: KnownProducer) -> None:
        tell(self, producer._replace(last_sequence=max(producer.last_sequence - 1, 0)))

    monkeypatch.setattr(ProducerList, "add", oldest)
    assert "a producer is told as" in all_told()


def test_the_model_looks_before_its_master_judges() -> None:
    # Who stood still may write before the next look, and its slaves would seem to be behind.
    seen: list[object] = []
    model = SimpleNamespace(sees=lambda *seeing: seen.append(seeing))
    led = SimpleNamespace(is_leading=True, image="set", log=lambda: "log", now_ms=7, model=model)
    masterships, keeper = Masterships({}, _unexpected), cast("SyncStateKeeper", object())
    masterships._judging[id(keeper)] = cast("Led", led)
    masterships._judges(lambda _: seen.append("judged"), keeper)
    assert seen == [("set", "log", 7), "judged"]


def _unexpected(text: str) -> None:
    raise AssertionError(text)


def test_a_fetch_that_has_to_ask_the_disk_has_told_nothing_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 5314: the client's time was over in a look that had to ask for the high watermark."""
    end_of = PartitionRead.end_of
    asked: list[PartitionRead] = []

    def cold(self: PartitionRead, hosted: HostedPartition) -> Any:
        if self.found_end is None:
            asked.append(self)
            return None
        return end_of(self, hosted)

    monkeypatch.setattr(PartitionRead, "end_of", cold)
    assert all_told() == ""
    assert asked


def test_what_a_fetch_tells_after_it_has_asked_the_disk_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cold(self: PartitionRead, hosted: HostedPartition) -> End | None:
        if self.found_end is None:
            return None
        confirmed = hosted.member.confirm_position
        return End(Offset(max(0, hosted.log.log_end_offset - 1)), confirmed)

    monkeypatch.setattr(PartitionRead, "end_of", cold)
    assert "is the end, and" in all_told()
