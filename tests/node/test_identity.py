import json
import os

import pytest

from penstock.base.errors import ConfigError
from penstock.node.identity import IDENTITY_NAME, LOCK_NAME, open_data_directories


def open_and_close(paths, **arguments):
    directories = open_data_directories(paths, **arguments)
    for directory in directories:
        directory.close()
    return [directory.identity for directory in directories]


def test_a_fresh_directory_gets_an_identity_that_the_next_start_finds(tmp_path):
    (first,) = open_and_close([tmp_path], broker_id=7)
    assert (first.broker_id, first.format_version) == (7, 1)
    assert len(first.cluster_id) == 22
    assert open_and_close([tmp_path], broker_id=7) == [first]


def test_several_directories_share_the_cluster_and_have_their_own_directory_id(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
    (one,) = open_and_close(paths[:1], broker_id=1)
    both = open_and_close(paths, broker_id=1)
    assert [identity.cluster_id for identity in both] == [one.cluster_id] * 2
    assert both[0].directory_id != both[1].directory_id


def test_a_second_node_on_the_same_directory_is_refused_and_told_who_holds_it(tmp_path):
    (held,) = open_data_directories([tmp_path], broker_id=1)
    with pytest.raises(ConfigError, match=f"in use by another node .process {os.getpid()}."):
        open_data_directories([tmp_path], broker_id=1)
    held.close()
    open_and_close([tmp_path], broker_id=1)


def test_a_refusal_gives_back_the_locks_it_had_taken(tmp_path):
    good, absent = tmp_path / "good", tmp_path / "absent"
    good.mkdir()
    with pytest.raises(ConfigError, match="does not exist"):
        open_data_directories([good, absent], broker_id=1)
    open_and_close([good], broker_id=1)


def test_another_brokers_directory_is_refused(tmp_path):
    open_and_close([tmp_path], broker_id=1)
    with pytest.raises(ConfigError, match="belongs to broker 1"):
        open_data_directories([tmp_path], broker_id=2)


def test_another_clusters_directory_is_refused(tmp_path):
    open_and_close([tmp_path], broker_id=1, cluster_id="one")
    with pytest.raises(ConfigError, match="belongs to cluster one, not two"):
        open_data_directories([tmp_path], broker_id=1, cluster_id="two")


def test_directories_of_two_clusters_are_refused(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
        open_and_close([path], broker_id=1)
    with pytest.raises(ConfigError, match="belongs to cluster"):
        open_data_directories(paths, broker_id=1)


def test_a_directory_with_foreign_files_is_refused(tmp_path):
    (tmp_path / "letters.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds files that are not Penstock's"):
        open_data_directories([tmp_path], broker_id=1)


def test_a_start_that_was_cut_before_the_identity_can_be_repeated(tmp_path):
    (tmp_path / LOCK_NAME).write_text("")
    (tmp_path / f"{IDENTITY_NAME}.new").write_text("{")
    open_and_close([tmp_path], broker_id=1)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format_version": "x"}'])
def test_a_damaged_identity_is_refused(tmp_path, content):
    (tmp_path / IDENTITY_NAME).write_text(content)
    with pytest.raises(ConfigError, match="is damaged"):
        open_data_directories([tmp_path], broker_id=1)


def test_a_directory_of_a_newer_format_is_refused(tmp_path):
    open_and_close([tmp_path], broker_id=1)
    fields = json.loads((tmp_path / IDENTITY_NAME).read_text())
    (tmp_path / IDENTITY_NAME).write_text(json.dumps(fields | {"format_version": 2}))
    with pytest.raises(ConfigError, match="install a newer Penstock"):
        open_data_directories([tmp_path], broker_id=1)


def test_a_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a directory"):
        open_data_directories([tmp_path / "file"], broker_id=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="can not be used: Permission denied"):
        open_data_directories([tmp_path], broker_id=1)
