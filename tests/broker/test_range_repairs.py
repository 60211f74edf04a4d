"""What was cleaned and is damaged is taken from one member; the others are asked if that fails."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from harness.log_world import ALL, DIRECTORY, World, read_chunk
from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch
from penstock.broker.sets.batch_answers import BatchAnswers
from penstock.broker.sets.extent_answers import ExtentAnswers
from penstock.broker.sets.extent_repairs import ExtentRepairs
from penstock.coordinator.calls.asking import CallTimedOut, fits
from penstock.coordinator.calls.extents import (
    PIECE_BYTES,
    BatchesCode,
    BatchesRequest,
    ExtentRequest,
    ExtentResponse,
)
from penstock.record.read import iter_batches, iter_records
from penstock.replica.replica_set import Role
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.manifest import extent_path
from tests.broker.test_cleanings import SET, SETTINGS, Node
from tests.storage.test_stores import KEY

ME, MASTER, OTHER = BrokerId(1), BrokerId(2), BrokerId(3)
NEVER = SETTINGS._replace(dirty_ratio_min=1.0)
KEYS = 20


class Cleaner:
    """A member with a housekeeper, as a repair knows it; all have the same log."""

    def __init__(self, *, passes: int) -> None:
        """Two parts of the log are moved one after the other; a pass follows on the first ones."""
        self.node = Node()
        self.node.settings.clear()
        member: Any = self.node.member
        member.role = Role.SLAVE
        member.leader_epoch = LeaderEpoch(4)
        member.confirm_position = ALL
        self.member = member
        for part in range(2):
            self.node.settings[KEY] = SETTINGS if part < passes else NEVER
            self.node.append(KEY, 150, keys=KEYS)
            self.node.retention()
            self.node.work()

    @property
    def extents(self) -> list[Extent]:
        return list(self.member.log.splitting.extents(KEY))

    def broker(self, own: BrokerId, clock: World) -> Any:
        image = SimpleNamespace(master=MASTER, sync_state_set=(ME, MASTER, OTHER))
        return SimpleNamespace(
            broker_id=own,
            clock=clock,
            members={SET: self.member},
            metadata=SimpleNamespace(replica_sets={SET: image}),
            tier=None,
        )

    def offsets(self) -> list[tuple[bytes | None, int]]:
        """Read all; return key and offset of each record."""
        partition = self.member.log.open_partition(KEY)
        found: list[tuple[bytes | None, int]] = []
        offset = 0
        while offset < partition.log_end_offset:
            chunk = read_chunk(self.node.world, self.member.log, partition, offset)
            for header, batch in iter_batches(chunk.data):
                found += [(record.key, record.offset) for record in iter_records(batch)]
                offset = header.last_offset + 1
        return found

    def damage(self, extent: Extent) -> None:
        """Flip a bit of its batches, and let a read find it."""
        path = extent_path(DIRECTORY, extent.file_number)
        self.member.disk.names[path].data[extent.entry.extent_at + 100] ^= 1
        with pytest.raises(PlatformError, match="checksum"):
            self.offsets()


class Cluster:
    """Three members; the first one has a damaged file."""

    def __init__(
        self, caplog: pytest.LogCaptureFixture, here: Cleaner, master: Cleaner, other: Cleaner
    ) -> None:
        caplog.set_level(logging.DEBUG, "penstock.broker.sets.extent_repairs")
        self._caplog = caplog
        self.clock = World()
        self.here = here
        self.others = {MASTER: master, OTHER: other}
        self.asked: list[tuple[int, str]] = []
        self.silent: set[int] = set()
        self.change: Callable[[ExtentResponse], Any] = lambda answer: answer
        self.jobs: list[Coroutine[Any, Any, None]] = []
        broker = here.broker(ME, self.clock)
        self.repairs = ExtentRepairs(broker, self, lambda _, job: self.jobs.append(job), bytes(16))

    async def ask(self, broker_id: BrokerId, question: Any, *, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        self.asked.append((broker_id, type(question).__name__))
        if broker_id in self.silent:
            raise CallTimedOut("no answer")
        asked = self.others[broker_id]
        broker = asked.broker(broker_id, self.clock)
        give: Any = BatchAnswers(broker).give
        if isinstance(question, ExtentRequest):
            give = ExtentAnswers(broker).give
        answer = await running(give(question), asked)
        assert fits(question, answer)
        return self.change(answer) if isinstance(question, ExtentRequest) else answer

    def look(self) -> None:
        """Look, and let a repair that has begun end."""
        self.repairs.look()
        jobs, self.jobs[:] = list(self.jobs), []
        for job in jobs:
            asyncio.run(running(job, self.here))
        self.here.node.world.run()

    def said(self, level: int) -> list[str]:
        return [one.getMessage() for one in self._caplog.records if one.levelno == level]

    def check_repaired(self, wanted: list[tuple[bytes | None, int]]) -> None:
        log = self.here.member.log
        assert log.splitting.damage.files == {}
        assert self.here.offsets() == wanted
        assert {f"{one.file_number:020d}.extents" for one in self.here.extents} == set(
            self.here.node.files()
        )
        assert self.repairs.stats.ranges == 1
        assert self.repairs.stats.fetched_bytes > 1_000


async def running(work: Coroutine[Any, Any, Any], member: Cleaner) -> Any:
    """Let a coroutine run, and the disk's work of a member with it."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        member.node.world.run()
    return task.result()


