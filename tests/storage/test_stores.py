"""The stores of partitions: each by the contract, then a store behind a commit log as one log."""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from harness.log_world import (
    ALL,
    SMALL,
    World,
    make_batch,
    open_log,
    partition_number,
    read_all,
    read_chunk,
)
from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.base.ports import Disk
from penstock.record.batch import read_header
from penstock.runtime.io.disk import FileDisk
from penstock.storage.commit_log.pins import Pin
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import Retention
from penstock.storage.errors import CorruptLog, OffsetOutOfRange, ReadFailed
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.stores.older import SearchInOrder
from penstock.storage.stores.port import EpochEnd, OlderStore, PartitionStore
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import copy_base, crashes, export_of, open_member, settle
from tests.storage.run_store import RunSearch, RunStore
from tests.storage.store_contract import KEEP, Filled, StoreContract, Written, bodies_of, named

KEY = partition_number(0)
OTHER = partition_number(1)
EPOCHS = {0: 1, 80: 3, 170: 4}
"""Batch at which a mastership begins."""
BATCHES = 260


class Filling(NamedTuple):
    """What was appended to a log, and where each batch lies."""

    batches: list[Written]
    positions: dict[int, Position]
    """Base offset -> a position at or below the batch's frame, and above the one before."""


def fill(world: World, log: SetLog, batches: int = BATCHES) -> Filling:
    """Append batches of one partition, with one of another between some of them."""
    random = Random(7)
    partition, other = log.open_partition(KEY), log.open_partition(OTHER)
    written: list[Written] = []
    positions: dict[int, Position] = {}
    for number in range(batches):
        if EPOCHS.get(number, 1) > log.leader_epoch:
            log.begin_epoch(LeaderEpoch(EPOCHS[number]))
            world.run()
        timestamp = 1000 + 10 * number + random.randrange(200)
        size = random.choice((200, 900, 1500))
        data = make_batch(
            records=random.choice((1, 2, 5)), size=size, timestamp=timestamp, fill=number
        )
        header = read_header(data)
        first = partition.log_end_offset
        positions[first] = log.end_position
        log.append(partition, data, header)
        end = partition.log_end_offset
        written.append(Written(first, end, timestamp, log.leader_epoch, bytes(data[16:])))
        if number % 20 == 0:
            own = make_batch(timestamp=timestamp)
            log.append(other, own, read_header(own))
        world.run()
    positions[partition.log_end_offset] = log.end_position
    return Filling(written, positions)


class TestCommitLog(StoreContract):
    @pytest.fixture
    def filled(self, tmp_path: Path) -> Filled:
        world = World()
        log = open_log(world, FileDisk(tmp_path))
        filling = fill(world, log)
        partition = log.open_partition(KEY)
        store: PartitionStore = log.parts.commit_log
        return Filled(store, world, partition, filling.batches, filling.positions.__getitem__)


class TestRuns(StoreContract):
    @pytest.fixture
    def filled(self, tmp_path: Path) -> Filled:
        world = World()
        disk = FileDisk(tmp_path)
        log = open_log(world, disk)
        filling = fill(world, log)
        partition = log.open_partition(KEY)
        runs: PartitionStore = copied(world, log, RunStore(world, disk), ends=(50, 120, BATCHES))
        return Filled(runs, world, partition, filling.batches, int)


def copied(world: World, log: SetLog, runs: RunStore, *, ends: tuple[int, ...]) -> RunStore:
    """Copy batches of the partition into runs that end behind so many batches of it."""
    partition = log.open_partition(KEY)
    whole = [
        data
        for offset, _ in read_all(world, log, partition)
        for data in [read_chunk(world, log, partition, offset, 1).data]
    ]
    for start, end in pairwise((0, *ends)):
        runs.put(KEY, whole[start:end])
    return runs


