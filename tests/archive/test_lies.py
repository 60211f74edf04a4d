"""An archive that lies is refused by name: every byte of it, every range, every entry."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.archive import ledger as ledgers
from penstock.archive.entries import Added, ArchivedFile, Chunk, digest
from penstock.archive.errors import ArchiveLies, NoArchive
from penstock.archive.files import DataName, data_name, parse_data_name
from penstock.archive.manifest import Contradiction, Manifest
from penstock.archive.verifying import Finding, verify
from tests.archive.world import DAY_MS, copied, ledger_at, queried
from tests.live_node import LiveNode
from tests.spark.topics import NOON_MS, Topics

ENTRIES = Path("_penstock/entries")


@pytest.fixture(scope="module")
def made(node: LiveNode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of two partitions, of three runs, with records of two days."""
    from penstock.record.build import Record

    path = tmp_path_factory.mktemp("made") / "archive"
    with Topics(f"127.0.0.1:{node.port}") as topics:
        topic = topics.make(2)
        for _ in range(3):
            for partition in (0, 1):
                records = [Record(b"k", b"%d" % n, (), NOON_MS + n % 2 * DAY_MS) for n in range(4)]
                topics.send(topic, records, partition=partition)
            copied(path, topics.bootstrap, topic)
    return path


@pytest.fixture
def lying(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "archive"))


def findings(archive: Path) -> list[Finding]:
    with ledger_at(archive) as ledger:
        return verify(ledger)


def data_files(archive: Path) -> list[Path]:
    return sorted(archive.rglob("*.parquet"))


def entries(archive: Path) -> list[Path]:
    return sorted((archive / ENTRIES).iterdir())


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_whole_archive_has_nothing_to_tell(made: Path) -> None:
    assert findings(made) == []
    assert len(data_files(made)) == 12


def test_any_flipped_byte_of_a_data_file_is_found(lying: Path) -> None:
    path = data_files(lying)[5]
    size = path.stat().st_size
    for at in range(0, size, 97):
        flip(path, at)
        (found,) = findings(lying)
        assert found.is_damage
        assert found.name == str(path.relative_to(lying))
        flip(path, at)


@pytest.mark.parametrize("change", ["missing", "cut", "longer", "another"])
def test_a_data_file_that_is_not_what_was_written_is_named(lying: Path, change: str) -> None:
    path, other = data_files(lying)[3], data_files(lying)[4]
    match change:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-1])
        case "longer":
            path.write_bytes(path.read_bytes() + b"\0")
        case _:
            path.write_bytes(other.read_bytes())
    (found,) = findings(lying)
    assert (found.name, found.is_damage) == (str(path.relative_to(lying)), True)


def test_every_damaged_file_is_named_and_not_the_first_alone(lying: Path) -> None:
    for path in data_files(lying):
        flip(path, 100)
    assert len(findings(lying)) == 12


def test_any_flipped_byte_of_an_entry_is_refused_by_name(lying: Path) -> None:
    path = entries(lying)[2]
    for at in range(0, path.stat().st_size, 7):
        flip(path, at)
        with ledger_at(lying) as ledger, pytest.raises(ArchiveLies, match=path.name):
            ledger.load()
        flip(path, at)


def test_an_entry_that_is_gone_or_has_another_place_is_refused_by_name(lying: Path) -> None:
    first, second = entries(lying)[1:3]
    kept = first.read_bytes()
    for change in (first.unlink, lambda: first.write_bytes(second.read_bytes())):
        change()
        with ledger_at(lying) as ledger, pytest.raises(ArchiveLies, match=first.name):
            ledger.load()
        first.write_bytes(kept)


def rewrite(archive: Path, number: int, change: Callable[[Any], None]) -> None:
    """Change an entry, with a checksum that agrees, as somebody who means to would."""
    path = entries(archive)[number - 1]
    content = json.loads(path.read_bytes().partition(b"\n")[2])
    change(content)
    text = json.dumps(content, separators=(",", ":")).encode()
    path.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def test_an_entry_that_was_rewritten_does_not_go_with_the_next(lying: Path) -> None:
    rewrite(lying, 1, lambda content: content["what"].update(keep_ms=1))
    with ledger_at(lying) as ledger, pytest.raises(ArchiveLies, match=entries(lying)[1].name):
        ledger.load()


def test_an_entry_of_a_later_release_is_refused(lying: Path) -> None:
    rewrite(lying, 6, lambda content: content.update(weight=1))
    with ledger_at(lying) as ledger, pytest.raises(ArchiveLies, match="later release"):
        ledger.load()


def test_a_format_that_is_not_known_is_refused(lying: Path) -> None:
    for path in entries(lying)[1:]:
        path.unlink()
    rewrite(lying, 1, lambda content: content["what"].update(format=2))
    with ledger_at(lying) as ledger, pytest.raises(ArchiveLies, match="format 2"):
        ledger.load()


def test_ranges_that_overlap_are_refused_by_the_name_of_their_entry(lying: Path) -> None:
    def overlap(content: Any) -> None:
        content["what"]["chunks"][0]["start"] -= 1

    rewrite(lying, 6, overlap)
    with ledger_at(lying) as ledger, pytest.raises(ArchiveLies, match=entries(lying)[5].name):
        ledger.load()


