"""Batches at an offset come as they were written, from a store that may lie or fail."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.extents.layout import BLOCK_BYTES, Aborted, Entry
from penstock.record.batch import read_header
from penstock.tier.errors import (
    LostObject,
    LyingObject,
    NotInTier,
    StoreThrottled,
    StoreUnavailable,
)
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.port import READ_BYTES_MAX
from penstock.tier.read.reader import BATCHES_MAX, TierReader
from simulator.kernel.object_store import Bucket, Fate, ModelledStore
from tests.extents.files import Part, batch, key
from tests.tier.objects import change, file_at, manifest_of, name, put
from tests.tier.store_contract import run

ONE = key(1, 0)
BIG = BLOCK_BYTES // 2


def read(
    store: ModelledStore, manifest: Manifest, offset: int, bytes_max: int = 1 << 30
) -> tuple[list[bytes], int]:
    found = run(TierReader(store).read(manifest, ONE, offset, bytes_max))
    return [bytes(one) for one in found.batches], found.next_offset


def two_objects(bucket: Bucket, batches: Sequence[bytes]) -> Manifest:
    """Return a manifest of batches, the first half of them in one object."""
    half = len(batches) // 2
    runs = put(bucket, name(1), [Part(ONE, batches[:half]), Part(key(2, 0), [batch(0)])])
    runs += put(bucket, name(2), [Part(key(0, 0), [batch(0)]), Part(ONE, batches[half:])])
    return manifest_of(runs, ONE)


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    """Batches of which offsets may be missing, as after cleaning."""
    batches, offset = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(2, 9))):
        records = draw(st.integers(1, 3))
        size = draw(st.sampled_from((3, BIG, BLOCK_BYTES + 9)))
        batches.append(batch(offset, records=records, size=size))
        offset += records
    return batches


@given(histories(), st.data())
def test_reading_gives_what_a_list_of_batches_gives(
    batches: list[bytes], data: st.DataObject
) -> None:
    bucket = Bucket()
    manifest = two_objects(bucket, batches)
    first, end = manifest.start_offset, manifest.end_offset
    offset = data.draw(st.integers(first, end - 1))
    bytes_max = data.draw(st.sampled_from((1, 100, BLOCK_BYTES, 6 * BLOCK_BYTES)))
    found, next_offset = read(ModelledStore(bucket), manifest, offset, bytes_max)
    wanted = [one for one in batches if read_header(memoryview(one)).last_offset >= offset]
    assert found == wanted[: len(found)]
    assert found
    assert len(found) == 1 or sum(map(len, found)) <= bytes_max
    assert next_offset == read_header(memoryview(found[-1])).last_offset + 1


def test_reading_on_goes_through_all_objects_and_ends() -> None:
    bucket = Bucket()
    batches = [batch(at, size=BIG) for at in range(9)]
    manifest = two_objects(bucket, batches)
    offset, got = 0, []
    while offset < manifest.end_offset:
        found, offset = read(ModelledStore(bucket), manifest, offset, BLOCK_BYTES)
        got += found
    assert got == batches


def test_an_answer_has_so_many_batches_however_small_they_are() -> None:
    bucket = Bucket()
    batches = [batch(at) for at in range(BATCHES_MAX + 3)]
    manifest = manifest_of(put(bucket, name(1), [Part(ONE, batches)]), ONE)
    found, next_offset = read(ModelledStore(bucket), manifest, 1)
    assert found == batches[1 : 1 + BATCHES_MAX]
    assert next_offset == 1 + BATCHES_MAX
    assert read(ModelledStore(bucket), manifest, next_offset)[0] == batches[next_offset:]


def test_what_is_asked_of_batches_is_asked_beside_the_loop() -> None:
    bucket = Bucket()
    manifest = manifest_of(put(bucket, name(1), [Part(ONE, [batch(at) for at in range(9)])]), ONE)
    done: list[object] = []

    async def work(one: Callable[[], object]) -> object:
        done.append(found := one())
        return found

    reader = TierReader(ModelledStore(bucket), work=work)
    found = run(reader.read(manifest, ONE, 2, 1))
    assert done == [found]
    assert len(found.batches) == 1
    at = run(reader.first_at(manifest, (3, 9), 0, lambda header, _: header.base_offset))
    assert done[1:] == [at]
    assert at == 3


def test_offsets_that_cleaning_took_are_passed_over() -> None:
    bucket = Bucket()
    runs = put(bucket, name(1), [Part(ONE, [batch(0), batch(4, size=BLOCK_BYTES)], generation=1)])
    runs += put(bucket, name(2), [Part(ONE, [batch(9)], generation=1)])
    first = runs[0]._replace(entry=runs[0].entry._replace(end_offset=9), end_offset=9)
    bucket_manifest = manifest_of([first, runs[1]])
    assert read(ModelledStore(bucket), bucket_manifest, 2)[0][0] == batch(4, size=BLOCK_BYTES)
    assert read(ModelledStore(bucket), bucket_manifest, 6) == ([batch(9)], 10)


def test_what_was_cut_from_a_run_is_not_given() -> None:
    bucket = Bucket()
    (whole,) = put(bucket, name(1), [Part(ONE, [batch(at, epoch=at) for at in range(5)])])
    cut = whole._replace(end_offset=3, epochs=whole.epochs[:3])
    found = read(ModelledStore(bucket), manifest_of([cut]), 1)
    assert found == ([batch(1, epoch=1), batch(2, epoch=2)], 3)


@pytest.mark.parametrize("offset", [-1, 0, 4, 9])
def test_offsets_that_the_tier_has_not_are_said_so(offset: int) -> None:
    runs = put(Bucket(), name(1), [Part(ONE, [batch(at) for at in range(5)])])
    manifest = manifest_of([runs[0]._replace(end_offset=4)])
    manifest.start_offset = 1
    with pytest.raises(NotInTier) as caught:
        read(ModelledStore(Bucket()), manifest, offset)
    assert (caught.value.topic_partition, caught.value.offset) == (ONE, offset)


def test_an_object_that_is_gone_is_lost_by_name_and_offset() -> None:
    bucket = Bucket()
    manifest = two_objects(bucket, [batch(at) for at in range(4)])
    del bucket.objects[str(name(2))]
    assert read(ModelledStore(bucket), manifest, 1)[0] == [batch(1)]
    with pytest.raises(LostObject) as caught:
        read(ModelledStore(bucket), manifest, 3)
    assert (caught.value.name, caught.value.offset) == (str(name(2)), 3)


def test_every_flipped_byte_is_refused_or_was_not_read() -> None:
    """What is given is what was written, whatever byte of the object is another one."""
    bucket = Bucket()
    batches = [batch(at, epoch=at // 2) for at in range(4)]
    runs = put(bucket, name(1), [Part(key(0, 0), [batch(0)]), Part(ONE, batches)])
    good, manifest = bucket.objects[str(name(1))], manifest_of(runs, ONE)
    refused: list[str] = []
    for at in range(len(good[0])):
        change(bucket, name(1), at, 1 << at % 8)
        try:
            assert read(ModelledStore(bucket), manifest, 0)[0] == batches
        except LyingObject as error:
            refused.append(error.name)
        bucket.objects[str(name(1))] = good
    read_bytes = runs[1].entry.extent_bytes + runs[1].entry.summary_bytes
    assert refused == [str(name(1))] * read_bytes


def test_a_block_that_the_line_has_damaged_is_read_again() -> None:
    bucket = Bucket()
    runs = put(bucket, name(1), [Part(ONE, [batch(0)])])
    good = bucket.objects[str(name(1))]
    reads = []

    def fate(operation: str, of: str) -> Fate:
        reads.append(of)
        bucket.objects[str(name(1))] = good
        if len(reads) == 2:  # the block, after the summary
            change(bucket, name(1), file_at(runs[0].entry.extent_at))
        return Fate.DONE

    reader = TierReader(ModelledStore(bucket, fate))
    assert run(reader.read(manifest_of(runs), ONE, 0, 1)).batches == [batch(0)]
    assert (len(reads), reader.damage_count) == (3, 1)


def test_a_summary_is_read_once() -> None:
    bucket = Bucket()
    runs = put(bucket, name(1), [Part(ONE, [batch(0, size=BIG), batch(1, size=BIG)])])
    reads = []

    def fate(operation: str, of: str) -> Fate:
        reads.append(of)
        return Fate.DONE

    async def work() -> None:
        reader = TierReader(ModelledStore(bucket, fate))
        for offset in (0, 1, 0):
            await reader.read(manifest_of(runs), ONE, offset, 1)
        assert len(reads) == 4
        small = TierReader(ModelledStore(bucket, fate), summaries_bytes_max=1)
        await small.read(manifest_of(runs), ONE, 0, 1)
        await small.read(manifest_of(runs), ONE, 0, 1)
        assert len(reads) == 8

    run(work())


def test_summaries_that_were_not_used_for_long_go_first() -> None:
    bucket = Bucket()
    runs = [put(bucket, name(at), [Part(ONE, [batch(at)])])[0] for at in range(1, 4)]
    size = runs[0].entry.summary_bytes
    reads = []

    def fate(operation: str, of: str) -> Fate:
        reads.append(of)
        return Fate.DONE

    async def work() -> None:
        reader = TierReader(ModelledStore(bucket, fate), summaries_bytes_max=2 * size)
        for at in (0, 1, 0, 2, 0, 1):
            await reader.notes(runs[at])

    run(work())
    assert reads == [str(name(at)) for at in (1, 2, 3, 2)]


def lying(run_: Run, **fields: int) -> Manifest:
    entry = Entry(**(run_.entry._asdict() | fields))
    return manifest_of([run_._replace(entry=entry)])


@pytest.mark.parametrize(
    "fields",
    [
        {"summary_at": 64},
        {"summary_crc": 1},
        {"block_count": 2},
        {"block_count": READ_BYTES_MAX // 36 + 1},
        {"notes_bytes": 0},
        {"extent_at": 65},
        {"batch_bytes": 1},
        {"max_timestamp": 77},
        {"first_offset": 1, "end_offset": 9},
    ],
)
def test_metadata_that_lies_about_an_object_is_refused_by_name(fields: dict[str, int]) -> None:
    bucket = Bucket()
    (one,) = put(bucket, name(1), [Part(ONE, [batch(0), batch(1)])])
    manifest = lying(one, **fields)
    with pytest.raises(LyingObject, match=str(name(1))):
        read(ModelledStore(bucket), manifest, manifest.start_offset)


def test_epochs_that_are_not_those_of_the_object_are_refused() -> None:
    bucket = Bucket()
    (one,) = put(bucket, name(1), [Part(ONE, [batch(0), batch(1, epoch=3)])])
    with pytest.raises(LyingObject, match="epochs"):
        read(ModelledStore(bucket), manifest_of([one._replace(epochs=((0, 0), (2, 1)))]), 0)


@pytest.mark.parametrize(
    ("fate", "error"), [(Fate.FAILED, StoreUnavailable), (Fate.THROTTLED, StoreThrottled)]
)
def test_a_store_that_fails_is_told_as_it_is(fate: Fate, error: type[Exception]) -> None:
    bucket = Bucket()
    runs = put(bucket, name(1), [Part(ONE, [batch(0)])])
    with pytest.raises(error):
        read(ModelledStore(bucket, lambda *_: fate), manifest_of(runs), 0)


def test_notes_tell_what_was_aborted() -> None:
    bucket = Bucket()
    aborted = Aborted([5], [0], [1], [2])
    runs = put(bucket, name(1), [Part(ONE, [batch(0), batch(1)], aborted)])
    notes = run(TierReader(ModelledStore(bucket)).notes(runs[0]))
    assert [list(column) for column in notes.aborted] == [[5], [0], [1], [2]]


def reader_with_cache(store: ModelledStore) -> TierReader:
    return TierReader(store, blocks_bytes_max=8 * BLOCK_BYTES)


def test_a_block_that_was_read_is_there_when_the_store_has_gone() -> None:
    bucket = Bucket()
    manifest = two_objects(bucket, [batch(at, size=100) for at in range(20)])
    reader = reader_with_cache(ModelledStore(bucket))
    run(reader.read(manifest, ONE, 1, 150))
    bucket.objects.clear()
    found = run(reader.read(manifest, ONE, 7, 1 << 20))
    assert [bytes(one) for one in found.batches] == [batch(at, size=100) for at in (7, 8, 9)]
    assert reader.kept_count == 1
    with pytest.raises(LostObject):
        run(reader.read(manifest, ONE, 10, 150))


def test_what_was_found_wrong_is_not_kept() -> None:
    bucket = Bucket()
    (one,) = put(bucket, name(1), [Part(ONE, [batch(0), batch(1)])])
    manifest, reader = manifest_of([one]), reader_with_cache(ModelledStore(bucket))
    change(bucket, name(1), file_at(one.entry.extent_at + 70))
    with pytest.raises(LyingObject):
        run(reader.read(manifest, ONE, 0, 1 << 20))
    change(bucket, name(1), file_at(one.entry.extent_at + 70))
    assert len(run(reader.read(manifest, ONE, 0, 1 << 20)).batches) == 2


ABORTED = Aborted([5, 6], [0, 3], [4, 8], [2, 9])
"""Of producer 5: 0 to its marker at 4; of producer 6: 3 to 8."""


def aborted_in(start: int, end: int, decided: tuple[int, int]) -> list[tuple[int, int]] | None:
    """Ask two runs, [0, 5) with the first marker and [5, 10) with the second."""
    bucket = Bucket()
    first = Aborted(*(column[:1] for column in ABORTED))
    second = Aborted(*(column[1:] for column in ABORTED))
    runs = put(bucket, name(1), [Part(ONE, five(0), aborted=first, decided_end=decided[0])])
    runs += put(bucket, name(2), [Part(ONE, five(5), aborted=second, decided_end=decided[1])])
    return run(TierReader(ModelledStore(bucket)).aborted(manifest_of(runs), start, end))


def five(first: int) -> list[bytes]:
    return [batch(at) for at in range(first, first + 5)]


def test_aborted_transactions_are_gathered_until_a_run_says_that_all_is_decided() -> None:
    assert aborted_in(0, 2, (2, 10)) == [(5, 0)]
    assert aborted_in(0, 5, (2, 10)) == [(5, 0), (6, 3)]
    assert aborted_in(4, 5, (2, 10)) == [(5, 0), (6, 3)]
    assert aborted_in(5, 10, (2, 10)) == [(6, 3)]
    assert aborted_in(9, 10, (2, 10)) == []


def test_what_a_later_marker_may_abort_is_said_to_be_unknown() -> None:
    assert aborted_in(5, 10, (2, 9)) is None


def test_what_a_run_tells_of_a_part_that_was_cut_is_not_believed() -> None:
    bucket = Bucket()
    part = Part(ONE, [batch(at) for at in range(10)], aborted=ABORTED, decided_end=10)
    (whole,) = put(bucket, name(1), [part])
    manifest = manifest_of([whole._replace(end_offset=6)])
    assert run(TierReader(ModelledStore(bucket)).aborted(manifest, 0, 6)) is None


def first_at(timestamp_ms: int, offsets: tuple[int, int]) -> int | None:
    """Search batches at 0, 10, 20, ... whose timestamps are 100, 101, 102, ..."""
    bucket = Bucket()
    batches = [batch(10 * at, times=[100 + at] * 10) for at in range(6)]
    manifest = two_objects(bucket, batches)
    reader = TierReader(ModelledStore(bucket))
    found = reader.first_at(manifest, offsets, timestamp_ms, lambda header, _: header.base_offset)
    return run(found)


@pytest.mark.parametrize(
    ("timestamp_ms", "offsets", "wanted"),
    [
        (0, (0, 60), 0),
        (103, (0, 60), 30),
        (0, (19, 60), 10),
        (0, (20, 60), 20),
        (103, (0, 30), None),
        (103, (0, 31), 30),
        (200, (0, 60), None),
    ],
)
def test_a_search_by_time_gives_the_first_batch_within_the_offsets(
    timestamp_ms: int, offsets: tuple[int, int], wanted: int | None
) -> None:
    assert first_at(timestamp_ms, offsets) == wanted