class Pair(NamedTuple):
    """A log whose older part another store has, and one that has everything itself."""

    world: World
    disk: FaultyDisk
    runs: Any  # a RunStore, or another older store
    log: SetLog
    whole: tuple[World, SetLog]
    filling: Filling

    @property
    def partition(self) -> PartitionLog:
        return self.log.open_partition(KEY)

    def retain(self, settings: Retention = KEEP, now_ms: int = 0) -> None:
        """Let a pass of retention go over the log; the other partition keeps nothing."""
        nothing = Retention(0, -1)
        self.log.apply_retention(now_ms, lambda key: settings if key == KEY else nothing)
        self.world.run()

    def reopened(self) -> "Pair":
        """Start again from the files."""
        world = World()
        runs = RunStore(world, self.disk)
        log = open_log_over(world, self.disk, runs)
        return self._replace(world=world, runs=runs, log=log)


def open_log_over(world: World, disk: Disk, *older: OlderStore) -> SetLog:
    return SetLog.recover(
        disk=disk,
        directory="set-1",
        config=SMALL,
        clock=world,
        offload=world,
        scheduler=world,
        older=older,
    )


RUN_ENDS = (60, 180)
"""In batches: 180 reach into the third segment, and into a third mastership."""


@pytest.fixture
def pair() -> Pair:
    world, disk = World(), FaultyDisk()
    runs = RunStore(world, disk)
    log = open_log_over(world, disk, runs)
    log.begin_epoch(LeaderEpoch(1))
    filling = fill(world, log)
    copied(world, log, runs, ends=RUN_ENDS)
    whole_world = World()
    whole = open_log(whole_world, FaultyDisk())
    fill(whole_world, whole)
    return Pair(world, disk, runs, log, (whole_world, whole), filling)


def segments_of(pair: Pair) -> list[int]:
    return [segment.base for segment in pair.log.parts.store.segments]


def check_same_answers(pair: Pair) -> None:
    """Compare every read, look by time and epoch end of both logs."""
    both = [
        (world, log, log.open_partition(KEY)) for world, log in ((pair.world, pair.log), pair.whole)
    ]
    start = pair.partition.log_start_offset
    kept = [batch for batch in pair.filling.batches if batch.end > start]
    for each in both:
        assert [one for one in read_all(*each) if one[0] >= kept[0].first] == named(kept)
    for one in kept[::7]:
        chunks = [read_chunk(*each, one.end - 1, 1) for each in both]
        assert chunks[0].first_offset == chunks[1].first_offset == one.first
        assert chunks[0].data == chunks[1].data
    times = sorted({one.timestamp for one in kept})
    for time in [*times[::7], times[-1], None]:
        looks = [looked(*each, kept[0].first, time) for each in both]
        assert looks[0] == looks[1]
    for epoch in EPOCHS.values():
        ends = [epoch_end(*each, epoch) for each in both]
        assert ends[1] is not None
        if ends[1].end_offset > start:
            assert ends[0] == ends[1]
        else:
            assert ends[0] is None or ends[0].end_offset <= start


def looked(world: World, log: SetLog, partition: PartitionLog, start: int, time: int | None) -> Any:
    def examine(hit: Any) -> tuple[int, int, bytes] | None:
        taken = hit.base_offset >= start or time is None
        return (hit.base_offset, hit.max_timestamp, bytes(hit.batch)) if taken else None

    answers: list[Any] = []

    def done(found: Any, error: Any) -> None:
        answers.append(error or found)

    if time is None:
        log.offset_for_max_timestamp(partition, ALL, done, examine=examine)
    else:
        log.offset_for_timestamp(partition, time, ALL, done, examine=examine)
    world.run()
    (answer,) = answers
    return answer


def epoch_end(world: World, log: SetLog, partition: PartitionLog, epoch: int) -> EpochEnd | None:
    told: list[Any] = []
    log.find_epoch_end(partition, LeaderEpoch(epoch), lambda *one: told.append(one[1] or one[0]))
    world.run()
    (answer,) = told
    assert answer is None or isinstance(answer, EpochEnd), answer
    return answer


