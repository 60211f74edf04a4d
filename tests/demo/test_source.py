"""Any readable input becomes numbered records; anything else becomes one clear line."""

import json
from pathlib import Path

import pytest

from demo import source
from demo.errors import InputError
from demo.source import Record, open_source


def values(records: list[Record]) -> list[dict[str, object]]:
    return [json.loads(record.value) for record in records]


def test_a_directory_gives_one_record_per_file(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a").write_text("1234")
    (tmp_path / "below" / "b").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = open_source(tmp_path)
    read = values(list(found))
    assert found.records == 2
    assert [(Path(str(one["path"])).name, one["size"]) for one in read] == [("a", 4), ("b", 0)]


def test_a_file_gives_one_record_per_line(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a,b\r\n\n\xff\xfelast")
    read = values(list(open_source(lines)))
    assert [one["text"] for one in read] == ["a,b", "", "\\xff\\xfelast"]
    assert [one["line"] for one in read] == [1, 2, 3]


def test_records_are_numbered_overall_and_in_their_partition(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("x\n" * 5000)
    records = list(open_source(lines))
    assert [value["id"] for value in values(records)] == list(range(5000))
    for partition in {record.partition for record in records}:
        there = [record for record in records if record.partition == partition]
        assert [value["seq"] for value in values(there)] == list(range(len(there)))


def test_a_long_line_becomes_several_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LINE_BYTES_MAX", 10)
    lines = tmp_path / "lines"
    lines.write_text("x" * 25)
    assert [len(str(value["text"])) for value in values(list(open_source(lines)))] == [10, 10, 5]


def test_an_input_larger_than_the_limit_is_cut_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RECORDS_MAX", 3)
    for name in "abcde":
        (tmp_path / name).write_text("x\n" * 5)
    for path in (tmp_path, tmp_path / "a"):
        found = open_source(path)
        assert (found.records, found.is_cut, len(list(found))) == (3, True, 3)


@pytest.mark.parametrize("make", ["absent", "empty file", "empty directory", "device"])
def test_an_unusable_input_is_refused_in_one_line(tmp_path: Path, make: str) -> None:
    path = tmp_path / "input"
    if make == "empty file":
        path.touch()
    elif make == "empty directory":
        path.mkdir()
    elif make == "device":
        path = Path("/dev/null")
    with pytest.raises(InputError) as refused:
        open_source(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
