"""Directories and metadata that do not belong together; whole nodes in tests/integration."""

from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.base.ids import ReplicaSetId
from penstock.controller.image import ClusterImage, ReplicaSetImage
from penstock.node.continuity import (
    check_leader_epochs,
    check_metadata,
    check_metadata_is_there,
    sets_with_data,
    sets_without_directory,
)
from penstock.node.layout import ReplicaSetPlace
from tests.node.test_layout import directories


def image_with(cluster_id: str = "c", **epochs: int) -> ClusterImage:
    """An image with sets `s<id>=leader epoch`; one with -1 was never led."""
    sets = {
        int(name[1:]): ReplicaSetImage(
            replica_set_id=int(name[1:]),
            master=1 if epoch >= 0 else -1,
            leader_epoch=epoch,
            replicas=(1,),
            sync_state_set=(1,),
            sync_state_set_epoch=0,
        )
        for name, epoch in epochs.items()
    }
    return ClusterImage(cluster_id=cluster_id, replica_sets=sets)


def put_metadata(directory: Path) -> None:
    (directory / "metadata").mkdir()
    (directory / "metadata" / "log").write_bytes(b"x")


def test_fresh_directories_need_no_metadata(tmp_path: Path) -> None:
    check_metadata_is_there(directories(tmp_path, None, None))


def test_logs_need_the_metadata_log_in_the_first_directory(tmp_path: Path) -> None:
    first, second = directories(tmp_path, None, 1)
    with pytest.raises(ConfigError, match="missing while"):
        check_metadata_is_there([first, second])
    put_metadata(second)
    with pytest.raises(ConfigError, match="name its directory first"):
        check_metadata_is_there([first, second])
    check_metadata_is_there([second, first])


def test_a_directory_that_is_absent_is_left_to_who_opens_it(tmp_path: Path) -> None:
    check_metadata_is_there([tmp_path / "absent"])


def test_metadata_must_be_of_the_same_cluster_and_know_every_set(tmp_path: Path) -> None:
    paths = directories(tmp_path, 1, None)
    check_metadata(image_with(s1=0), paths, cluster_id="c")
    with pytest.raises(ConfigError, match="belongs to cluster other"):
        check_metadata(image_with("other", s1=0), paths, cluster_id="c")
    for empty_or_old in (image_with("", s2=0), image_with(s2=0)):
        with pytest.raises(ConfigError, match="knows nothing of"):
            check_metadata(empty_or_old, paths, cluster_id="c")


def test_a_log_may_be_behind_the_metadata_and_never_ahead_of_it(tmp_path: Path) -> None:
    place = ReplicaSetPlace(ReplicaSetId(1), tmp_path)
    check_leader_epochs(image_with(s1=4), place, [(0, 0), (3, 900)])
    check_leader_epochs(image_with(s1=4), place, [(4, 900)])
    check_leader_epochs(image_with(s1=-1), place, [])
    with pytest.raises(ConfigError, match="older copy"):
        check_leader_epochs(image_with(s1=4), place, [(0, 0), (5, 900)])


def test_a_set_that_was_never_led_has_no_data_and_one_without_directory_is_named(
    tmp_path: Path,
) -> None:
    image = image_with(s1=0, s2=7, s3=-1)
    assert sets_with_data(image) == {1, 2}
    here = [ReplicaSetPlace(ReplicaSetId(1), tmp_path)]
    assert [one.replica_set_id for one in sets_without_directory(image, here, broker_id=1)] == [2]
