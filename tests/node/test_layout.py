from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.node.layout import place_replica_sets, set_in


def directories(root: Path, *sets: int | None) -> list[Path]:
    made = []
    for number, set_id in enumerate(sets):
        path = root / f"data-{number}"
        path.mkdir()
        if set_id is not None:
            (path / f"set-{set_id}").mkdir()
        made.append(path)
    return made


def ids(root: Path, *sets: int | None, used: set[int] = frozenset()) -> list[int]:
    return [place.replica_set_id for place in place_replica_sets(directories(root, *sets), used)]


def test_fresh_directories_get_the_lowest_ids_in_their_order(tmp_path: Path) -> None:
    assert ids(tmp_path, None, None, None) == [1, 2, 3]


def test_a_directory_keeps_its_set_wherever_it_is_named(tmp_path: Path) -> None:
    assert ids(tmp_path, 3, None, 1) == [3, 2, 1]


def test_a_fresh_directory_does_not_take_the_id_of_a_set_with_data_elsewhere(
    tmp_path: Path,
) -> None:
    assert ids(tmp_path, 1, None, used={1, 2}) == [1, 3]


def test_a_copy_of_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="same replica set"):
        ids(tmp_path, 2, 2)


def test_two_sets_in_one_directory_are_refused(tmp_path: Path) -> None:
    (path,) = directories(tmp_path, 1)
    (path / "set-2").mkdir()
    with pytest.raises(ConfigError, match="2 replica sets"):
        set_in(path)


def test_other_names_are_no_sets(tmp_path: Path) -> None:
    (path,) = directories(tmp_path, None)
    for name in ("set-0", "set-x", "set-01", "metadata"):
        (path / name).mkdir()
    (path / "set-5").write_text("a file")
    assert set_in(path) is None
