"""The name that a commit log was made with, kept beside it."""

import json
from pathlib import Path

import pytest
from crc32c import crc32c

from penstock.base.errors import ConfigError
from penstock.base.ids import ReplicaSetId
from penstock.node.layout import ReplicaSetPlace
from penstock.node.replica_file import REPLICA_FILE, log_id_of
from penstock.runtime.io.disk import FileDisk
from penstock.runtime.io.randomness import SystemRandomness


def place_in(directory: Path) -> tuple[ReplicaSetPlace, FileDisk]:
    return ReplicaSetPlace(ReplicaSetId(4), directory), FileDisk(directory)


def test_log_gets_a_name_that_the_next_start_finds(tmp_path: Path) -> None:
    place, disk = place_in(tmp_path)
    first = log_id_of(place, disk, SystemRandomness())
    assert len(first) == 22
    assert log_id_of(place, disk, SystemRandomness()) == first
    fields = json.loads((tmp_path / "set-4" / REPLICA_FILE).read_text())
    check = fields.pop("check")
    assert fields == {"format_version": 1, "replica_set_id": 4, "log_id": first}
    assert check == crc32c(f"4:{first}".encode())


def test_log_that_is_found_without_its_name_counts_as_another(tmp_path: Path) -> None:
    place, disk = place_in(tmp_path)
    first = log_id_of(place, disk, SystemRandomness())
    (place.path / REPLICA_FILE).unlink()
    assert log_id_of(place, disk, SystemRandomness()) != first


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format_version": "x"}'])
def test_damaged_name_is_refused_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    place, disk = place_in(tmp_path)
    place.path.mkdir()
    (place.path / REPLICA_FILE).write_text(content)
    with pytest.raises(ConfigError, match=r"replica\.json is damaged: restore it"):
        log_id_of(place, disk, SystemRandomness())
    assert (place.path / REPLICA_FILE).read_text() == content


def test_name_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    place, disk = place_in(tmp_path)
    place.path.mkdir()
    (place.path / REPLICA_FILE).write_text('{"format_version": 2, "log_id": "x"}')
    with pytest.raises(ConfigError, match="install a newer Penstock"):
        log_id_of(place, disk, SystemRandomness())
