"""A whole node over directories that are not what they were: refused, or served as far as it can.

The same with real processes is in tests/integration.
"""

import shutil
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.protocol.api_keys import ApiKey
from tests.kafka.test_produce_fetch import batch, create, fetch_fields, fetched, produce
from tests.live_node import LiveNode, running_node


def paths(*directories: Path) -> str:
    for directory in directories:
        directory.mkdir(exist_ok=True)
    return f"node.data_directories={','.join(map(str, directories))}"


def masters(node: LiveNode) -> dict[int, int]:
    sets = node.call(lambda: dict(node.broker.metadata.replica_sets))
    return {set_id: one.master for set_id, one in sets.items()}


@pytest.mark.parametrize("starts", [1, 2])
def test_metadata_that_is_older_than_a_log_is_refused_and_the_newest_serves_again(
    tmp_path: Path, starts: int
) -> None:
    data, metadata = tmp_path / "data", tmp_path / "data" / "metadata"
    with running_node(tmp_path, paths(data)) as node:
        create(node, "events")
    shutil.copytree(metadata, tmp_path / "older")
    for _ in range(starts):
        with running_node(tmp_path, paths(data)) as node:
            client = node.connect()
            produce(client, "events", batch(b"kept"))
            client.close()
    metadata.rename(tmp_path / "newest")
    shutil.copytree(tmp_path / "older", metadata)
    refused = LiveNode(tmp_path, (paths(data),))
    with pytest.raises(ConfigError, match=r"set-1 has records of leader epoch .* older copy"):
        refused.start()
    refused.join()
    shutil.rmtree(metadata)
    (tmp_path / "newest").rename(metadata)
    with running_node(tmp_path, paths(data)) as node:
        client = node.connect()
        assert fetched(client.ask(ApiKey.FETCH, 11, fetch_fields("events", 0))).high_watermark == (
            starts
        )
        client.close()


def test_set_whose_directory_is_away_is_not_served_and_is_again_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with running_node(tmp_path, paths(one, two)) as node:
        assert masters(node) == {1: 1, 2: 1}
    with running_node(tmp_path, paths(one)) as node:
        assert masters(node) == {1: 1, 2: -1}
        assert not (one / "set-2").exists()
    told = [
        message
        for message in caplog.messages
        if "set 2 is in none of node.data_directories" in message
    ]
    assert len(told) == 1
    with running_node(tmp_path, paths(one, two)) as node:
        assert masters(node) == {1: 1, 2: 1}


def test_another_directory_does_not_pass_for_the_one_that_is_away(tmp_path: Path) -> None:
    one, two, three = tmp_path / "one", tmp_path / "two", tmp_path / "three"
    with running_node(tmp_path, paths(one, two)):
        pass
    with running_node(tmp_path, paths(one, three)) as node:
        assert masters(node) == {1: 1, 2: -1}
    assert not (three / "set-2").exists()


def test_directory_that_is_added_gets_a_set_of_its_own(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with running_node(tmp_path, paths(one)) as node:
        assert masters(node) == {1: 1}
    with running_node(tmp_path, paths(one, two)) as node:
        assert masters(node) == {1: 1, 2: 1}
    assert (two / "set-2").is_dir()
