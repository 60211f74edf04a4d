"""The promise of `tables/port.py`, held by each of the three formats."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.spark.errors import TableConflict, TableMismatch
from penstock.spark.land import tables
from penstock.spark.land.files import FileTarget, RangeWriter
from penstock.spark.land.tables import DataFile, Table, TableSpec, stored_facts
from penstock.spark.ranges import OffsetRange
from tests.spark.tables import held_open, read_table

NOON_US = 1_767_268_800_000_000
SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),
        pa.field("_offset", pa.int64()),
        pa.field("_timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
Make = Callable[[], Table]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
OPENED: list[Table] = []


def open_table(kind: str, spec: TableSpec) -> Table:
    OPENED.append(tables.open_table(kind, spec))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def opened() -> Iterator[None]:
    """Close what a test has opened."""
    yield
    for table in OPENED:
        table.close()
    OPENED.clear()


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return TableSpec(
        path=tmp_path / "table",
        topic="t",
        schema=SCHEMA,
        partition_by="hour",
        timestamp_column="_timestamp",
        offset_column="_offset",
    )


def _files(table: Table, start: int, end: int, attempt: str = "a1") -> list[DataFile]:
    """Files with the offsets of a range of partition 0, half an hour apart."""
    target = FileTarget(table.layout(attempt), "hour", "_timestamp", "_offset")
    writer = RangeWriter(target, OffsetRange("t", 0, start, end))
    offsets = range(start, end)
    columns = [
        pa.array([b"%d" % n for n in offsets], pa.binary()),
        pa.array(offsets, pa.int64()),
        pa.array([NOON_US + n * 1_800_000_000 for n in offsets], pa.timestamp("us", tz="UTC")),
    ]
    writer.write(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    return writer.finish()


def _offsets(kind: str, spec: TableSpec) -> list[int]:
    return sorted(read_table(kind, spec.path).column("_offset").to_pylist())


def test_a_commit_shows_the_rows_and_moves_the_ends_together(kind: str, spec: TableSpec) -> None:
    table = open_table(kind, spec)
    assert table.ends([0]) == {}
    files = _files(table, 0, 10)
    assert _offsets(kind, spec) == []
    table.commit(files, {0: 10})
    assert _offsets(kind, spec) == list(range(10))
    assert table.ends([0]) == {0: 10}
    assert open_table(kind, spec).ends([0]) == {0: 10}


def test_commits_follow_one_another_and_partitions_have_their_own_ends(
    kind: str, spec: TableSpec
) -> None:
    table = open_table(kind, spec)
    table.commit(_files(table, 0, 5), {0: 5, 7: 3})
    table.commit(_files(table, 5, 9, "a2"), {0: 9})
    assert table.ends([0, 7]) == {0: 9, 7: 3}
    assert _offsets(kind, spec) == list(range(9))


def test_files_of_an_attempt_that_was_killed_are_never_seen(kind: str, spec: TableSpec) -> None:
    table = open_table(kind, spec)
    _files(table, 0, 10, "dead")
    again = open_table(kind, spec)
    assert again.ends([0]) == {}
    again.commit(_files(again, 0, 10, "alive"), {0: 10})
    assert _offsets(kind, spec) == list(range(10))


def test_of_two_jobs_that_planned_from_the_same_state_one_commits(
    kind: str, spec: TableSpec
) -> None:
    one, other = open_table(kind, spec), open_table(kind, spec)
    assert one.ends([0]) == other.ends([0])
    files_of_one, files_of_other = _files(one, 0, 10, "one"), _files(other, 0, 8, "other")
    one.commit(files_of_one, {0: 10})
    with pytest.raises(TableConflict):
        other.commit(files_of_other, {0: 8})
    assert _offsets(kind, spec) == list(range(10))
    assert open_table(kind, spec).ends([0]) == {0: 10}


def test_a_table_of_something_else_is_refused(kind: str, spec: TableSpec) -> None:
    open_table(kind, spec)
    with pytest.raises(TableMismatch, match="topic t"):
        open_table(kind, replace(spec, topic="u"))
    with pytest.raises(TableMismatch, match="--partition-by hour"):
        open_table(kind, replace(spec, partition_by="day"))
    with pytest.raises(TableMismatch, match="other columns"):
        open_table(kind, replace(spec, schema=SCHEMA.append(pa.field("x", pa.int32()))))


def test_a_directory_with_other_files_is_refused(kind: str, spec: TableSpec) -> None:
    spec.path.mkdir()
    (spec.path / "notes.txt").write_text("mine")
    with pytest.raises(TableMismatch, match="not empty"):
        open_table(kind, spec)


def test_facts_can_be_asked_without_opening(kind: str, spec: TableSpec) -> None:
    assert stored_facts(kind, spec.path) is None
    open_table(kind, spec)
    facts = stored_facts(kind, spec.path)
    assert facts is not None
    assert facts["penstock.topic"] == "t"


def test_time_partitions_are_known_to_the_reader(kind: str, spec: TableSpec) -> None:
    table = open_table(kind, spec)
    table.commit(_files(table, 0, 4), {0: 4})
    if kind == "iceberg":
        return  # hidden partitions have no columns of their own
    found = read_table(kind, spec.path)
    assert found.column("record_hour").to_pylist() == [12, 12, 13, 13]


def test_a_plain_table_finishes_a_commit_that_was_cut_off(spec: TableSpec) -> None:
    # the commit file is there, the process died before any file had its name
    table = open_table("parquet", spec)
    table.commit(_files(table, 0, 10), {0: 10})
    (commit,) = (spec.path / "_penstock" / "commits").iterdir()
    for source, target in json.loads(commit.read_text())["files"].items():
        staged = spec.path / "_penstock" / "staging" / source
        staged.parent.mkdir(parents=True, exist_ok=True)
        (spec.path / target).rename(staged)
    assert _offsets("parquet", spec) == []
    assert open_table("parquet", spec).ends() == {0: 10}
    assert _offsets("parquet", spec) == list(range(10))


def test_a_plain_table_keeps_a_bounded_number_of_commits(
    spec: TableSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.land.tables.plain.COMMITS_KEPT", 3)
    table = open_table("parquet", spec)
    for n in range(6):
        table.commit([], {0: n + 1})
    assert len(list((spec.path / "_penstock" / "commits").iterdir())) == 3
    assert open_table("parquet", spec).ends() == {0: 6}


def test_delta_survives_that_others_rewrite_the_files(spec: TableSpec) -> None:
    from deltalake import DeltaTable

    table = open_table("delta", spec)
    table.commit(_files(table, 0, 5), {0: 5})
    table.commit(_files(table, 5, 10, "a2"), {0: 10})
    DeltaTable(str(spec.path)).optimize.compact()
    table.commit(_files(table, 10, 12, "a3"), {0: 12})
    assert _offsets("delta", spec) == list(range(12))
    assert open_table("delta", spec).ends([0]) == {0: 12}


def test_an_iceberg_table_reads_without_its_catalog(spec: TableSpec) -> None:
    from pyiceberg.table import StaticTable

    table = open_table("iceberg", spec)
    table.commit(_files(table, 0, 5), {0: 5})
    (spec.path / "catalog.sqlite").unlink()
    found = StaticTable.from_metadata(str(spec.path)).scan().to_arrow()
    assert sorted(found.column("_offset").to_pylist()) == list(range(5))
    shutil.rmtree(spec.path)


def test_a_table_that_is_closed_holds_no_file_open(kind: str, spec: TableSpec) -> None:
    table = open_table(kind, spec)
    table.commit(_files(table, 0, 10), {0: 10})
    table.close()
    assert held_open(spec.path) == []


def test_a_table_that_is_not_the_wanted_one_is_closed(kind: str, spec: TableSpec) -> None:
    open_table(kind, spec).close()
    with pytest.raises(TableMismatch):
        open_table(kind, replace(spec, topic="u"))
    assert stored_facts(kind, spec.path) is not None
    assert held_open(spec.path) == []
