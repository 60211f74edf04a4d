"""Directories and metadata that do not belong together; whole nodes in tests/integration."""

from pathlib import Path

import pytest

from harness.ids import as_brokers
from penstock.base.errors import ConfigError
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.metadata.image import ClusterImage, ReplicaSetImage
from penstock.node.continuity import (
    LogsBehindMetadata,
    check_metadata,
    check_metadata_is_there,
)
from penstock.node.layout import ReplicaSetPlace
from tests.node.test_layout import directories, disks


def image_with(cluster_id: str = "c", **epochs: int) -> ClusterImage:
    """An image with sets `s<id>=leader epoch`; one with -1 was never led."""
    sets = {
        ReplicaSetId(int(name[1:])): ReplicaSetImage(
            replica_set_id=ReplicaSetId(int(name[1:])),
            master=BrokerId(1 if epoch >= 0 else -1),
            leader_epoch=LeaderEpoch(epoch),
            replicas=as_brokers(1),
            sync_state_set=as_brokers(1),
            sync_state_set_epoch=SyncStateSetEpoch(0),
        )
        for name, epoch in epochs.items()
    }
    return ClusterImage(cluster_id=cluster_id, replica_sets=sets)


def put_metadata(directory: Path) -> None:
    (directory / "metadata").mkdir()
    (directory / "metadata" / "raft.log").write_bytes(b"x")


def test_fresh_directories_need_no_metadata(tmp_path: Path) -> None:
    check_metadata_is_there(disks(*directories(tmp_path, None, None)))


def test_logs_need_the_metadata_log_in_the_first_directory(tmp_path: Path) -> None:
    first, second = directories(tmp_path, None, 1)
    with pytest.raises(ConfigError, match="missing while"):
        check_metadata_is_there(disks(first, second))
    put_metadata(second)
    with pytest.raises(ConfigError, match="name its directory first"):
        check_metadata_is_there(disks(first, second))
    check_metadata_is_there(disks(second, first))


def test_a_directory_that_is_absent_is_left_to_who_opens_it(tmp_path: Path) -> None:
    check_metadata_is_there(disks(tmp_path / "absent"))


@pytest.mark.parametrize("is_only_copy", [True, False])
def test_metadata_of_another_cluster_is_refused(tmp_path: Path, *, is_only_copy: bool) -> None:
    paths = disks(*directories(tmp_path, 1, None))
    check_metadata(image_with(s1=0), paths, cluster_id="c", is_only_copy=is_only_copy)
    with pytest.raises(ConfigError, match="belongs to cluster other"):
        check_metadata(image_with("other", s1=0), paths, cluster_id="c", is_only_copy=is_only_copy)


def test_metadata_that_is_the_only_copy_must_know_every_set(tmp_path: Path) -> None:
    paths = disks(*directories(tmp_path, 1, None))
    (next(iter(paths)) / "set-3").mkdir()
    check_metadata(image_with(s1=0, s3=0), paths, cluster_id="c", is_only_copy=True)
    for empty_or_old in (image_with("", s2=0), image_with(s2=0), image_with(s1=0)):
        with pytest.raises(ConfigError, match="does not contain"):
            check_metadata(empty_or_old, paths, cluster_id="c", is_only_copy=True)


def test_one_of_several_copies_may_not_have_heard_of_a_set_yet(tmp_path: Path) -> None:
    paths = disks(*directories(tmp_path, 1, None))
    for behind in (image_with(""), image_with(s2=0)):
        check_metadata(behind, paths, cluster_id="c", is_only_copy=False)


def test_a_log_that_is_opened_again_may_be_of_a_mastership_that_began_since_the_start(
    tmp_path: Path,
) -> None:
    behind, place = LogsBehindMetadata(), ReplicaSetPlace(ReplicaSetId(1), tmp_path)
    behind.expect(image_with(s1=4))
    behind.check(place, 4)
    behind.check(place, 9)


def test_a_log_that_is_ahead_of_the_only_metadata_is_refused(tmp_path: Path) -> None:
    behind = LogsBehindMetadata()
    behind.expect(image_with(s1=4))
    with pytest.raises(ConfigError, match="older copy"):
        behind.check(ReplicaSetPlace(ReplicaSetId(1), tmp_path), 5)
