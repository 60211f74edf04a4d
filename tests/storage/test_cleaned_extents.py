"""Cleaning of extents: random histories of one partition, split, cleaned, cut and opened anew."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log_world import DIRECTORY, World, partition_number
from penstock.base.ids import LeaderEpoch, Offset
from penstock.compaction.errors import KeyMapTooSmall
from penstock.compaction.sifted import INT64_MAX
from penstock.extents.check import check_extent_file
from penstock.extents.layout import Aborted
from penstock.extents.writer import ExtentFileWriter
from penstock.record.batch import read_header
from penstock.record.build import Record
from penstock.record.read import iter_batches
from penstock.storage.commit_log.segments import ReadGuard
from penstock.storage.config import Retention
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import ProducerStates
from penstock.storage.read.chunk import Chunk
from penstock.storage.read.needs_disk import NeedsDisk
from penstock.storage.second_level.cleaning import (
    NOTHING_CLEANED,
    Cleaned,
    CleaningOrder,
    clean_end,
    clean_extents,
)
from penstock.storage.second_level.split import appending
from penstock.storage.stores.port import EpochEnd, Held
from penstock.storage.stores.rules import RetentionRules
from tests.compaction.histories import (
    APPENDS,
    MARKS,
    TRANSACTIONS,
    Append,
    Log,
    Mark,
    last_values,
    read_committed,
    write,
)
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.second_level import IDENTITY, UNFINISHED, opened, take_over

KEY = partition_number(0)
OTHER = partition_number(1)
SALT = bytes(range(16))
RETENTION_MS = 1_000
LATE = 10**9


@dataclass(frozen=True, slots=True)
class Split:
    """All that is not in an extent yet goes into one."""

    with_other: bool
    """The file has another partition too, so that it stays when this one needs it no longer."""
    is_known: bool = True
    """Whether it is known what was decided; not where an index was rebuilt."""


@dataclass(frozen=True, slots=True)
class Clean:
    later_ms: int
    keys: int
    extent_bytes: int
    extent_ms: int


@dataclass(frozen=True, slots=True)
class Reopen:
    """The node starts again."""


Step = Append | Mark | Split | Clean | Reopen


class Part:
    """One partition: a log, of which extents have the older part."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.disk.make_directory(DIRECTORY)
        self.disk.make_directory(f"{DIRECTORY}/second")
        self.world = World()
        self.guard = ReadGuard()
        self.second = opened(self.world, self.disk, self.guard)
        self.log = Log()
        self.partition = PartitionLog(KEY, 0, ProducerStates(10, 0))
        self.other_end = 0
        self.now = 10_000
        self.cleaned = NOTHING_CLEANED

    @property
    def end(self) -> int:
        held = self.second.held(KEY)
        return 0 if held is None else held.end_offset

    def apply(self, step: Step) -> None:
        match step:
            case Split():
                self.split(step)
            case Clean():
                self.clean(step)
            case Reopen():
                self.world = World()
                self.second = opened(self.world, self.disk, self.guard)
            case _:
                write(self.log, step, self.now)

    def split(self, step: Split) -> None:
        batches = self.log.batches[self.count_below(self.end) :]
        if not batches:
            return
        file = self.disk.open(UNFINISHED, create=True)
        writer = ExtentFileWriter(appending(file), *IDENTITY)
        writer.begin(KEY)
        for batch in batches:
            writer.add(memoryview(batch))
        rows = [row for row in self.log.aborted if row.marker_offset >= self.end]
        aborted = Aborted(*zip(*rows, strict=True)) if rows else Aborted()
        writer.end(aborted, self.log.stable if step.is_known else 0)
        if step.with_other:
            self.add_other(writer)
        writer.finish()
        file.sync()
        assert take_over(self.world, self.second) is None

    def add_other(self, writer: ExtentFileWriter) -> None:
        other = Log(end=self.other_end)
        other.append([Record(b"k", b"v", (), 1)])
        writer.begin(OTHER)
        writer.add(memoryview(other.batches[0]))
        writer.end()
        self.other_end = other.end

    def count_below(self, offset: int) -> int:
        return sum(read_header(memoryview(one)).base_offset < offset for one in self.log.batches)

    def order(self, **changes: Any) -> CleaningOrder:
        extents = tuple(self.second.extents(KEY))
        rules = self.now, INT64_MAX, RETENTION_MS, 24 * 1000, SALT, 1 << 20, 0
        return CleaningOrder(KEY, extents, *rules)._replace(**changes)

    def clean(self, step: Clean) -> None:
        self.now += step.later_ms
        if self.second.held(KEY) is None:
            return
        order = self.order(
            memory_bytes=24 * math.ceil(step.keys / 0.9),
            extent_bytes=step.extent_bytes,
            extent_ms=step.extent_ms,
        )
        try:
            self.cleaned = self.run(order)
        except KeyMapTooSmall:
            return
        if self.cleaned.extents:
            assert take_over(self.world, self.second) is None

    def run(self, order: CleaningOrder) -> Cleaned:
        return clean_extents(self.disk, DIRECTORY, order, unfinished=UNFINISHED, identity=IDENTITY)

    def read(self, start: int = 0) -> list[bytes]:
        """Read from `start` as a consumer does: the extents, then the log."""
        batches, offset = [], start
        while offset < self.end:
            chunk = self.chunk(offset)
            found = [bytes(one) for buffer in chunk.buffers for _, one in iter_batches(buffer)]
            assert found, (offset, chunk)
            batches += found
            offset = min(chunk.next_offset, self.end)
            assert offset > read_header(memoryview(found[-1])).base_offset
        return batches + self.log.batches[self.count_below(max(self.end, start)) :]

    def chunk(self, offset: int, *, limit: int | None = None) -> Chunk:
        answers: list[Any] = []
        end = self.end if limit is None else limit
        read = self.second.read(self.partition, offset, 1 << 20, end)
        assert isinstance(read, NeedsDisk)
        read.load(lambda chunk, error: answers.append(error or chunk))
        self.world.run()
        (chunk,) = answers
        assert isinstance(chunk, Chunk), chunk
        return chunk

    def aborted(self) -> Aborted:
        rows: list[tuple[int, ...]] = []
        if self.end:
            for piece in self.second.decided(self.partition, 0, self.end):
                rows += zip(*piece.aborted.columns, strict=True)
        rows += [row for row in self.log.aborted if row.marker_offset >= self.end]
        return Aborted(*zip(*rows, strict=True)) if rows else Aborted()

    def values(self, batches: Sequence[bytes] | None = None) -> dict[bytes, Any]:
        """What a reader of committed records has of each key in the end."""
        whole = self.read() if batches is None else batches
        return last_values(read_committed(whole, self.aborted()))

    def wanted(self) -> dict[bytes, Any]:
        return last_values(read_committed(self.log.batches, self.log.aborted_below(LATE)))

    def files(self) -> list[str]:
        names = self.disk.list(f"{DIRECTORY}/second")
        return [f"{DIRECTORY}/second/{name}" for name in names if name != "manifest"]

    def check_files(self) -> None:
        for path in self.files():
            file = self.disk.open(path)
            check_extent_file(path, file.size(), file.read)

    def epoch_end(self, epoch: int) -> EpochEnd | None:
        answers: list[Any] = []
        self.second.find_epoch_end(
            self.partition, LeaderEpoch(epoch), lambda end, error: answers.append(error or end)
        )
        self.world.run()
        (end,) = answers
        return end

    def epoch_end_of_the_log(self, epoch: int) -> EpochEnd | None:
        headers = [read_header(memoryview(one)) for one in self.log.batches]
        held = [one for one in headers if one.base_offset < self.end]
        older = [one for one in held if one.leader_epoch <= epoch]
        if not older:
            return None
        newer = [one.base_offset for one in held if one.leader_epoch > epoch]
        return EpochEnd(LeaderEpoch(older[-1].leader_epoch), Offset(min(newer, default=self.end)))


