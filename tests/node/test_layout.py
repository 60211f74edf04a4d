from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.base.ports import Disk
from penstock.node.layout import SetPlaces, has_metadata, sets_in
from penstock.runtime.io.disk import FileDisk


def directories(root: Path, *sets: int | None) -> list[Path]:
    made = []
    for number, set_id in enumerate(sets):
        path = root / f"data-{number}"
        path.mkdir()
        if set_id is not None:
            (path / f"set-{set_id}").mkdir()
        made.append(path)
    return made


def disks(*paths: Path) -> dict[Path, Disk]:
    return {path: FileDisk(path) for path in paths}


def ids(places: SetPlaces) -> list[int]:
    return [place.replica_set_id for place in places]


def test_fresh_directories_hold_no_set_until_one_is_placed(tmp_path: Path) -> None:
    first, second = directories(tmp_path, None, None)
    places = SetPlaces(disks(first, second))
    assert ids(places) == []
    assert places.place(7).directory == first
    assert places.place(9).directory == second
    assert ids(places) == [7, 9]


def test_a_directory_keeps_its_set_wherever_it_is_named(tmp_path: Path) -> None:
    paths = directories(tmp_path, 3, None, 1)
    places = SetPlaces(disks(*paths[::-1]))
    assert (places.place(3).directory, places.place(1).directory) == (paths[0], paths[2])
    assert places.place(3).path == paths[0] / "set-3"


def test_a_new_set_goes_where_the_fewest_are_and_stays_there(tmp_path: Path) -> None:
    first, second = directories(tmp_path, 1, None)
    (first / "set-2").mkdir()
    places = SetPlaces(disks(first, second))
    assert [places.place(set_id).directory for set_id in (3, 4, 5, 6)] == [
        second,
        second,
        first,
        second,
    ]
    assert places.place(5).directory == first


def test_a_set_that_is_gone_leaves_its_directory_to_others(tmp_path: Path) -> None:
    first, second = directories(tmp_path, 1, 2)
    places = SetPlaces(disks(first, second))
    places.forget(2)
    assert 2 not in places
    assert 1 in places
    assert places.place(3).directory == second


def test_a_copy_of_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="both hold replica set 2: remove the copy"):
        SetPlaces(disks(*directories(tmp_path, 2, 2)))


def test_a_directory_may_hold_several_sets(tmp_path: Path) -> None:
    (path,) = directories(tmp_path, 12)
    (path / "set-3").mkdir()
    assert sets_in(FileDisk(path)) == [3, 12]


def test_other_names_are_no_sets(tmp_path: Path) -> None:
    (path,) = directories(tmp_path, None)
    for name in ("set-0", "set-x", "set-01", "metadata"):
        (path / name).mkdir()
    (path / "set-5").write_text("a file")
    assert sets_in(FileDisk(path)) == []


def test_an_empty_metadata_directory_holds_no_metadata(tmp_path: Path) -> None:
    (path,) = directories(tmp_path, None)
    assert not has_metadata(FileDisk(path))
    (path / "metadata").mkdir()
    assert not has_metadata(FileDisk(path))
    (path / "metadata" / "raft.log").write_bytes(b"x")
    assert has_metadata(FileDisk(path))
