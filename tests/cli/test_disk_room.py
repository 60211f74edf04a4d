"""A start for which the disk has no room says how much it needs, before it takes any."""

import shutil
from collections import namedtuple

import pytest

from penstock.base.errors import ConfigError
from penstock.cli.launch.disk_room import check_room, needed_bytes
from penstock.storage.config import LogConfig

Usage = namedtuple("Usage", "total used free")
CONFIG = LogConfig()


@pytest.fixture
def free(monkeypatch):
    def set_free(count):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, count))

    return set_free


def test_three_new_nodes_need_a_third_of_a_gigabyte(tmp_path, free):
    nodes = [(tmp_path, CONFIG)] * 3
    needed = 3 * needed_bytes(CONFIG, sets=3) + CONFIG.reserve_bytes
    assert needed < 400_000_000
    free(needed)
    check_room(nodes, sets=3)
    free(needed - 1)
    with pytest.raises(ConfigError, match=r"has 394 MB free and 3 new nodes need 394 MB: free"):
        check_room(nodes, sets=3)


def test_one_node_is_spoken_of_in_the_singular(tmp_path, free):
    free(0)
    with pytest.raises(ConfigError, match=r"has 0 MB free and a new node needs 109 MB: free"):
        check_room([(tmp_path, CONFIG)], sets=1)


def test_nodes_that_have_their_logs_are_not_asked_for_more(tmp_path, free):
    (tmp_path / "set-1").mkdir()
    free(0)
    check_room([(tmp_path, CONFIG)], sets=1)
