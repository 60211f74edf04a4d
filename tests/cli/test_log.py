"""`penstock log` finds logs in the directories that have them, and in no other."""

import pytest

from penstock.base.errors import ConfigError
from penstock.cli.log import logs_in
from penstock.cli.program import guarded


@pytest.fixture
def node(tmp_path):
    """A node's directory as `penstock up` makes it: its own log stands beside the data."""
    (tmp_path / "data" / "set-1" / "log").mkdir(parents=True)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "node.log").touch()
    return tmp_path


def test_a_data_directory_and_one_log_in_it_are_both_found(node):
    data = node / "data"
    assert logs_in(data) == logs_in(data / "set-1") == [(data, "set-1")]


def test_a_directory_with_the_messages_of_a_node_holds_no_log(node):
    with pytest.raises(ConfigError, match="holds no log: name a data directory"):
        logs_in(node)


def test_a_byte_behind_which_no_frame_begins_is_told(node, capsys):
    assert guarded(["log", "dump", str(node / "data"), "--from", "7", "-o", "json"]) == 0
    assert capsys.readouterr() == ("", "no frame begins at byte 7 or behind it\n")
