"""What every store of partitions must do: the commit log, and whatever stands behind it."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from harness.log_world import World
from penstock.base.ids import LeaderEpoch, Offset
from penstock.record.batch import read_header
from penstock.storage.config import Retention
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import NO_MORE, Chunk
from penstock.storage.stores.port import EpochEnd, Held, PartitionStore, TimestampHit
from penstock.storage.stores.rules import RetentionRules

KEEP = Retention(-1, -1)


class Written(NamedTuple):
    """One batch that a store has."""

    first: Offset
    end: Offset
    timestamp: int
    leader_epoch: int
    body: bytes
    """What is behind the stamps."""


class PieceSeen(NamedTuple):
    """A piece that the rules were asked about."""

    first_offset: int
    end_offset: int
    max_timestamp: int
    batch_bytes: int


class Filled(NamedTuple):
    """A store with batches of one partition, in two or more of its pieces, from offset 0 on."""

    store: PartitionStore
    world: World
    partition: PartitionLog
    batches: list[Written]
    limit_at: Callable[[int], int]
    """Offset at which a batch begins -> the store's limit for it."""

    @property
    def end(self) -> int:
        return self.batches[-1].end

    def read(self, offset: int, max_bytes: int, end: int) -> Chunk:
        """Read, off the loop if it has to be."""
        found = self.store.read(self.partition, Offset(offset), max_bytes, self.limit_at(end))
        if isinstance(found, Chunk):
            return found
        answers: list[Any] = []
        found.load(lambda chunk, error: answers.append(error or chunk))
        self.world.run()
        (chunk,) = answers
        assert isinstance(chunk, Chunk), chunk
        return chunk

    def from_offset(self, offset: int) -> list[Written]:
        return [batch for batch in self.batches if batch.end > offset]

    def epoch_end(self, leader_epoch: int) -> EpochEnd | None:
        answers: list[Any] = []
        self.store.find_epoch_end(
            self.partition,
            LeaderEpoch(leader_epoch),
            lambda end, error: answers.append(error or end),
        )
        self.world.run()
        (end,) = answers
        assert end is None or isinstance(end, EpochEnd), end
        return end


def bodies_of(data: memoryview) -> list[tuple[int, bytes]]:
    """Return (base offset, bytes behind the stamps) of whole batches."""
    found, at = [], 0
    while at < len(data):
        header = read_header(data, at)
        found.append((header.base_offset, bytes(data[at + 16 : at + header.size_bytes])))
        at += header.size_bytes
    assert at == len(data)
    return found


def named(batches: list[Written]) -> list[tuple[int, bytes]]:
    return [(batch.first, batch.body) for batch in batches]