def test_what_an_older_store_has_the_commit_log_releases_and_every_answer_stays(pair: Pair) -> None:
    before = segments_of(pair)
    check_same_answers(pair)
    pair.retain()
    partition = pair.partition
    assert partition.log_start_offset == 0
    held = pair.runs.held(KEY)
    assert held is not None
    assert 0 < partition.commit_log_start_offset <= held.end_offset
    assert segments_of(pair) == before[2:], "two segments are in the runs as a whole"
    check_same_answers(pair)
    assert partition.size_bytes == sum(
        len(batch.body) + 16
        for batch in pair.filling.batches
        if batch.first >= partition.commit_log_start_offset
    )


def test_chunks_of_an_older_store_end_where_the_commit_log_begins(pair: Pair) -> None:
    pair.retain()
    start = pair.partition.commit_log_start_offset
    before = [batch for batch in pair.filling.batches if batch.first < start]
    chunk = read_chunk(pair.world, pair.log, pair.partition, 0)
    assert bodies_of(chunk.data) == named(before)
    assert chunk.next_offset == start


def test_a_limit_below_what_was_released_gets_nothing(pair: Pair) -> None:
    pair.retain()
    released = pair.log.parts.older.released_position
    assert released == segments_of(pair)[0]
    assert read_chunk(pair.world, pair.log, pair.partition, 0, limit=released - 1).size == 0
    assert read_chunk(pair.world, pair.log, pair.partition, 0, limit=released).size
    # A look by time has the same limit: neither the store's batches nor the commit log's are below.
    found: list[Any] = []
    below = Position(released - 1)
    pair.log.offset_for_timestamp(
        pair.partition, 0, below, lambda *answer: found.append(answer), examine=lambda hit: 1
    )
    pair.world.run()
    assert found == [(None, None)]