SPLITS = st.builds(Split, st.booleans(), st.sampled_from([True, True, True, False]))
CLEANS = st.builds(
    Clean,
    st.integers(0, 900),
    st.sampled_from([3, 6, 100]),
    st.sampled_from([1, 200, 1 << 20]),
    st.sampled_from([0, 1, 2_000]),
)
SINGLE = st.one_of(APPENDS, APPENDS, MARKS, SPLITS, CLEANS, st.just(Reopen())).map(lambda s: [s])
HISTORIES = st.lists(st.one_of(SINGLE, SINGLE, TRANSACTIONS), min_size=4, max_size=25).map(
    lambda parts: [step for part in parts for step in part]
)


def lived(history: list[Step]) -> Part:
    part = Part()
    for step in history:
        part.apply(step)
    return part


def keyed(part: Part, count: int, keys: int = 3, **changes: Any) -> None:
    for number in range(count):
        record = Record(b"%d" % (number % keys), b"%d" % number, (), 1_000 + number)
        part.log.append([record], **changes)


def cleaned_once() -> Part:
    part = Part()
    keyed(part, 30)
    part.apply(Split(with_other=True))
    keyed(part, 30)
    part.apply(Split(with_other=False))
    part.apply(Clean(0, 100, 1 << 20, 0))
    return part


