"""Reads: the right batches, whole, within the limits; from memory, from cache, from the disk."""

import errno
from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.log_world import (
    ALL,
    SMALL,
    World,
    append,
    batches_of,
    open_log,
    partition_number,
    read_all,
    read_chunk,
)
from penstock.base.ids import Offset, Position
from penstock.storage import compiled
from penstock.storage.errors import OffsetOutOfRange, ReadFailed
from penstock.storage.index.block_cache import SEGMENTS_MAX, BlockCache, SealedSegment
from penstock.storage.index.lookup import Block
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.sealed_index import Sealed
from penstock.storage.read import regions
from penstock.storage.read.chunk import NO_MORE, Chunk, Wanted, make_plan
from penstock.storage.read.regions import GAP_BYTES_MAX, PIECES_MAX, REGION_BYTES_MAX
from simulator.kernel.disk_file import SimFile
from tests.storage.faulty_disk import FaultyDisk


@pytest.fixture
def world():
    return World()


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def log(world, disk):
    return open_log(world, disk)


def filled(world, log, partitions=1, batches=20, size=500):
    logs = [log.open_partition(partition_number(number)) for number in range(partitions)]
    for number in range(batches):
        for partition in logs:
            append(log, partition, size=size, fill=number)
        world.run()
    return logs


def test_a_read_begins_with_the_batch_that_holds_the_offset(world, log):
    partition = log.open_partition(partition_number(0))
    append(log, partition, records=5)
    append(log, partition, records=5)
    world.run()
    chunk = read_chunk(world, log, partition, 7)
    assert chunk.first_offset == 5
    assert [header.base_offset for header, _ in batches_of(chunk.data)] == [5]


def test_as_many_whole_batches_as_fit_and_at_least_one(world, log):
    (partition,) = filled(world, log, size=500)
    assert read_chunk(world, log, partition, 0, 1).size == 500
    assert read_chunk(world, log, partition, 0, 999).size == 500
    assert read_chunk(world, log, partition, 0, 1000).size == 1000
    assert read_chunk(world, log, partition, 0, 100_000).size == 10_000


def test_nothing_at_or_above_the_limit_position_is_returned(world, log):
    partition = log.open_partition(partition_number(0))
    append(log, partition)
    world.run()
    limit = log.end_position
    append(log, partition)
    world.run()
    assert read_chunk(world, log, partition, 0, 10_000, limit).size == 100
    assert read_chunk(world, log, partition, 0, 10_000, limit - 1).size == 0
    assert read_chunk(world, log, partition, 1, 10_000, limit).size == 0


def test_what_is_not_written_yet_is_not_served(world, log):
    partition = log.open_partition(partition_number(0))
    append(log, partition)
    assert read_chunk(world, log, partition, 0, 100, ALL).size == 0
    world.turn()
    assert read_chunk(world, log, partition, 0, 100, ALL).size == 100


def test_offsets_outside_of_the_log_are_refused(world, log):
    (partition,) = filled(world, log, batches=5)
    log.delete_records(partition, 2)
    for offset in (0, 1, 6, -1):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(partition, offset, 100, ALL)
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (2, 5)
    assert read_chunk(world, log, partition, 5).size == 0


def test_interleaved_partitions_are_told_apart(world, log):
    logs = filled(world, log, partitions=7, batches=100, size=300)
    for partition in logs:
        assert len(read_all(world, log, partition)) == 100


def test_a_chunk_says_where_the_next_one_begins(world, log):
    (partition,) = filled(world, log, size=500)
    chunk = read_chunk(world, log, partition, 3, 1000)
    assert (chunk.first_offset, chunk.next_offset, chunk.is_cut) == (3, 5, True)
    chunk = read_chunk(world, log, partition, 3, 100_000)
    assert (chunk.next_offset, chunk.is_cut) == (NO_MORE, False)


@pytest.mark.parametrize("is_cold", [False, True])
def test_the_end_of_a_segment_says_where_the_next_one_goes_on(world, log, disk, is_cold):
    (partition,) = filled(world, log, batches=400, size=500)
    disk.is_cold = is_cold
    ends, offset = [], 0
    while offset != NO_MORE:
        chunk = read_chunk(world, log, partition, offset, 1 << 20)
        assert chunk.first_offset == offset
        offset += len(batches_of(chunk.data))
        ends.append(offset)
        assert chunk.is_cut == (chunk.next_offset != NO_MORE)
        assert chunk.next_offset in {offset, NO_MORE}
        offset = chunk.next_offset
    assert len(ends) == len(log.writer._store.segments) > 2
    assert ends[-1] == partition.log_end_offset


