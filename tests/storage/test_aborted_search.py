"""Aborted transactions over several segments, wherever their indexes are."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.log_world import SMALL, World, append, make_batch, open_log, partition_number
from penstock.base.ids import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.index.transactions import TransactionEnd
from penstock.storage.read import aborted_search
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import copy_base, export_of, open_member
from tests.storage.second_level import closed_segments, split, take_over
from tests.storage.store_contract import KEEP

LONG, SHORT, OPEN = 1, 2, 3


class Case:
    """Producers LONG and SHORT begin in the first segment; the marker of LONG is in a later one."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.start()
        self.write(LONG)
        self.write(SHORT)
        self.end(SHORT, commits=False)
        self.short_end = self.partition.log_end_offset

    def start(self) -> None:
        self.world = World()
        self.log: SetLog = open_log(self.world, self.disk, SMALL)
        self.partition = self.log.open_partition(partition_number(0))

    def write(self, producer_id: int) -> None:
        known = self.partition.producers.known(ProducerId(producer_id))
        sequence = 0 if known is None else known.last_sequence + 1
        batch = make_batch(producer=(producer_id, 0, sequence), attributes=TRANSACTIONAL)
        self.log.append(self.partition, batch, read_header(batch))
        self.world.run()

    def end(self, producer_id: int, *, commits: bool) -> None:
        ended = TransactionEnd(
            ProducerId(producer_id), ProducerEpoch(0), CoordinatorEpoch(3), is_commit=commits
        )
        self.log.transactions.append_marker(self.partition, ended)
        self.world.run()

    def fill(self, segments: int = 1) -> None:
        count = len(self.log.parts.store.segments)
        while len(self.log.parts.store.segments) < count + segments:
            append(self.log, self.partition, size=900)
            self.world.run()

    def checkpoint(self) -> bool:
        done: list[bool] = []
        self.log.checkpoint(done.append)
        self.world.run()
        self.world.advance(10_000)
        return done == [True]

    def found(self, start: int, end: int) -> list[tuple[int, int]]:
        results: list[Any] = []
        search = self.log.transactions.find_aborted
        search(self.partition, Offset(start), Offset(end), lambda *one: results.append(one))
        self.world.run()
        ((transactions, error),) = results
        assert error is None
        return [tuple(one) for one in transactions]


def as_it_is(case: Case) -> None:
    del case


def without_caches(case: Case) -> None:
    for segment in case.log.parts.store.segments[:-1]:
        case.log.parts.reader.cache.drop_segment(segment.base)


def without_indexes(case: Case) -> None:
    without_caches(case)
    for name in [name for name in case.disk.names if name.endswith(".idx")]:
        case.disk.remove(name)


def after_a_restart(case: Case) -> None:
    case.checkpoint()
    case.start()


def after_a_restart_without_indexes(case: Case) -> None:
    case.checkpoint()
    without_indexes(case)
    case.start()


def in_extents(case: Case) -> None:
    """Each closed segment goes to a file of the second level of its own, and is released."""
    to_second_level(case, [[segment] for segment in closed_segments(case.log)])


def in_one_extent(case: Case) -> None:
    to_second_level(case, [closed_segments(case.log)])


def in_the_oldest_extent_and_the_log(case: Case) -> None:
    to_second_level(case, [closed_segments(case.log)[:1]])


def in_extents_after_a_restart(case: Case) -> None:
    in_extents(case)
    after_a_restart(case)


def in_extents_and_not_released(case: Case) -> None:
    segments = closed_segments(case.log)
    for one in segments:
        assert split(case.disk, case.log.parts.second_level, [one], (partition_number(0),))
        assert take_over(case.world, case.log.parts.second_level) is None


def to_second_level(case: Case, files: list[list[ClosedSegment]]) -> None:
    second = case.log.parts.second_level
    for segments in files:
        assert split(case.disk, second, segments, (partition_number(0),))
        assert take_over(case.world, second) is None
    case.log.apply_retention(0, lambda _: KEEP)
    case.world.run()
    assert case.partition.commit_log_start_offset > case.partition.log_start_offset


