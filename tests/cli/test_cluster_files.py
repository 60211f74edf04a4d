"""What a launched cluster keeps from one start to the next."""

import json
import stat
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.cli.cluster_files import CLUSTER_FILE, local_cluster, secret_file
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
    (tmp_path / "cluster.new").write_bytes(b"half")
    assert len(secret_file(tmp_path).read_bytes().strip()) == 64
    assert not (tmp_path / "cluster.new").exists()


def test_file_says_who_the_controllers_are(tmp_path: Path) -> None:
    cluster = local_cluster(tmp_path, [1, 2, 3])
    fields = json.loads((tmp_path / CLUSTER_FILE).read_text())
    assert fields == {"cluster_id": cluster.cluster_id, "voters": [1, 2, 3]}
