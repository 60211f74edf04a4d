"""Who repairs what when: peers are asked in turn, failures are told once, the rest is served."""

import asyncio
import logging
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from harness.log_world import ALL, DIRECTORY, World
from penstock.base.errors import PlatformError
from penstock.base.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    Position,
    ReplicaSetId,
    TopicId,
    TopicPartition,
)
from penstock.broker.sets.batch_answers import BatchAnswers, _read
from penstock.broker.sets.extent_repairs import RETRY_MS, RETRY_MS_MAX, ExtentRepairs
from penstock.coordinator.calls.asking import CallTimedOut, fits
from penstock.coordinator.calls.extents import (
    PIECE_BYTES,
    BatchesCode,
    BatchesRequest,
    BatchesResponse,
)
from penstock.replica.replica_set import Role
from penstock.storage.second_level.manifest import extent_path
from penstock.tier.errors import NotInTier, StoreUnavailable, TierError
from tests.storage.test_extent_repair import FILE, PATH, entry_of
from tests.storage.test_second_level_copies import Master

SET = ReplicaSetId(1)
ME, MASTER, OTHER = BrokerId(1), BrokerId(2), BrokerId(3)


class Member:
    """What a repair knows of a member, over a log with a second level."""

    def __init__(self, *, is_released: bool = True) -> None:
        self.master = Master(is_released=is_released)
        self.log = self.master.log
        self.replica_set_id = SET
        self.role = Role.SLAVE
        self.leader_epoch = LeaderEpoch(4)
        self.confirm_position = ALL

    def broker(self, own: BrokerId, clock: World) -> Any:
        image = SimpleNamespace(master=MASTER, sync_state_set=(ME, MASTER, OTHER))
        return SimpleNamespace(
            broker_id=own,
            clock=clock,
            members={SET: self},
            metadata=SimpleNamespace(replica_sets={SET: image}),
            tier=None,
        )

    def run(self) -> None:
        self.master.world.run()


class Cluster:
    """One member whose file 1 is damaged, and two that may be asked."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "penstock.broker.sets.extent_repairs")
        self._caplog = caplog
        self.clock = World()
        self.member = Member()
        self.wanted = self.member.master.everything()
        at = entry_of(self.member.master.disk).extent_at + 400
        self.member.master.disk.names[PATH].data[at] ^= 1
        self.others = {MASTER: Member(is_released=False), OTHER: Member()}
        self.answers = {
            key: BatchAnswers(each.broker(key, self.clock)) for key, each in self.others.items()
        }
        self.asked: list[tuple[int, int]] = []
        self.silent: set[int] = set()
        self.jobs: list[Coroutine[Any, Any, None]] = []
        broker = self.member.broker(ME, self.clock)
        self.repairs = ExtentRepairs(broker, self, lambda _, job: self.jobs.append(job), bytes(16))

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        self.asked.append((broker_id, question.skip))
        if broker_id in self.silent:
            raise CallTimedOut("no answer")
        answer = await self.running(self.answers[broker_id].give(question), self.others[broker_id])
        assert fits(question, answer)
        return answer

    async def running(self, work: Coroutine[Any, Any, Any], *members: Member) -> Any:
        """Let a coroutine run, and the disks' work of its members with it."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            for member in members:
                member.run()
        return task.result()

    def damage(self) -> None:
        """Let a read find it."""
        with pytest.raises(PlatformError, match="checksum"):
            self.member.master.everything()

    def look(self) -> None:
        """Look, and let a repair that has begun end."""
        self.repairs.look()
        jobs, self.jobs[:] = list(self.jobs), []
        for job in jobs:
            asyncio.run(self.running(job, self.member))

    def said(self, level: int) -> list[str]:
        return [one.getMessage() for one in self._caplog.records if one.levelno == level]