def test_a_cleaned_range_takes_the_place_of_all_and_their_files_go_when_nobody_needs_them() -> None:
    part = cleaned_once()
    assert part.second.held(KEY) == Held(Offset(0), Offset(60))
    (extent,) = part.second.extents(KEY)
    assert (extent.first_offset, extent.entry.generation) == (0, 1)
    assert part.cleaned.read_bytes > 10 * part.cleaned.kept_bytes
    assert part.second.size_bytes(KEY, 0, 60) == part.cleaned.kept_bytes
    # The first file has the other partition as well, the second one had nothing else.
    assert len(part.files()) == part.second.file_count == 2
    part.apply(Reopen())
    assert part.second.extents(KEY) == [extent]
    assert part.second.held(OTHER) == Held(Offset(0), Offset(1))
    assert part.values() == part.wanted()


def test_a_pass_that_ends_within_an_extent_leaves_the_rest_of_it_as_it_was() -> None:
    part = Part()
    keyed(part, 20, keys=20)
    part.apply(Split(with_other=False))
    part.apply(Clean(0, 7, 1 << 20, 0))
    cleaned, rest = part.second.extents(KEY)
    assert (cleaned.first_offset, cleaned.end_offset) == (0, 7)
    assert (rest.first_offset, rest.entry.first_offset, rest.end_offset) == (7, 0, 20)
    assert part.order().dirty_start == 7
    part.apply(Reopen())
    assert part.second.extents(KEY) == [cleaned, rest]
    found = part.second.search(part.partition, 20).first_at(0, lambda hit: hit)
    assert found is not None
    assert found.base_offset == 0
    for _ in range(3):
        part.apply(Clean(0, 7, 1 << 20, 0))
    assert [one.is_rewritten for one in part.second.extents(KEY)] == [True]


def test_a_range_is_cut_into_extents_by_size_and_by_time() -> None:
    part = Part()
    keyed(part, 40, keys=40)
    part.apply(Split(with_other=False))
    size = len(part.log.batches[0])
    assert part.run(part.order(extent_bytes=10 * size)).extents == 4
    assert part.run(part.order(extent_ms=9)).extents == 4
    assert take_over(part.world, part.second) is None
    spans = [(one.first_offset, one.end_offset) for one in part.second.extents(KEY)]
    assert spans == [(0, 10), (10, 20), (20, 30), (30, 40)]
    assert part.run(part.order(extent_ms=9)) == NOTHING_CLEANED


def test_what_is_younger_than_the_lag_is_left_alone() -> None:
    part = Part()
    keyed(part, 30)
    part.apply(Split(with_other=False))
    part.run(part.order(newest_ms=1_009))
    assert take_over(part.world, part.second) is None
    assert [one.end_offset for one in part.second.extents(KEY)] == [10, 30]


def test_a_transaction_that_is_open_at_the_end_of_the_extents_bounds_the_pass() -> None:
    part = Part()
    keyed(part, 10)
    keyed(part, 10, producer=1, is_open=True)
    part.apply(Split(with_other=False))
    part.apply(Clean(0, 100, 1 << 20, 0))
    assert clean_end(part.second.extents(KEY)) == 10
    part.log.mark(1, is_commit=False, now=part.now)
    # The log knows by now that it was aborted; the extents do not yet.
    assert part.run(part.order()) == NOTHING_CLEANED
    part.apply(Split(with_other=False))
    part.apply(Clean(0, 100, 1 << 20, 0))
    assert clean_end(part.second.extents(KEY)) == 21
    assert part.values() == part.wanted()


def test_a_pass_made_of_what_is_held_no_longer_is_refused() -> None:
    part = cleaned_once()
    keyed(part, 30)
    part.apply(Split(with_other=False))
    part.run(part.order())
    file = part.disk.open(UNFINISHED)
    made = bytes(file.read(0, file.size()))
    assert take_over(part.world, part.second) is None
    held = part.second.extents(KEY)
    file = part.disk.open(UNFINISHED, create=True)
    file.write(0, [made])
    error = take_over(part.world, part.second)
    assert "were not made of what is held" in str(error)
    assert part.second.extents(KEY) == held
    assert part.disk.list(f"{DIRECTORY}/second").count("made.tmp") == 0


def test_a_read_that_has_begun_ends_in_the_file_that_it_began_with() -> None:
    part = Part()
    keyed(part, 30)
    part.apply(Split(with_other=False))
    answers: list[Any] = []
    ticket = part.guard.enter()
    (name,) = part.files()
    part.apply(Clean(0, 100, 1 << 20, 0))
    assert name in part.files()
    read = part.second.read(part.partition, 3, 1 << 20, 30)
    assert isinstance(read, NeedsDisk)
    read.load(lambda chunk, error: answers.append(error or chunk))
    part.guard.leave(ticket)
    part.world.run()
    assert answers[0].first_offset >= 3
    assert name not in part.files()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_pass_that_fails_leaves_no_file(operation: str) -> None:
    part = Part()
    keyed(part, 30)
    part.apply(Split(with_other=False))

    def refuse(asked: str, path: str) -> None:
        if (asked, path) == (operation, UNFINISHED):
            raise OSError(5, "no")

    part.disk.on_operation = refuse
    with pytest.raises(OSError, match="no"):
        part.run(part.order())
    part.disk.on_operation = None
    assert len(part.files()) == 1