def test_offsets_outside_of_the_log_are_refused_as_before(pair: Pair) -> None:
    pair.retain()
    pair.log.delete_records(pair.partition, pair.filling.batches[3].first)
    for offset in (0, pair.filling.batches[3].first - 1, pair.partition.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            pair.log.read(pair.partition, Offset(offset), 1, ALL)


def test_a_store_that_lost_its_runs_fails_the_read_and_not_the_node(pair: Pair) -> None:
    pair.retain()
    pair.runs.drop_all()
    with pytest.raises(ReadFailed, match="no store has offset 0"):
        pair.log.read(pair.partition, Offset(0), 1, ALL)


def test_a_segment_stays_for_a_partition_that_no_older_store_has(pair: Pair) -> None:
    before = segments_of(pair)
    pair.log.apply_retention(0, lambda _: KEEP)
    pair.world.run()
    assert segments_of(pair) == before
    assert pair.log.pins.segments[0].pin is Pin.PARTITIONS
    assert pair.log.pins.segments[0].partitions == (OTHER,)
    assert pair.partition.commit_log_start_offset > pair.filling.batches[80].first
    for begun in (0, 80):  # the second time nothing is left of the first mastership
        pair.log.delete_records(pair.partition, pair.filling.batches[begun].first)
        check_same_answers(pair)


def test_age_takes_from_the_older_store_first_and_leaves_the_commit_log(pair: Pair) -> None:
    pair.retain()
    commit_log_start = pair.partition.commit_log_start_offset
    batches = pair.filling.batches
    limit_ms = max(batch.timestamp for batch in batches[: RUN_ENDS[0]]) + 1
    pair.retain(Retention(-1, 0), limit_ms)
    assert pair.partition.log_start_offset == batches[RUN_ENDS[0]].first
    assert pair.partition.commit_log_start_offset == commit_log_start
    held = pair.runs.held(KEY)
    assert held is not None
    assert held.start_offset == batches[RUN_ENDS[0]].first
    check_same_answers(pair)


def test_size_counts_what_all_stores_keep(pair: Pair) -> None:
    pair.retain()
    batches = pair.filling.batches
    first_run = sum(len(batch.body) + 16 for batch in batches[: RUN_ENDS[0]])
    commit_log_start = pair.partition.commit_log_start_offset
    kept = pair.partition.size_bytes + pair.log.parts.older.size_bytes(pair.partition)
    pair.retain(Retention(kept - first_run + 1, -1))
    assert pair.partition.log_start_offset == 0
    pair.retain(Retention(kept - first_run, -1))
    assert pair.partition.log_start_offset == batches[RUN_ENDS[0]].first
    assert pair.partition.commit_log_start_offset == commit_log_start
    check_same_answers(pair)


def test_age_goes_on_from_the_older_store_into_the_commit_log(pair: Pair) -> None:
    pair.retain()
    before = segments_of(pair)
    batches = pair.filling.batches
    pair.retain(Retention(-1, 0), max(batch.timestamp for batch in batches[:235]) + 1)
    partition = pair.partition
    assert (
        partition.log_start_offset == partition.commit_log_start_offset > batches[RUN_ENDS[1]].first
    )
    assert pair.runs.held(KEY) is None
    assert len(segments_of(pair)) < len(before)
    check_same_answers(pair)


def test_deleted_records_go_from_whichever_store_has_them(pair: Pair) -> None:
    pair.retain()
    commit_log_start = pair.partition.commit_log_start_offset
    inside = pair.filling.batches[RUN_ENDS[0] + 3].first
    pair.log.delete_records(pair.partition, inside)
    assert pair.partition.commit_log_start_offset == commit_log_start
    check_same_answers(pair)
    pair.retain()
    held = pair.runs.held(KEY)
    assert held is not None
    assert held.start_offset == pair.filling.batches[RUN_ENDS[0]].first, "its run has kept ones too"
    check_same_answers(pair)
    pair.log.delete_records(pair.partition, pair.filling.batches[200].first)
    assert pair.partition.commit_log_start_offset == pair.filling.batches[200].first
    pair.retain()
    assert pair.runs.held(KEY) is None
    check_same_answers(pair)


def test_a_start_finds_the_boundary_in_the_files(pair: Pair) -> None:
    pair.retain()
    commit_log_start = pair.partition.commit_log_start_offset
    released = pair.log.parts.older.released_position
    again = pair.reopened()
    assert again.partition.log_start_offset == 0
    assert again.partition.commit_log_start_offset == commit_log_start
    assert again.log.parts.older.released_position == released
    check_same_answers(again)
    again.retain(Retention(-1, 0), max(batch.timestamp for batch in again.filling.batches[:60]) + 1)
    assert again.partition.log_start_offset == again.filling.batches[60].first
    check_same_answers(again)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_log_that_is_cut_below_its_snapshots_keeps_what_the_older_store_has(
    pair: Pair, is_trimmed: bool
) -> None:
    pair.retain()
    first = pair.filling.batches[30 if is_trimmed else 0].first
    pair.log.delete_records(pair.partition, first)
    pair.log.checkpoint()
    pair.world.run()
    cut = pair.filling.batches[230].first
    settle(pair.world, pair.log.truncate, pair.filling.positions[cut])
    for again in (pair, pair.reopened()):
        assert again.partition.log_start_offset == first
        assert 0 < again.partition.commit_log_start_offset < again.partition.log_end_offset == cut
        kept = [batch for batch in again.filling.batches if first <= batch.first < cut]
        found = read_all(again.world, again.log, again.partition)
        assert [one for one in found if one[0] >= first] == named(kept)


def test_a_start_refuses_a_gap_between_the_stores(pair: Pair) -> None:
    pair.retain()
    pair.runs.drop_all()
    with pytest.raises(CorruptLog, match="no store has offsets 0 to"):
        pair.reopened()


def test_a_start_refuses_a_store_that_has_more_than_the_log(pair: Pair) -> None:
    batch = memoryview(bytearray(make_batch()))
    batch[:8] = (pair.partition.log_end_offset + 5).to_bytes(8, "big")
    pair.runs.put(KEY, [batch])
    with pytest.raises(CorruptLog, match="a store has"):
        pair.reopened()


def test_with_an_older_snapshot_the_log_start_is_what_the_oldest_store_has(pair: Pair) -> None:
    pair.retain(Retention(-1, 0), max(batch.timestamp for batch in pair.filling.batches[:60]) + 1)
    newest = max(name for name in pair.disk.names if name.endswith(".snap"))
    pair.disk.names[newest].data[20] ^= 1
    again = pair.reopened()
    assert again.partition.log_start_offset == again.filling.batches[60].first
    assert again.partition.commit_log_start_offset > again.filling.batches[60].first
    check_same_answers(again)


def test_a_copy_of_the_commit_log_alone_begins_where_it_begins(pair: Pair) -> None:
    pair.retain()
    pair.log.checkpoint()
    pair.world.run()
    slave = open_member(pair.world, FaultyDisk())
    export = export_of(pair.world, pair.log)
    copy_base(pair.world, export, slave)
    export.release()
    own = slave.open_partition(KEY)
    assert own.log_start_offset == own.commit_log_start_offset
    assert own.log_start_offset == pair.partition.commit_log_start_offset
    expected = [batch for batch in pair.filling.batches if batch.first >= own.log_start_offset]
    assert read_all(pair.world, slave, own) == named(expected)
    assert own.size_bytes == sum(len(one.body) + 16 for one in expected)


def test_the_newest_store_that_has_an_offset_gives_it(pair: Pair) -> None:
    # Three in a row: the oldest has both runs, the middle one only the second.
    middle = RunStore(pair.world, pair.disk, "middle")
    partition = pair.partition
    batches = [
        read_chunk(pair.world, pair.log, partition, batch.first, 1).data
        for batch in pair.filling.batches[RUN_ENDS[0] : RUN_ENDS[1]]
    ]
    middle.put(KEY, batches)
    pair.retain()
    log = open_log_over(pair.world, pair.disk, middle, pair.runs)
    three = pair._replace(log=log)
    check_same_answers(three)
    boundary = pair.filling.batches[RUN_ENDS[0]].first
    chunk = read_chunk(pair.world, log, three.partition, 0)
    assert chunk.next_offset == boundary, "the oldest gives nothing that the middle one has"
    middle.drop_all()
    check_same_answers(three)


def test_of_two_batches_with_the_largest_time_the_older_stores_is_told() -> None:
    def search(first: int) -> RunSearch:
        data = bytearray(make_batch(timestamp=9000))
        data[:8] = first.to_bytes(8, "big")
        batch = memoryview(data)
        return RunSearch(lambda: iter([(read_header(batch), batch)]))

    newest = SearchInOrder([search(3), search(7)]).newest()
    assert newest is not None
    assert newest.base_offset == 3


def test_killed_at_any_operation_of_a_pass_nothing_is_lost(pair: Pair) -> None:
    state: dict[str, Any] = {}
    limit_ms = max(batch.timestamp for batch in pair.filling.batches[:60]) + 1

    def operation() -> None:
        world, disk = World(), FaultyDisk()
        for directory in pair.disk.files.directories:
            disk.make_directory(directory)
        for name, node in pair.disk.names.items():
            disk.replace(name, bytes(node.data))
        runs = RunStore(world, disk)
        log = open_log_over(world, disk, runs)
        state.update(disk=disk)
        disk.on_operation = state["hook"]
        own = pair._replace(world=world, disk=disk, runs=runs, log=log)
        own.retain()
        own.retain(Retention(-1, 0), limit_ms)

    for _ in crashes(operation, state):
        world = World()
        runs = RunStore(world, state["disk"])
        log = open_log_over(world, state["disk"], runs)
        own = pair._replace(world=world, disk=state["disk"], runs=runs, log=log)
        found = read_all(world, log, own.partition)
        start = own.partition.log_start_offset
        assert start in {0, pair.filling.batches[60].first}
        assert found == named([batch for batch in pair.filling.batches if batch.first >= start])
    assert state["steps"] > 10
