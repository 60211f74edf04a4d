"""`penstock log` finds logs in the directories that have them, and in no other."""

import json

import pytest

from penstock.base.errors import ConfigError
from penstock.cli.log import logs_in
from penstock.cli.program import guarded
from penstock.inspection.dump import FrameDescription
from penstock.storage.errors import CorruptLog, NewerFormat


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


def test_a_topic_id_is_shown_as_topic_list_shows_it(node, monkeypatch, capsys):
    batch = FrameDescription(0, 100, "batch", 0, "7279ea6e78fb4c0f99c0ebac211a845a", *[0] * 9)
    start = batch._replace(kind="epoch-start", topic_id="")
    monkeypatch.setattr(
        "penstock.inspection.dump.dump_frames", lambda *_, from_position: [start, batch]
    )
    assert guarded(["log", "dump", str(node / "data")]) == 0
    assert guarded(["log", "dump", str(node / "data"), "-o", "json"]) == 0
    _, plain, found, *documents = capsys.readouterr().out.splitlines()
    assert plain.split()[5] == "-"
    assert found.split()[5] == "7279ea6e-78fb-4c0f-99c0-ebac211a845a"
    ids = [json.loads(document)["topic_id"] for document in documents]
    assert ids == ["", "7279ea6e-78fb-4c0f-99c0-ebac211a845a"]


def test_damage_is_told_with_all_of_the_path(node, monkeypatch, capsys):
    def damaged(disk, log):
        raise CorruptLog(log, 60, "frame checksum does not agree")

    monkeypatch.setattr("penstock.inspection.pins_of_files.read_pins", damaged)
    assert guarded(["log", "pins", str(node / "data")]) == 1
    place = node / "data" / "set-1"
    told = capsys.readouterr().err
    assert told.startswith(f"penstock: commit log {place} is damaged at position 60: ")
    assert f"`penstock log verify {place}`" in told


def test_a_file_of_a_later_release_is_told_with_its_data_directory(node, monkeypatch, capsys):
    def later(disk, log):
        raise NewerFormat(f"{log}/snapshot/7.snap", "version 9")

    monkeypatch.setattr("penstock.inspection.pins_of_files.read_pins", later)
    assert guarded(["log", "pins", str(node / "data")]) == 1
    told = capsys.readouterr().err
    assert told.startswith(
        f"penstock: {node / 'data'}: set-1/snapshot/7.snap was written by a later"
    )
