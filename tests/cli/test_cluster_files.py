"""What a launched cluster keeps from one start to the next."""

import json
import stat
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.cli.launch.cluster_files import (
    CLUSTER_FILE,
    check_founders,
    local_cluster,
    note_founded,
    secret_file,
)
from penstock.node.identity import open_data_directories


@pytest.mark.parametrize(
    ("nodes", "voters"), [(1, (1,)), (2, (1,)), (3, (1, 2, 3)), (4, (1, 2, 3)), (7, (1, 2, 3))]
)
def test_first_start_decides_on_an_odd_number_of_controllers(
    tmp_path: Path, nodes: int, voters: tuple[int, ...]
) -> None:
    cluster = local_cluster(tmp_path, range(1, nodes + 1))
    assert cluster.voters == voters
    assert len(cluster.cluster_id) == 22


def test_later_starts_keep_id_and_controllers_however_many_nodes_there_are(tmp_path: Path) -> None:
    first = local_cluster(tmp_path, [1, 2, 3])
    assert local_cluster(tmp_path, [1, 2, 3, 4, 5]) == first
    assert local_cluster(tmp_path, [1, 2, 3]) == first


def test_start_without_one_of_the_controllers_is_refused(tmp_path: Path) -> None:
    local_cluster(tmp_path, [1, 2, 3])
    with pytest.raises(ConfigError, match=r"on nodes 1, 2, 3: start it with --nodes 3 or more"):
        local_cluster(tmp_path, [1, 2])


def test_node_that_ran_alone_before_gives_its_id_and_is_the_only_controller(
    tmp_path: Path,
) -> None:
    data = tmp_path / "node-1" / "data"
    data.mkdir(parents=True)
    (directory,) = open_data_directories([data], broker_id=1)
    directory.close()
    (data / "metadata").mkdir()
    cluster = local_cluster(tmp_path, [1, 2, 3])
    assert cluster.cluster_id == directory.identity.cluster_id
    assert cluster.voters == (1,)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"cluster_id": "c"}', '{"cluster_id": "c", "voters": 1}']
)
def test_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / CLUSTER_FILE).write_text(content)
    with pytest.raises(ConfigError, match="is damaged: restore it"):
        local_cluster(tmp_path, [1, 2, 3])
    assert (tmp_path / CLUSTER_FILE).read_text() == content


def test_secret_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    secret = path.read_bytes()
    assert len(secret.strip()) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret_file(tmp_path).read_bytes() == secret


def test_secret_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "cluster.secret.new").write_bytes(b"half")
    assert len(secret_file(tmp_path).read_bytes().strip()) == 64
    assert not (tmp_path / "cluster.secret.new").exists()


def test_file_says_who_the_controllers_are(tmp_path: Path) -> None:
    cluster = local_cluster(tmp_path, [1, 2, 3])
    fields = json.loads((tmp_path / CLUSTER_FILE).read_text())
    assert fields == {"cluster_id": cluster.cluster_id, "voters": [1, 2, 3]}


def started(directory: Path, *broker_ids: int) -> dict[int, Path]:
    """Nodes that have run: where each has its metadata log, and that it has one."""
    metadata = {
        broker_id: directory / f"node-{broker_id}" / "data" / "metadata" for broker_id in broker_ids
    }
    cluster = local_cluster(directory, broker_ids)
    for voter in cluster.voters:
        metadata[voter].mkdir(parents=True)
        (metadata[voter] / "raft.log").write_bytes(b"entries")
    note_founded(directory, metadata)
    return metadata


def lose(metadata: Path) -> None:
    (metadata / "raft.log").unlink()


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_founders_that_all_lost_their_metadata_found_no_second_group(
    tmp_path: Path, nodes: int
) -> None:
    metadata = started(tmp_path, *range(1, nodes + 1))
    check_founders(tmp_path, metadata)
    for voter in local_cluster(tmp_path, list(metadata)).voters:
        lose(metadata[voter])
    with pytest.raises(ConfigError, match=r"founded this cluster is gone .*put a disk back"):
        check_founders(tmp_path, metadata)


def test_founders_start_while_one_of_them_has_its_metadata(tmp_path: Path) -> None:
    metadata = started(tmp_path, 1, 2, 3)
    lose(metadata[1])
    lose(metadata[3])
    check_founders(tmp_path, metadata)


def test_a_wiped_founder_starts_when_the_controllers_that_were_added_are_named(
    tmp_path: Path,
) -> None:
    metadata = started(tmp_path, 1, 2)
    metadata[2].mkdir(parents=True)
    (metadata[2] / "raft.log").write_bytes(b"entries")
    lose(metadata[1])
    fields = json.loads((tmp_path / CLUSTER_FILE).read_text())
    (tmp_path / CLUSTER_FILE).write_text(json.dumps({**fields, "voters": [1, 2]}))
    check_founders(tmp_path, metadata)


def test_a_first_start_that_ended_early_is_made_again(tmp_path: Path) -> None:
    metadata = {1: tmp_path / "node-1" / "data" / "metadata"}
    local_cluster(tmp_path, [1])
    note_founded(tmp_path, metadata)
    check_founders(tmp_path, metadata)
    metadata[1].mkdir(parents=True)
    note_founded(tmp_path, metadata)
    check_founders(tmp_path, metadata)


def test_a_node_without_a_cluster_is_not_looked_at(tmp_path: Path) -> None:
    note_founded(tmp_path, {1: tmp_path})
    check_founders(tmp_path, {1: tmp_path / "nothing"})
    assert list(tmp_path.iterdir()) == []


def test_that_a_cluster_is_founded_stays_in_its_file(tmp_path: Path) -> None:
    started(tmp_path, 1, 2, 3)
    assert json.loads((tmp_path / CLUSTER_FILE).read_text())["is_founded"] is True
    assert local_cluster(tmp_path, [1, 2, 3, 4]).is_founded