def test_a_limit_within_a_closed_segment_is_the_end_of_what_can_be_read(world, log):
    (partition,) = filled(world, log, batches=400, size=500)
    chunk = read_chunk(world, log, partition, 0, limit=5000)
    assert chunk.size
    assert (chunk.next_offset, chunk.is_cut) == (NO_MORE, False)


def test_what_was_just_closed_is_read_without_a_look_at_the_disk(world, log):
    (partition,) = filled(world, log, batches=400)
    assert partition.bases[0] > 10
    assert not log.writer._store.closing
    chunk = log.read(partition, 0, 1000, ALL)
    assert isinstance(chunk, Chunk)
    assert [header.base_offset for header, _ in batches_of(chunk.data)] == [0, 1]


def test_reads_of_closed_segments_come_from_memory_after_the_first_one(world, log, disk):
    filled(world, log, batches=400)
    log.close()
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    assert partition.bases[0] > 10
    assert not isinstance(log.read(partition, 0, 1000, ALL), Chunk)
    read_chunk(world, log, partition, 0)
    assert isinstance(log.read(partition, 1, 1000, ALL), Chunk)


def test_bytes_that_are_not_in_the_page_cache_are_loaded_off_the_loop(world, log, disk):
    (partition,) = filled(world, log, batches=5)
    disk.is_cold = True
    found = log.read(partition, 0, 1000, ALL)
    assert not isinstance(found, Chunk)
    assert found.size == 1000
    assert len(read_all(world, log, partition)) == 5


def test_what_the_page_cache_has_of_a_read_is_answered_and_the_rest_comes_next(
    world, disk, monkeypatch
):
    log = open_log(world, disk, replace(SMALL, segment_bytes=1 << 20))
    ours, other = (log.open_partition(partition_number(number)) for number in range(2))
    for _ in range(10):
        append(log, ours, size=20_000)
        append(log, other, size=20_000)
        world.run()
    whole = log.read(ours, Offset(0), 1 << 20, ALL)
    assert isinstance(whole, Chunk)
    gather = SimFile.gather_cached

    def have(count):
        monkeypatch.setattr(SimFile, "gather_cached", lambda *of: gather(of[0], of[1][:count]))

    have(6)
    found = log.read(ours, Offset(0), 1 << 20, ALL)
    assert isinstance(found, Chunk)
    headers = [header for header, _ in batches_of(whole.data)]
    assert found.data == whole.data[: found.size]
    assert [header.base_offset for header, _ in batches_of(found.data)] == [
        header.base_offset for header in headers[:6]
    ]
    assert found.is_cut
    assert found.next_offset == headers[6].base_offset
    rest = log.read(ours, Offset(found.next_offset), 1 << 20, ALL)
    assert isinstance(rest, Chunk)
    assert found.size + rest.size == whole.size
    assert not rest.is_cut
    have(2)
    assert not isinstance(log.read(ours, Offset(0), 1 << 20, ALL), Chunk), (
        "too little to be sent alone"
    )
    assert read_chunk(world, log, ours, 0).data == whole.data


def test_a_disk_that_gives_nothing_back_is_a_typed_error(world, log, disk):
    (partition,) = filled(world, log, batches=5)
    disk.is_cold = True
    disk.fail("read", ".log", errno.EIO)
    with pytest.raises(ReadFailed):
        read_chunk(world, log, partition, 0)
    assert read_chunk(world, log, partition, 0).size == 2500


def test_where_a_position_lies_is_not_known_to_a_disk_that_gives_nothing_back(world, disk):
    log = open_log(world, disk, SMALL)
    filled(world, log, batches=200)
    log.close()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(partition_number(0))
    assert log.known_offset_at(partition, Position(1)) is None
    found: list[tuple[int | None, Exception | None]] = []
    for _ in range(2):
        disk.fail("read", ".idx", errno.EMFILE)
        log.find_offset_at(partition, Position(1), lambda *result: found.append(result))
        world.run()
        log.find_offset_at(partition, Position(1), lambda *result: found.append(result))
        world.run()
    (nothing, error), *others = found
    assert nothing is None
    assert isinstance(error, ReadFailed)
    assert others == [(0, None)] * 3  # from the disk, and then from memory


