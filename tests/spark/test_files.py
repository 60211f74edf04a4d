"""Parquet files of one range: time partitions, names, bounds."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.land.files import WRITERS_OPEN_MAX, FileTarget, RangeWriter
from penstock.spark.land.tables import DataFile, FileLayout
from penstock.spark.ranges import OffsetRange

HOUR_MS = 3_600_000
NOON_MS = 1_767_268_800_000


def _rows(first_offset: int, times_ms: list[int]) -> pa.RecordBatch:
    offsets = pa.array(range(first_offset, first_offset + len(times_ms)), pa.int64())
    times = pa.array([time * 1000 for time in times_ms], pa.timestamp("us", tz="UTC"))
    return pa.record_batch({"_offset": offsets, "_timestamp": times})


def _write(directory: Path, by: str, *batches: pa.RecordBatch) -> list[DataFile]:
    layout = FileLayout(directory=str(directory), attempt="a1", suffix=".parquet")
    target = FileTarget(layout, by, "_timestamp", "_offset")
    writer = RangeWriter(target, OffsetRange("t", 3, 100, 200))
    for batch in batches:
        writer.write(batch)
    return writer.finish()


def _offsets(directory: Path, file: DataFile) -> list[int]:
    return pq.ParquetFile(directory / file.path).read().column("_offset").to_pylist()


def test_rows_go_to_the_hour_of_their_own_time(tmp_path: Path) -> None:
    times = [NOON_MS, NOON_MS + HOUR_MS, NOON_MS + 1, NOON_MS + 13 * HOUR_MS]
    files = {(f.day, f.hour): f for f in _write(tmp_path, "hour", _rows(100, times))}
    assert sorted(files) == [("2026-01-01", 12), ("2026-01-01", 13), ("2026-01-02", 1)]
    noon = files["2026-01-01", 12]
    assert noon.path.startswith("record_date=2026-01-01/record_hour=12/00003-")
    assert _offsets(tmp_path, noon) == [100, 102]
    assert (noon.offset_first, noon.offset_last, noon.rows) == (100, 102, 2)
    assert noon.size_bytes == (tmp_path / noon.path).stat().st_size


def test_by_day_and_without_partitions(tmp_path: Path) -> None:
    batch = _rows(100, [NOON_MS, NOON_MS + 13 * HOUR_MS])
    assert [f.day for f in _write(tmp_path / "d", "day", batch)] == ["2026-01-01", "2026-01-02"]
    (only,) = _write(tmp_path / "n", "none", batch)
    assert (only.day, only.hour, "/" in only.path) == (None, None, False)


def test_times_before_1970_and_beyond_the_calendar_have_a_partition(tmp_path: Path) -> None:
    late_ms = (2**63 - 1) // 1000
    files = _write(tmp_path, "hour", _rows(100, [-1, 0, late_ms]))
    assert {(f.day, f.hour) for f in files} == {
        ("1969-12-31", 23),
        ("1970-01-01", 0),
        ("9999-12-31", 23),
    }


def test_few_files_are_open_at_a_time_and_no_row_is_lost(tmp_path: Path) -> None:
    count = WRITERS_OPEN_MAX * 3
    batches = [
        _rows(100 + n * count, [NOON_MS + hour * HOUR_MS for hour in range(count)])
        for n in range(2)
    ]
    files = _write(tmp_path, "hour", *batches)
    found = sorted(offset for file in files for offset in _offsets(tmp_path, file))
    assert found == list(range(100, 100 + 2 * count))
    assert len({file.path for file in files}) == len(files)


def test_nothing_to_write_makes_no_file(tmp_path: Path) -> None:
    assert _write(tmp_path, "hour", _rows(100, [])) == []
    assert list(tmp_path.iterdir()) == []
