"""Archives at their edges: where a range ends, another begins, and a file is on neither side."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.archive.entries import Added, ArchivedFile, Began, Chunk, Pruned, digest
from penstock.archive.errors import ArchiveLies, ArchiveTaken, ReplayRefused
from penstock.archive.files import ArchiveFiles, DataName, data_name
from penstock.archive.manifest import Manifest
from penstock.archive.replay import progress
from penstock.archive.replay.plan import Kind, Place, Wanted, in_order, wanted_ranges
from penstock.archive.replay.progress import Progress
from penstock.archive.sweeping import pruned_before, sweep
from penstock.record.build import Record
from penstock.runtime.io.object_store import open_directory
from tests.archive.test_replay import FOR_EVER, committed, filled, replayed
from tests.archive.world import DAY_MS, copied, ledger_at
from tests.spark.topics import NOON_MS, Topics

RUN = "0123456789ab"
ALL = Place(Kind.BEGINNING), Place(Kind.END)
PLAN = "0" * 16


def name_of(start: int, end: int, partition: int = 0) -> str:
    return data_name("2026-01-31", DataName(partition, start, end), 0, RUN)


def chunk(start: int, end: int, gap_start: int | None = None, partition: int = 0) -> Chunk:
    """A chunk with one file; its records are `start` days old, and so on."""
    file = ArchivedFile(
        name=name_of(start, end, partition),
        size_bytes=1,
        sha256=digest(b"x"),
        rows=end - start,
        first_offset=start,
        last_offset=end - 1,
    )
    return Chunk(
        partition=partition,
        start=start,
        end=end,
        gap_start=start if gap_start is None else gap_start,
        first_ms=start * DAY_MS,
        last_ms=(end - 1) * DAY_MS,
        files=(file,),
    )


def manifest_of(*chunks: Chunk) -> Manifest:
    manifest = Manifest(archive_id=RUN, topic="t", topic_id="1")
    manifest.apply(Added(run=RUN, chunks=chunks))
    return manifest


def files_at(path: Path) -> ArchiveFiles:
    return ArchiveFiles(open_directory(path), path)


def test_a_gap_in_front_of_what_a_prune_has_left_is_still_told() -> None:
    manifest = manifest_of(chunk(0, 10), chunk(20, 30, gap_start=10), chunk(30, 40))
    manifest.apply(Pruned(run=RUN, starts=((0, 10),)))
    assert manifest.parts[0].gaps == [(10, 20)]
    manifest.apply(Pruned(run=RUN, starts=((0, 30),)))
    assert manifest.parts[0].gaps == []


def test_a_file_that_begins_where_the_archive_ends_is_swept(archive: Path) -> None:
    with files_at(archive) as files:
        files.put_new(name_of(10, 12), b"left")
        assert sweep(files, manifest_of(chunk(0, 10)), {0: 10}) == 1
        assert list(files.names()) == []


@pytest.mark.parametrize(("start", "low"), [(9, 0), (10, 11)])
def test_a_file_within_the_archive_or_gone_from_the_topic_is_kept_and_named(
    archive: Path, start: int, low: int
) -> None:
    left = name_of(start, 12)
    with files_at(archive) as files:
        files.put_new(left, b"left")
        with pytest.raises(ArchiveLies, match=left):
            sweep(files, manifest_of(chunk(0, 10)), {0: low})
        assert list(files.names()) == [left]


def test_a_file_up_to_where_a_prune_has_cut_is_its_own() -> None:
    manifest = manifest_of(chunk(0, 10), chunk(10, 20))
    manifest.apply(Pruned(run=RUN, starts=((0, 10),)))
    names = [name_of(0, 10), name_of(0, 11)]
    assert pruned_before(manifest, names) == names[:1]


def test_who_was_refused_an_entry_is_refused_the_next_one_too(archive: Path) -> None:
    began = Began(format=1, run=RUN, topic="t", topic_id="1", keep_ms=0)
    with ledger_at(archive) as one, ledger_at(archive) as other:
        one.load()
        other.load()
        one.commit(began)
        for _ in range(2):
            with pytest.raises(ArchiveTaken):
                other.commit(Began(format=1, run="f" * 12, topic="t", topic_id="1", keep_ms=0))
        assert other.is_new
    with ledger_at(archive) as ledger:
        assert ledger.load(with_every_entry=True).archive_id == RUN


def test_a_chunk_that_ends_where_a_replay_begins_is_not_looked_at() -> None:
    chunks = [chunk(0, 10), chunk(10, 20), chunk(20, 30)]
    assert list(in_order(manifest_of(*chunks), {0: Wanted(10, 20)})) == chunks[1:2]
    assert list(in_order(manifest_of(*chunks), {0: Wanted(9, 21)})) == chunks


def test_chunks_of_all_partitions_come_by_their_oldest_record() -> None:
    long, early, late = chunk(1, 9), chunk(0, 2, partition=1), chunk(2, 3, partition=1)
    manifest = manifest_of(long, early, late)
    wanted = {number: Wanted(0, 10) for number in (0, 1)}
    assert list(in_order(manifest, wanted)) == [early, long, late]


def test_a_replay_that_was_where_a_prune_has_cut_goes_on(archive: Path) -> None:
    manifest = manifest_of(chunk(0, 10), chunk(10, 20))
    manifest.apply(Pruned(run=RUN, starts=((0, 10),)))
    with files_at(archive) as files:
        assert wanted_ranges(files, manifest, ALL, {0: 10}) == {0: Wanted(10, 20)}


@pytest.mark.parametrize("order", [(9, 5), (5, 9)])
def test_where_a_position_stands_twice_the_highest_counts(
    order: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        ("t", number): SimpleNamespace(metadata=f"1 {PLAN} 0:{offset}")
        for number, offset in enumerate(order)
    }
    groups = SimpleNamespace(offsets=lambda _: told)
    monkeypatch.setattr(progress, "Groups", lambda _: groups)
    assert Progress(SimpleNamespace(), "g", "t", PLAN).read() == {0: 9}  # type: ignore[arg-type]


def test_small_chunks_behind_a_large_one_share_an_entry(topics: Topics, archive: Path) -> None:
    topic = topics.make(3)
    for partition, size in enumerate((50_000, 10, 10)):
        topics.send(topic, [Record(None, b"x" * size, (), NOON_MS)], partition=partition)
    summary = copied(archive, topics.bootstrap, topic, chunk_bytes=20_000)
    assert summary.chunks == 3
    assert len(list((archive / "_penstock/entries").iterdir())) == 3, "the run, and two with chunks"


def test_a_partition_without_records_is_no_part_of_an_archive(
    topics: Topics, archive: Path
) -> None:
    topic = topics.make(2)
    topics.send(topic, [Record(None, b"x", (), NOON_MS)] * 5, partition=1)
    assert copied(archive, topics.bootstrap, topic).ends == {1: 5}
    topics.send(topic, [Record(None, b"x", (), NOON_MS)], partition=1)
    assert copied(archive, topics.bootstrap, topic).ends == {1: 6}


def test_a_replay_from_the_time_of_the_newest_record_has_that_record(
    topics: Topics, archive: Path
) -> None:
    filled(topics, archive, count=4)
    target = topics.make(1, FOR_EVER)
    newest = Place(Kind.TIME, NOON_MS + DAY_MS + 3)
    assert replayed(topics, archive, target, places=(newest, ALL[1])).records == 1
    assert [record.value for record in committed(topics, target)] == [b"0:3"]


def test_a_topic_that_keeps_nothing_is_no_target(topics: Topics, archive: Path) -> None:
    filled(topics, archive, count=2)
    target = topics.make(1, {"retention.ms": "0"})
    with pytest.raises(ReplayRefused, match="keeps records for 0 ms"):
        replayed(topics, archive, target)


def test_a_run_deletes_what_a_prune_that_was_ended_has_left(archive: Path) -> None:
    manifest = manifest_of(chunk(0, 10), chunk(10, 20))
    manifest.apply(Pruned(run=RUN, starts=((0, 10),)))
    with files_at(archive) as files:
        files.put_new(name_of(0, 10), b"left")
        files.put_new(name_of(10, 20), b"named")
        assert sweep(files, manifest, {0: 15}) == 1
        assert list(files.names()) == [name_of(10, 20)]