def test_retention_drops_the_old_parts_of_a_cleaned_range() -> None:
    part = Part()
    keyed(part, 40, keys=40)
    part.apply(Split(with_other=False))
    part.apply(Clean(0, 100, 1 << 20, 9))
    part.partition.log_end_offset = Offset(part.end)
    rules = RetentionRules(
        {KEY: part.partition}, 2_015, lambda _: Retention(-1, 1_000), lambda _: 0
    )
    part.second.judge(rules, lambda let_go: let_go() if let_go else None)
    part.world.run()
    assert part.partition.log_start_offset == 10
    assert part.second.held(KEY) == Held(Offset(10), Offset(40))
    part.apply(Clean(RETENTION_MS, 100, 1 << 20, 0))
    keyed(part, 10)
    part.apply(Split(with_other=False))
    part.apply(Clean(0, 100, 1 << 20, 0))
    assert part.second.held(KEY) == Held(Offset(10), Offset(50))
    part.apply(Reopen())
    assert part.second.held(KEY) == Held(Offset(10), Offset(50))


def test_a_cut_reaches_into_a_cleaned_range_and_the_rest_is_cleaned_again() -> None:
    part = cleaned_once()
    part.second.cut({KEY: 57})
    del part.log.batches[57:]
    part.log.end = 57
    keyed(part, 30, keys=2)
    part.apply(Reopen())
    assert part.second.held(KEY) == Held(Offset(0), Offset(57))
    part.apply(Split(with_other=False))
    part.apply(Clean(0, 100, 1 << 20, 0))
    assert [one.end_offset for one in part.second.extents(KEY)] == [87]
    left = last_values(read_committed(part.read(), part.aborted()))
    # The newest record of this key was cut off, after older ones were cleaned away.
    assert left.keys() <= {b"0", b"1", b"2"}
    assert {key: left[key] for key in (b"0", b"1")} == {
        key: part.wanted()[key] for key in (b"0", b"1")
    }
    part.check_files()


def test_a_read_of_a_gone_offset_gets_the_next_batch_though_the_log_begins_before_it() -> None:
    """Found by the simulator: nothing was read, and a client would have asked for ever."""
    part = cleaned_once()
    left = read_header(memoryview(part.read()[0])).base_offset
    assert left > 2, "the first offsets are gone"
    assert part.chunk(1, limit=2).first_offset == left


@given(HISTORIES)
def test_a_read_from_the_start_ends_in_the_last_value_of_every_key(history: list[Step]) -> None:
    part = Part()
    for step in history:
        part.apply(step)
        if isinstance(step, Clean | Reopen):
            assert part.values() == part.wanted()
    assert part.values() == part.wanted()
    part.check_files()
    part.apply(Reopen())
    assert part.values() == part.wanted()


@given(HISTORIES)
@settings(max_examples=50)
def test_a_read_from_anywhere_begins_with_the_next_batch_that_is_left(history: list[Step]) -> None:
    part = lived(history)
    whole = part.read()
    for start in range(part.end):
        ends = [read_header(memoryview(one)).last_offset for one in whole]
        assert part.read(start) == [
            one for one, end in zip(whole, ends, strict=True) if end >= start
        ]


@given(HISTORIES)
@settings(max_examples=50)
def test_epochs_end_where_they_ended_before(history: list[Step]) -> None:
    part = lived(history)
    for epoch in range(5, 9 + part.log.end // 10):
        if part.end:
            assert part.epoch_end(epoch) == part.epoch_end_of_the_log(epoch)


@given(HISTORIES)
@settings(max_examples=50)
def test_a_quiet_partition_loses_all_deletes_and_then_nothing_is_due(history: list[Step]) -> None:
    last = Append([Record(b"z", b"1", (), 1)], -1, False, 0, None)
    part = lived([*history, last, Split(with_other=False)])
    if part.log.open:
        return
    for _ in range(3):
        part.apply(Clean(RETENTION_MS + 1, 100, 1 << 20, 0))
        assert part.values() == part.wanted()
    order = part.order(now_ms=part.now + 10 * RETENTION_MS)
    assert clean_end(order.extents) == part.end
    assert not order.has_passed_horizon
    assert part.run(order) == NOTHING_CLEANED
    left = read_committed(part.read(), part.aborted())
    assert all(record.value is not None for record in left)
    assert len(left) == len({record.key for record in left})