def test_rows_that_are_not_those_of_the_manifest_are_found(lying: Path) -> None:
    """Somebody has written another file, and said so in the manifest."""
    path = data_files(lying)[-1]
    name = str(path.relative_to(lying))
    rows = pq.ParquetFile(path).read()
    for changed in (
        rows.slice(0, rows.num_rows - 1),
        rows.set_column(3, "partition", pa.array([7] * rows.num_rows, pa.int32())),
        rows.set_column(2, "topic", pa.array(["other"] * rows.num_rows)),
        rows.take(list(reversed(range(rows.num_rows)))),
        rows.drop_columns(["headers"]),
    ):
        pq.write_table(changed, path)

        def agree(content: Any) -> None:
            for chunk in content["what"]["chunks"]:
                for file in chunk["files"]:
                    if file["name"] == name:
                        data = path.read_bytes()
                        file.update(size_bytes=len(data), sha256=digest(data))

        rewrite(lying, 6, agree)
        assert [one.name for one in findings(lying)] == [name]


def test_files_of_a_chunk_with_the_same_offset_are_found(lying: Path) -> None:
    """Both agree with the manifest, which has been made to agree with them."""
    last = json.loads(entries(lying)[-1].read_bytes().partition(b"\n")[2])["what"]["chunks"][-1]
    first, second = (lying / file["name"] for file in last["files"])
    second.write_bytes(first.read_bytes())

    def agree(content: Any) -> None:
        one, other = content["what"]["chunks"][-1]["files"]
        other.update({key: value for key, value in one.items() if key != "name"})

    rewrite(lying, 6, agree)
    assert [one.name for one in findings(lying)] == [last["files"][0]["name"]]


def test_a_file_that_no_entry_names_is_told_and_is_no_damage(lying: Path) -> None:
    extra = data_files(lying)[0].with_name("mine.parquet")
    extra.write_bytes(b"x")
    (found,) = findings(lying)
    assert (found.name, found.is_damage) == (str(extra.relative_to(lying)), False)


def test_a_place_without_an_archive_says_how_to_make_one(tmp_path: Path) -> None:
    with ledger_at(tmp_path) as ledger, pytest.raises(NoArchive, match="penstock archive run"):
        ledger.existing()


@pytest.fixture
def snapped(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, list[Path]]:
    """An archive with snapshots, and those."""
    monkeypatch.setattr(ledgers, "SNAPSHOT_EVERY", 2)
    topic = topics.make()
    for number in range(3):
        topics.fill(topic, [b"%d" % number])
        copied(tmp_path / "archive", topics.bootstrap, topic)
    return tmp_path / "archive", sorted((tmp_path / "archive" / "_penstock/snapshots").iterdir())


def test_a_snapshot_stands_for_the_entries_before_it(snapped: tuple[Path, list[Path]]) -> None:
    archive, snapshots = snapped
    assert len(snapshots) == 3
    with ledger_at(archive) as ledger:
        every = ledger.load(with_every_entry=True)
        flip(entries(archive)[0], 70)  # which is not looked at any more
        assert ledger.load() == every
        with pytest.raises(ArchiveLies, match=entries(archive)[0].name):
            ledger.load(with_every_entry=True)


def test_a_damaged_snapshot_is_refused_by_name_and_may_be_deleted(
    snapped: tuple[Path, list[Path]],
) -> None:
    archive, snapshots = snapped
    flip(snapshots[-1], 80)
    with ledger_at(archive) as ledger:
        with pytest.raises(ArchiveLies, match=rf"{snapshots[-1].name}.*delete it"):
            ledger.load()
        snapshots[-1].unlink()
        assert ledger.load().parts[0].end == 3
    assert findings(archive) == []


def test_a_snapshot_that_says_something_else_than_the_entries_is_found(
    snapped: tuple[Path, list[Path]],
) -> None:
    archive, snapshots = snapped
    snapshots[1].write_bytes(snapshots[0].read_bytes())
    with ledger_at(archive) as ledger, pytest.raises(ArchiveLies, match=snapshots[1].name):
        verify(ledger)


def test_entries_that_are_gone_behind_the_last_snapshot_are_missed(
    snapped: tuple[Path, list[Path]],
) -> None:
    archive, _ = snapped
    entries(archive)[-1].unlink()
    with ledger_at(archive) as ledger, pytest.raises(ArchiveLies, match="missing"):
        ledger.load()


def chunk(start: int, end: int, *, gap_start: int | None = None, partition: int = 0) -> Chunk:
    name = data_name("2026-01-01", DataName(partition, start, end), 0, "0" * 12)
    file = ArchivedFile(
        name=name, size_bytes=1, sha256="", rows=1, first_offset=start, last_offset=end - 1
    )
    gap = start if gap_start is None else gap_start
    return Chunk(
        partition=partition, start=start, end=end, gap_start=gap, first_ms=0, last_ms=0,
        files=(file,),
    )  # fmt: skip


@pytest.mark.parametrize(
    "second",
    [
        chunk(9, 12),
        chunk(9, 12, gap_start=10),
        chunk(11, 12),
        chunk(11, 12, gap_start=9),
        chunk(10, 10),
        chunk(0, 10),
    ],
)
def test_a_chunk_that_does_not_follow_the_one_before_is_refused(second: Chunk) -> None:
    manifest = Manifest()
    manifest.apply(Added(run="", chunks=(chunk(0, 10),)))
    with pytest.raises(Contradiction):
        manifest.apply(Added(run="", chunks=(second,)))


def test_a_gap_between_two_chunks_has_to_be_said(made: Path) -> None:
    manifest = Manifest()
    manifest.apply(Added(run="", chunks=(chunk(0, 10), chunk(12, 13, gap_start=10))))
    assert manifest.parts[0].gaps == [(10, 12)]
    assert queried(made)


def test_a_name_tells_the_chunk_and_nothing_else_is_one() -> None:
    name = data_name("2026-01-31", DataName(12, 5, 2**63 - 1), 3, "0123456789ab")
    assert parse_data_name(name) == DataName(12, 5, 2**63 - 1)
    for other in (f"x/{name}", name + "#1", name.replace("-3-", "--"), name.upper()):
        assert parse_data_name(other) is None