@pytest.mark.parametrize(
    "happens",
    [
        as_it_is,
        without_caches,
        without_indexes,
        after_a_restart,
        after_a_restart_without_indexes,
        in_extents,
        in_one_extent,
        in_the_oldest_extent_and_the_log,
        in_extents_after_a_restart,
        in_extents_and_not_released,
    ],
)
@pytest.mark.parametrize("marker_in", ["the active segment", "the next one", "a closed one"])
@pytest.mark.parametrize("here", ["all", "no transaction", "no closed segment"])
def test_what_a_later_segment_aborts_is_found(
    happens: Callable[[Case], None], marker_in: str, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if here == "no transaction":
        monkeypatch.setattr(aborted_search, "FOUND_HERE_MAX", 0)
    elif here == "no closed segment":
        monkeypatch.setattr(aborted_search, "SEGMENTS_HERE_MAX", 0)
    case = Case()
    case.fill(2 if marker_in != "the next one" else 1)
    case.end(LONG, commits=False)
    if marker_in != "the active segment":
        case.fill(2)
    happens(case)
    assert case.found(0, 10) == [(LONG, 0), (SHORT, 1)]
    assert case.found(case.short_end, case.short_end + 5) == [(LONG, 0)]
    end = case.partition.log_end_offset
    assert case.found(end - 1, end) == ([(LONG, 0)] if marker_in == "the active segment" else [])


def test_a_search_for_many_looks_at_no_more_than_was_there_when_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aborted_search, "FOUND_HERE_MAX", 0)
    case = Case()
    results: list[Any] = []
    search = case.log.transactions.find_aborted
    search(case.partition, Offset(0), Offset(10), lambda *one: results.append(one))
    assert results == []
    case.end(LONG, commits=False)
    assert results == [([(SHORT, 1)], None)]


@pytest.mark.parametrize(
    "happens",
    [as_it_is, without_caches, without_indexes, after_a_restart, in_extents, in_one_extent],
)
def test_what_is_committed_later_is_not_found(happens: Callable[[Case], None]) -> None:
    case = Case()
    case.fill(2)
    case.end(LONG, commits=True)
    case.fill(1)
    happens(case)
    assert case.found(0, 10) == [(SHORT, 1)]


def test_checkpoints_tell_each_aborted_transaction_once() -> None:
    case = Case()
    assert case.checkpoint()
    case.write(OPEN)
    case.end(OPEN, commits=False)
    assert case.checkpoint()
    assert case.checkpoint()
    case.start()
    assert case.found(0, 10) == [(SHORT, 1), (OPEN, 3)] or case.found(0, 10)[0] == (SHORT, 1)
    assert len(case.partition.aborted.last_offsets) == 2


def test_a_new_side_file_has_what_the_one_before_had() -> None:
    case = Case()
    assert case.checkpoint()
    case.disk.capacity = case.disk.used
    case.write(OPEN)
    assert not case.checkpoint()
    case.disk.capacity = 1 << 40
    assert case.checkpoint()
    case.start()
    assert [*case.partition.aborted.producer_ids] == [SHORT]


def test_the_indexes_of_a_copy_say_what_was_decided() -> None:
    case = Case()
    case.fill(2)
    case.end(LONG, commits=False)
    case.fill(2)
    assert case.checkpoint()
    disk = FaultyDisk()
    slave = open_member(case.world, disk)
    slave.follow()
    copy_base(case.world, export_of(case.world, case.log), slave)
    closed = slave.parts.reader.closed()
    lookup = SealedLookup(disk, slave.directory, closed)
    wanted = case.partition.topic_partition
    entries = [
        entry
        for segment in closed
        for entry in lookup.directory_of(segment)
        if entry.topic_partition == wanted
    ]
    assert [entry.stable_end == entry.end_offset for entry in entries] == [
        False,
        False,
        *[True] * (len(entries) - 2),
    ]
    case.log, case.partition = slave, slave.open_partition(wanted)
    assert case.found(0, 10) == [(LONG, 0), (SHORT, 1)]