def test_a_page_cache_that_reports_an_error_is_a_typed_error_too(world, log, disk):
    (partition,) = filled(world, log, batches=5)
    disk.fail("read_cached", ".log", errno.EIO)
    with pytest.raises(ReadFailed):
        log.read(partition, 0, 1000, ALL)


def test_a_segment_is_not_taken_away_under_a_read(world, log, disk):
    from penstock.storage.config import Retention

    filled(world, log, batches=400)
    log.close()
    log = open_log(world, disk)  # nothing of the index is in memory
    partition = log.open_partition(partition_number(0))
    found = log.read(partition, 0, 1000, ALL)
    answers = []
    found.load(lambda chunk, error: answers.append((chunk, error)))
    load = world.work.pop()
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert partition.log_start_offset > 2
    world.work.append(load)
    world.run()
    chunk, error = answers[0]
    assert error is None
    assert [header.base_offset for header, _ in batches_of(chunk.data)] == [0, 1]


def test_open_files_and_cached_blocks_stay_within_their_bounds(world, disk):
    from dataclasses import replace

    log = open_log(world, disk, replace(SMALL, open_segments_max=2, index_cache_bytes=65_536))
    (partition,) = filled(world, log, batches=1500)
    assert len(read_all(world, log, partition)) == 1500
    store = log.writer._store
    assert sum(segment.file is not None for segment in store.segments) <= 3
    assert log._reader.cache._bytes <= 65_536


def test_the_cache_lets_the_least_used_block_go():
    cache = BlockCache(3 * 600)
    one = Columns([0], [0], [1], [0])
    blocks = [Block(Position(base), "", Offset(base), Offset(base + 1), one) for base in range(5)]
    for block in blocks[:3]:
        cache.put(1, block)
    key = partition_number(0)
    assert cache.find(1, key, Offset(0)) is blocks[0]
    cache.put(1, blocks[3])
    assert cache.find(1, key, Offset(1)) is None
    assert cache.find(1, key, Offset(0)) is blocks[0]
    cache.drop_segment(Position(0))
    assert cache.find(1, key, Offset(0)) is None


def sealed(base, index_bytes=100, partitions=(0,)):
    columns = Columns([base], [base], [1], [0])
    parts = {partition_number(number): Sealed(columns, base + 1) for number in partitions}
    return SealedSegment(base, f"{base}.log", parts, index_bytes)


def test_the_cache_keeps_the_last_segments_that_were_closed_whole():
    cache = BlockCache(1000)
    for base in range(SEGMENTS_MAX + 1):
        cache.put_segment(sealed(base, index_bytes=1))
    assert cache.find(7, partition_number(0), Offset(0)) is None
    for base in range(1, SEGMENTS_MAX + 1):
        block = cache.find(7, partition_number(0), Offset(base))
        assert block is not None
        assert (block.segment_base, block.segment_path) == (base, f"{base}.log")
        assert (block.first_offset, block.end_offset) == (base, base + 1)
    assert cache.find(7, partition_number(1), Offset(3)) is None
    cache.drop_segment(Position(3))
    assert cache.find(7, partition_number(0), Offset(3)) is None


def test_whole_segments_take_half_of_the_cache_at_most():
    cache = BlockCache(1000)
    cache.put_segment(sealed(1, index_bytes=501))
    assert cache.find(7, partition_number(0), Offset(1)) is None
    cache.put_segment(sealed(2, index_bytes=300))
    cache.put_segment(sealed(3, index_bytes=200))
    assert cache.find(7, partition_number(0), Offset(2)) is not None
    cache.put_segment(sealed(4, index_bytes=1))
    assert cache.find(7, partition_number(0), Offset(2)) is None
    assert cache.find(7, partition_number(0), Offset(4)) is not None


layouts = st.lists(
    st.tuples(st.integers(61, 5000), st.integers(0, 3), st.integers(0, 40_000)),
    min_size=1,
    max_size=30,
)