class StoreContract:
    """Inherit, and give a fixture `filled` whose batches have several sizes, times and epochs."""

    def test_it_says_what_it_has(self, filled: Filled) -> None:
        key = filled.partition.topic_partition
        assert filled.store.held(key) == Held(Offset(0), Offset(filled.end))
        assert filled.store.held(key._replace(partition=77)) is None

    def test_a_read_begins_with_the_batch_that_holds_the_offset(self, filled: Filled) -> None:
        for batch in filled.batches:
            for offset in {batch.first, batch.end - 1}:
                chunk = filled.read(offset, 1, filled.end)
                assert chunk.first_offset == batch.first
                assert bodies_of(chunk.data) == named([batch])

    @pytest.mark.parametrize("max_bytes", [1, 700, 5_000, 1 << 20])
    def test_whole_batches_follow_one_another_to_the_end(
        self, filled: Filled, max_bytes: int
    ) -> None:
        found, offset = [], 0
        while offset < filled.end:
            chunk = filled.read(offset, max_bytes, filled.end)
            read = bodies_of(chunk.data)
            assert len(read) == 1 or chunk.size <= max_bytes
            found += read
            behind = filled.from_offset(offset)[len(read) :]
            offset = behind[0].first if behind else filled.end
            assert chunk.next_offset in {offset, NO_MORE}
        assert found == named(filled.batches)

    def test_nothing_at_or_above_the_limit_is_given(self, filled: Filled) -> None:
        for below, at in pairwise(filled.batches):
            assert bodies_of(filled.read(below.first, 1 << 20, at.first).data) == named([below])
            last = bodies_of(filled.read(0, 1 << 20, at.first).data)[-1]
            assert last[0] <= below.first

    def test_a_look_by_time_finds_the_first_batch_that_is_not_older(self, filled: Filled) -> None:
        times = {batch.timestamp for batch in filled.batches}
        search = filled.store.search(filled.partition, filled.limit_at(filled.end))
        for time in sorted(times | {one + 1 for one in times}):
            expected = next((batch for batch in filled.batches if batch.timestamp >= time), None)
            found = search.first_at(time, lambda hit: hit)
            assert (found and found.base_offset) == (expected and expected.first)
            if found is not None and expected is not None:
                assert bodies_of(found.batch) == named([expected])
                assert found.max_timestamp == expected.timestamp

    def test_a_look_by_time_goes_on_until_the_batch_is_taken(self, filled: Filled) -> None:
        search = filled.store.search(filled.partition, filled.limit_at(filled.end))
        seen: list[int] = []

        def examine(hit: TimestampHit) -> int | None:
            seen.append(hit.base_offset)
            return hit.base_offset if len(seen) == 5 else None

        assert search.first_at(0, examine) == filled.batches[4].first
        assert seen == [batch.first for batch in filled.batches[:5]]

    def test_the_newest_batch_is_the_first_with_the_largest_time(self, filled: Filled) -> None:
        largest = max(batch.timestamp for batch in filled.batches)
        expected = next(batch for batch in filled.batches if batch.timestamp == largest)
        newest = filled.store.search(filled.partition, filled.limit_at(filled.end)).newest()
        assert newest is not None
        assert (newest.base_offset, newest.max_timestamp) == (expected.first, largest)

    def test_a_look_by_time_stays_between_log_start_and_limit(self, filled: Filled) -> None:
        half = filled.batches[len(filled.batches) // 2]
        search = filled.store.search(filled.partition, filled.limit_at(half.first))
        below = [batch for batch in filled.batches if batch.end <= half.first]
        assert search.first_at(max(one.timestamp for one in below) + 1, lambda hit: hit) is None
        filled.partition.raise_log_start(Offset(half.first))
        search = filled.store.search(filled.partition, filled.limit_at(filled.end))
        found = search.first_at(0, lambda hit: hit)
        assert found is not None
        assert found.base_offset == half.first
        newest = search.newest()
        assert newest is not None
        assert newest.base_offset >= half.first

    def test_an_epoch_ends_where_the_next_one_begins(self, filled: Filled) -> None:
        epochs = sorted({batch.leader_epoch for batch in filled.batches})
        assert len(epochs) > 2
        for epoch, following in pairwise(epochs):
            end = next(batch.first for batch in filled.batches if batch.leader_epoch == following)
            for asked in range(epoch, following):
                assert filled.epoch_end(asked) == EpochEnd(LeaderEpoch(epoch), Offset(end))
        newest = filled.epoch_end(epochs[-1])
        assert newest is not None
        assert newest.leader_epoch == epochs[-1]
        assert newest.end_offset >= filled.end
        assert filled.epoch_end(epochs[0] - 1) is None

    def test_pieces_are_judged_from_the_oldest_on_and_without_a_gap(self, filled: Filled) -> None:
        seen: list[PieceSeen] = []
        assert judged(filled, KEEP, 0, seen) is None
        assert len(seen) > 1
        assert seen[0].first_offset == 0
        assert all(one.end_offset == next_.first_offset for one, next_ in pairwise(seen))
        for piece in seen:
            inside = [
                batch
                for batch in filled.batches
                if piece.first_offset <= batch.first and batch.end <= piece.end_offset
            ]
            assert piece.batch_bytes == sum(len(one.body) + 16 for one in inside)
            assert piece.max_timestamp == max(one.timestamp for one in inside)
        assert filled.partition.log_start_offset == 0

    def test_what_is_not_needed_goes_when_it_may_and_not_before(self, filled: Filled) -> None:
        # The first piece alone is too old.
        pieces: list[PieceSeen] = []
        judged(filled, KEEP, 0, pieces)
        start = pieces[0].end_offset
        limit_ms = pieces[0].max_timestamp + 1
        assert pieces[1].max_timestamp >= limit_ms
        let_go = judged(filled, Retention(-1, 0), limit_ms, [])
        assert filled.partition.log_start_offset == start
        assert let_go is not None
        let_go()
        filled.world.run()
        held = filled.store.held(filled.partition.topic_partition)
        assert held == Held(Offset(start), Offset(filled.end))
        chunk = filled.read(start, 1 << 20, filled.end)
        assert bodies_of(chunk.data)[0] == named(filled.from_offset(start))[0]


def judged(filled: Filled, settings: Retention, now_ms: int, seen: list[PieceSeen]) -> Any:
    """Let the store judge its pieces; `seen` gets them. Returns what lets go."""
    key = filled.partition.topic_partition
    rules = RetentionRules({key: filled.partition}, now_ms, lambda _: settings, lambda _: 0)
    ask = rules.is_needed

    def note(partition: PartitionLog, own: Retention, piece: Any) -> bool:
        assert own is settings
        fields = (getattr(piece, name) for name in PieceSeen._fields)
        seen.append(PieceSeen(*fields))
        return ask(partition, own, piece)

    rules.is_needed = note  # type: ignore[method-assign, assignment]
    answers: list[Any] = []
    filled.store.judge(rules, answers.append)
    filled.world.run()
    (let_go,) = answers
    return let_go