def test_a_damaged_file_is_repaired_from_the_master(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(caplog)
    cluster.look()
    assert (cluster.asked, cluster.repairs.stats.found) == ([], 0)
    cluster.damage()
    cluster.look()
    assert {broker_id for broker_id, _ in cluster.asked} == {MASTER}
    assert cluster.member.master.everything() == cluster.wanted
    stats = cluster.repairs.stats
    assert (stats.found, stats.repaired, stats.failures) == (1, 1, 0)
    assert stats.fetched_bytes > 1000
    (critical,) = cluster.said(logging.CRITICAL)
    assert "asked of the other members" in critical
    cluster.look()
    assert stats.found == 1


def test_another_member_is_asked_where_the_master_can_not_help(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(caplog)
    cluster.silent.add(MASTER)
    cluster.damage()
    cluster.look()
    assert {broker_id for broker_id, _ in cluster.asked} == {MASTER, OTHER}
    assert cluster.member.master.everything() == cluster.wanted


def test_what_nobody_has_is_told_once_counted_and_asked_for_later_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(caplog)
    cluster.silent |= {MASTER, OTHER}
    cluster.damage()
    for attempt in range(1, 12):
        cluster.look()
        assert cluster.repairs.stats.failures == attempt
        cluster.look()
        cluster.clock.now_ms += min(RETRY_MS << (attempt - 1), RETRY_MS_MAX)
    (error,) = cluster.said(logging.ERROR)
    assert "no answer" in error
    assert len(cluster.said(logging.CRITICAL)) == 1
    held = entry_of(cluster.member.master.disk)
    assert held.first_offset > 0
    assert "second/repair" not in str(cluster.member.master.disk.list(f"{DIRECTORY}/second"))
    cluster.silent.clear()
    cluster.look()
    assert cluster.member.master.everything() == cluster.wanted


def test_a_peer_that_is_damaged_there_too_says_so_and_the_next_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(caplog)
    peer = cluster.others[OTHER].master
    peer.disk.names[extent_path(DIRECTORY, FILE)].data[500] ^= 1
    cluster.silent.add(MASTER)
    cluster.damage()
    cluster.look()
    (error,) = cluster.said(logging.ERROR)
    assert "it can not read them either" in error
    assert list(peer.log.splitting.damage.files) == [FILE], "the peer knows of its own damage now"


class Tier:
    """Gives what the master has; `flips` bits of it, or gives nothing while it is `away`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.flips = self.away = False
        self.read_count = 0

    async def read(self, member: Any, key: TopicPartition, offset: int) -> memoryview:
        assert member is self._cluster.member
        self.read_count += 1
        if self.away:
            raise StoreUnavailable("an object", "no answer")
        source: Any = self._cluster.others[MASTER]
        partition = source.log.open_partition(key)
        chunk = await self._cluster.running(_read(source, partition, Offset(offset)), source)
        data = bytearray(chunk.data)
        data[len(data) // 2] ^= self.flips
        return memoryview(data)


def alone_with_a_tier(caplog: pytest.LogCaptureFixture) -> tuple[Cluster, Tier]:
    """Return a cluster whose members do not answer."""
    cluster = Cluster(caplog)
    cluster.silent |= {MASTER, OTHER}
    tier = Tier(cluster)
    cluster.repairs._broker.tier = tier  # type: ignore[assignment]
    cluster.damage()
    return cluster, tier


def test_what_no_member_gives_comes_from_the_tier(caplog: pytest.LogCaptureFixture) -> None:
    cluster, tier = alone_with_a_tier(caplog)
    cluster.look()
    assert tier.read_count > 0
    assert {broker_id for broker_id, _ in cluster.asked} == {MASTER, OTHER}
    assert cluster.member.master.everything() == cluster.wanted


def test_the_tier_is_not_asked_for_what_a_member_has(caplog: pytest.LogCaptureFixture) -> None:
    cluster, tier = alone_with_a_tier(caplog)
    cluster.silent.clear()
    cluster.look()
    assert tier.read_count == 0
    assert cluster.member.master.everything() == cluster.wanted


@pytest.mark.parametrize("fault", ["flips", "away"])
def test_a_tier_that_lies_or_is_away_leaves_the_damage_as_it_is(
    caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    cluster, tier = alone_with_a_tier(caplog)
    setattr(tier, fault, True)
    cluster.look()
    assert cluster.repairs.stats.failures == 1
    with pytest.raises(PlatformError, match="checksum"):
        cluster.member.master.everything()
    setattr(tier, fault, False)
    cluster.clock.now_ms += RETRY_MS
    cluster.look()
    assert cluster.member.master.everything() == cluster.wanted


def question(**changes: Any) -> BatchesRequest:
    entry = entry_of(Master().disk)
    fields: dict[str, Any] = {
        "replica_set_id": SET,
        "leader_epoch": 4,
        "topic_id": entry.topic_id,
        "partition": entry.partition,
        "offset": entry.first_offset,
        "end_offset": entry.end_offset,
    }
    return BatchesRequest(**(fields | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"replica_set_id": 9},
        {"leader_epoch": 3},
        {"partition": 77},
        {"offset": 1 << 40},
    ],
)
def test_a_member_that_does_not_have_it_says_so(changes: dict[str, Any]) -> None:
    member = Member()
    answers = BatchAnswers(member.broker(OTHER, World()))
    answer = asyncio.run(answers.give(question(**changes)))
    assert answer == BatchesResponse(code=BatchesCode.NOT_HERE)


def test_nothing_above_the_confirm_position_is_given() -> None:
    member = Member(is_released=False)
    member.confirm_position = Position(0)
    answers = BatchAnswers(member.broker(OTHER, World()))
    answer = asyncio.run(_given(answers, member, question()))
    assert answer.code == BatchesCode.NOT_HERE


def test_batches_come_in_pieces_of_a_bounded_size() -> None:
    member = Member()
    answers = BatchAnswers(member.broker(OTHER, World()))
    first = asyncio.run(_given(answers, member, question()))
    assert 0 < len(first.batches) <= PIECE_BYTES
    rest = asyncio.run(_given(answers, member, question(skip=100)))
    assert first.batches[100:] == rest.batches
    assert first.total_bytes == rest.total_bytes == len(first.batches)
    beyond = asyncio.run(_given(answers, member, question(skip=1 << 30)))
    assert (beyond.batches, fits(question(skip=1 << 30), beyond)) == (b"", True)


async def _given(answers: BatchAnswers, member: Member, asked: BatchesRequest) -> BatchesResponse:
    task = asyncio.ensure_future(answers.give(asked))
    while not task.done():
        await asyncio.sleep(0)
        member.run()
    return task.result()


class Store:
    """The tier of a master: what a partition had below its log start, or an error."""

    def __init__(self, given: bytes | TierError) -> None:
        self._given = given
        self.asked: list[int] = []

    async def read(self, _member: Any, _key: TopicPartition, offset: int) -> memoryview:
        self.asked.append(offset)
        if isinstance(self._given, TierError):
            raise self._given
        return memoryview(self._given)


def freed(given: bytes | TierError, role: Role) -> tuple[Member, BatchAnswers, Store, int]:
    """Return a member whose log begins behind the extent of which others ask the first offset."""
    member, store, asked = Member(), Store(given), question()
    member.role = role
    key = TopicPartition(TopicId(asked.topic_id), asked.partition)
    member.log.delete_records(member.log.open_partition(key), Offset(asked.offset + 1))
    member.run()
    broker = member.broker(OTHER, World())
    broker.tier = store
    return member, BatchAnswers(broker), store, asked.offset


def test_a_master_gives_from_the_tier_what_its_disk_was_freed_of() -> None:
    batches = bytes(range(256)) * (PIECE_BYTES // 128)
    member, answers, store, offset = freed(batches, Role.MASTER)
    first = asyncio.run(_given(answers, member, question()))
    rest = asyncio.run(_given(answers, member, question(skip=PIECE_BYTES)))
    assert first.batches + rest.batches == batches
    assert first.total_bytes == rest.total_bytes == len(batches)
    assert store.asked == [offset, offset]


@pytest.mark.parametrize(
    ("error", "role", "code"),
    [
        (NotInTier(TopicPartition(TopicId(bytes(16)), 0), 0), Role.MASTER, BatchesCode.NOT_HERE),
        (StoreUnavailable("an object", "no answer"), Role.MASTER, BatchesCode.UNREADABLE),
        (b"what no slave may give", Role.SLAVE, BatchesCode.NOT_HERE),
    ],
)
def test_what_the_tier_does_not_give_a_member_says_by_name(
    error: bytes | TierError, role: Role, code: BatchesCode
) -> None:
    member, answers, store, _ = freed(error, role)
    answer = asyncio.run(_given(answers, member, question()))
    assert answer == BatchesResponse(code=code)
    assert len(store.asked) == (role is Role.MASTER)


def test_what_is_at_the_log_start_is_never_asked_of_the_tier() -> None:
    member, answers, store, offset = freed(b"", Role.MASTER)
    answer = asyncio.run(_given(answers, member, question(offset=offset + 1)))
    assert (answer.code, store.asked) == (BatchesCode.NOT_HERE, [])