@given(layouts, st.integers(0, 40), st.integers(0, 30_000), st.integers(0, 400_000))
def test_a_plan_agrees_with_walking_over_the_frames(layout, offset, max_bytes, limit):
    bases, positions, sizes = array("q"), array("q"), array("i")
    columns = Columns(bases, positions, sizes, array("q"))
    position = base = 0
    for size, more_records, gap in layout:
        position += gap
        bases.append(base)
        positions.append(position)
        sizes.append(size)
        base += 1 + more_records
        position += 48 + size
    offset = min(offset, base - 1)
    wanted = Wanted(partition_number(0), 1, offset, max_bytes, limit)
    plan = make_plan(columns, wanted)
    known = (columns.positions, columns.sizes, columns.entry_of(offset), max_bytes, limit)
    assert compiled.choose(*known) == regions.choose(*known)

    expected: list[tuple[int, int]] = []
    total = 0
    for at, _first in enumerate(columns.bases):
        last = columns.bases[at + 1] if at + 1 < len(columns.bases) else base
        if last <= offset:
            continue
        start, size = columns.positions[at], columns.sizes[at]
        if start + 48 + size > limit or (expected and total + size > max_bytes):
            break
        expected.append((start + 48, size))
        total += size
    found = [(r.start + at, size) for r in plan.regions for at, size in r.pieces]
    assert found == expected
    assert plan.size == total
    for region in plan.regions:
        assert region.pieces[0][0] == 48
        assert region.length == sum(region.pieces[-1])
        ends = [at + size for at, size in region.pieces]
        starts = [at - 48 for at, _ in region.pieces]
        assert all(b - a <= GAP_BYTES_MAX for a, b in zip(ends, starts[1:], strict=False))


def test_long_stretches_are_read_in_parts():
    size = 10_000
    count = 3 * REGION_BYTES_MAX // size
    positions = [at * (48 + size) for at in range(count)]
    columns = Columns(
        array("q", range(count)), array("q", positions), array("i", [size] * count), array("q")
    )
    plan = make_plan(columns, Wanted(partition_number(0), 1, Offset(0), ALL, ALL))
    assert sum(len(region.pieces) for region in plan.regions) == count
    assert all(region.length <= REGION_BYTES_MAX for region in plan.regions)
    assert len(plan.regions) == 4


@pytest.mark.parametrize("choose", [compiled.choose, regions.choose])
def test_a_chunk_has_so_many_batches_however_small_they_are(choose):
    count = PIECES_MAX + 2
    positions = array("q", [at * (48 + 70) for at in range(count)])
    sizes = array("i", [70] * count)
    found, size, following = choose(positions, sizes, 1, ALL, ALL)
    assert sum(len(region.pieces) for region in found) == PIECES_MAX
    assert size == 70 * PIECES_MAX
    assert following == 1 + PIECES_MAX
    assert choose(positions, sizes, 2, ALL, ALL)[1:] == (size, -1)


@pytest.mark.parametrize("size", [10, 5_000])
def test_a_chunk_tells_how_many_batches_it_has(world, log, size):
    (partition,) = filled(world, log, batches=4, size=size)
    chunk = log.read(partition, Offset(1), ALL, ALL)
    assert isinstance(chunk, Chunk)
    assert chunk.count == len(batches_of(chunk.data)) > 1


def test_lookup_by_time_finds_the_first_batch_that_is_not_older(world, log):
    partition = log.open_partition(partition_number(0))
    other = log.open_partition(partition_number(1))
    times = [5, 3, 9, 9, 20, 1] * 60
    for timestamp in times:
        append(log, partition, size=600, timestamp=timestamp)
        append(log, other, size=600, timestamp=99)
        world.run()

    def look(call, *arguments):
        answers = []
        call(
            partition,
            *arguments,
            lambda hit, error: answers.append((hit, error)),
            examine=lambda hit: hit,
        )
        world.run()
        hit, error = answers[0]
        assert error is None
        if hit is None:
            return None
        assert batches_of(hit.batch)[0][0].base_offset == hit.base_offset
        return hit.base_offset, hit.max_timestamp

    assert look(log.offset_for_timestamp, 4, ALL) == (0, 5)
    assert look(log.offset_for_timestamp, 10, ALL) == (4, 20)
    assert look(log.offset_for_timestamp, 21, ALL) is None
    assert look(log.offset_for_max_timestamp, ALL) == (4, 20)
    log.delete_records(partition, 5)
    assert look(log.offset_for_timestamp, 10, ALL) == (10, 20)
    late = len(times) - 3
    log.delete_records(partition, late)
    assert look(log.offset_for_timestamp, 9, ALL) == (late, 9)
    assert look(log.offset_for_timestamp, 10, ALL) == (late + 1, 20)
    limit = partition.positions[-2]
    assert look(log.offset_for_timestamp, 10, limit) is None
    assert look(log.offset_for_max_timestamp, limit) == (late, 9)
    log.delete_records(partition, len(times))
    assert look(log.offset_for_timestamp, 1, ALL) is None
    assert look(log.offset_for_max_timestamp, ALL) is None