def test_a_damaged_range_is_taken_from_the_master(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(caplog, Cleaner(passes=1), Cleaner(passes=2), Cleaner(passes=0))
    here, master = cluster.here, cluster.others[MASTER]
    assert (len(here.extents), here.extents[0].is_cleaned, len(master.extents)) == (2, True, 1)
    here.damage(here.extents[0])
    cluster.look()
    assert {broker_id for broker_id, _ in cluster.asked} == {MASTER}
    cluster.check_repaired(master.offsets())
    assert cluster.repairs.stats.repaired == 1
    count = len(cluster.asked)
    cluster.look()
    assert len(cluster.asked) == count


def test_the_next_member_is_asked_for_all_of_it_where_one_can_not_help(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(caplog, Cleaner(passes=2), Cleaner(passes=1), Cleaner(passes=0))
    here = cluster.here
    wanted = here.offsets()
    here.damage(here.extents[0])
    cluster.silent.add(MASTER)
    cluster.look()
    assert {broker_id for broker_id, _ in cluster.asked} == {MASTER, OTHER}
    # The other one has cleaned nothing: all is as it was produced, and is cleaned here again.
    cluster.check_repaired(cluster.others[OTHER].offsets())
    assert not any(one.is_cleaned for one in here.extents)
    here.node.settings[KEY] = SETTINGS
    assert here.node.work() == ["clean 0"]
    assert here.offsets() == wanted


def test_damaged_batches_that_all_others_have_cleaned_are_taken_as_they_left_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(caplog, Cleaner(passes=0), Cleaner(passes=2), Cleaner(passes=1))
    here = cluster.here
    here.damage(here.extents[0])
    cluster.look()
    assert {kind for _, kind in cluster.asked} == {"BatchesRequest", "ExtentRequest"}
    cluster.check_repaired(cluster.others[MASTER].offsets())


def test_what_nobody_gives_is_told_once_and_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(caplog, Cleaner(passes=1), Cleaner(passes=2), Cleaner(passes=1))
    here = cluster.here
    before = here.node.files()
    here.damage(here.extents[0])
    cluster.silent.add(MASTER)
    cluster.others[OTHER].damage(cluster.others[OTHER].extents[0])
    for attempt in range(1, 4):
        cluster.look()
        assert cluster.repairs.stats.failures == attempt
        cluster.clock.now_ms += 300_000
    (error,) = cluster.said(logging.ERROR)
    assert "broker 2: no answer; broker 3: " in error
    assert "checksum of block 0" in error
    assert here.node.files() == before
    cluster.silent.clear()
    cluster.look()
    cluster.check_repaired(cluster.others[MASTER].offsets())


@pytest.mark.parametrize(
    ("code", "told"),
    [(BatchesCode.NOT_HERE, "no extent has offset 0 there"), (BatchesCode.UNREADABLE, "either")],
)
def test_why_a_member_gives_nothing_is_told(
    caplog: pytest.LogCaptureFixture, code: int, told: str
) -> None:
    cluster = Cluster(caplog, Cleaner(passes=1), Cleaner(passes=2), Cleaner(passes=2))
    cluster.here.damage(cluster.here.extents[0])
    cluster.change = lambda _: ExtentResponse(code=code)
    cluster.look()
    (error,) = cluster.said(logging.ERROR)
    assert told in error


def asked(member: Cleaner, **changes: Any) -> ExtentResponse:
    fields: dict[str, Any] = {
        "replica_set_id": SET,
        "leader_epoch": 4,
        "topic_id": KEY.topic_id,
        "partition": KEY.partition,
        "offset": 0,
    }
    answers = ExtentAnswers(member.broker(OTHER, World()))
    answer = asyncio.run(running(answers.give(ExtentRequest(**(fields | changes))), member))
    assert isinstance(answer, ExtentResponse)
    return answer


@pytest.mark.parametrize(
    "changes",
    [{"replica_set_id": 9}, {"leader_epoch": 3}, {"partition": 77}, {"offset": 1 << 40}],
)
def test_a_member_that_does_not_have_it_says_so(changes: dict[str, Any]) -> None:
    assert asked(Cleaner(passes=1), **changes) == ExtentResponse(code=BatchesCode.NOT_HERE)


def test_an_extent_comes_in_pieces_of_a_bounded_size() -> None:
    member = Cleaner(passes=0)
    first = asked(member)
    assert 0 < len(first.piece) <= PIECE_BYTES
    pieces, skip = [], 0
    while skip < first.total_bytes:
        answer = asked(member, skip=skip)
        assert answer.piece
        pieces.append(answer.piece)
        skip += len(answer.piece)
    assert len(pieces) > 2
    assert skip == first.total_bytes
    for beyond in (skip, -1, 1 << 40):
        assert asked(member, skip=beyond).piece == b""


def test_raw_batches_are_still_refused_where_they_were_cleaned() -> None:
    member = Cleaner(passes=1)
    question = BatchesRequest(
        replica_set_id=SET,
        leader_epoch=LeaderEpoch(4),
        topic_id=KEY.topic_id,
        partition=KEY.partition,
        offset=0,
        end_offset=10,
    )
    answers = BatchAnswers(member.broker(OTHER, World()))
    answer = asyncio.run(running(answers.give(question), member))
    assert answer.code == BatchesCode.REWRITTEN
