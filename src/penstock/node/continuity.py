"""Checks that the data directories belong together. If not, the node does not start.

    before anything is opened   the commit logs are there and the metadata log is not
    after the metadata log      it is another cluster's, or does not know a set that has a log
    after each commit log       it has seen a mastership that the metadata log does not know of

The metadata decides which topics exist, and partitions of other topics are deleted. With an empty,
older or foreign metadata log a start would delete acknowledged records although every file is
intact. Each of these cases is refused with a ConfigError before a commit log is changed.

One copy of several is not refused: its metadata may be behind at its start, and records beyond its
master's log are truncated in the handshake.

A set whose directory is missing is not refused either: the set loses its master, and its partitions
are served again when the directory is back.
"""

from collections.abc import Mapping
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.base.ports import Disk
from penstock.controller.metadata.image import NO_EPOCH, ClusterImage
from penstock.node.layout import METADATA_DIRECTORY, ReplicaSetPlace, has_metadata, sets_in

_ADVICE = "restore the directory from a copy, or correct node.data_directories"


def check_metadata_is_there(disks: Mapping[Path, Disk]) -> None:
    """Refuse directories that hold commit logs, but no metadata log where it must be.

    Reads only, and ignores missing directories: `open_data_directories` reports them.
    """
    first = next(iter(disks))
    if has_metadata(disks[first]):
        return
    elsewhere = [directory for directory, disk in disks.items() if has_metadata(disk)]
    if elsewhere:
        raise ConfigError(
            f"the metadata log is in {elsewhere[0]} and not in the first data directory, {first}: "
            "name its directory first in node.data_directories"
        )
    for directory, disk in disks.items():
        for set_id in sets_in(disk):
            raise ConfigError(
                f"{first / METADATA_DIRECTORY} is missing while {directory / f'set-{set_id}'} "
                f"holds data that only it explains: {_ADVICE}"
            )


def check_metadata(
    image: ClusterImage, disks: Mapping[Path, Disk], *, cluster_id: str, is_only_copy: bool
) -> None:
    """Refuse a metadata log that is not the one these directories were written with.

    One of several copies may be behind the others, and may not contain a set made just before.
    """
    where = next(iter(disks)) / METADATA_DIRECTORY
    if image.cluster_id not in {"", cluster_id}:
        raise ConfigError(
            f"{where} belongs to cluster {image.cluster_id}, and the data directories to "
            f"{cluster_id}: {_ADVICE}"
        )
    if not is_only_copy:
        return
    for directory, set_id in [(each, held) for each in disks for held in sets_in(disks[each])]:
        if set_id not in image.replica_sets:
            raise ConfigError(
                f"{where} does not contain {directory / f'set-{set_id}'}, so it is empty, too "
                f"old or of another node: {_ADVICE}"
            )


class LogsBehindMetadata:
    """Compares each set's leader epoch in the metadata at the start with that of its log.

    The epochs of the start are kept: the node's own registration begins new leader epochs, and a
    comparison with these would find nothing.
    """

    def __init__(self) -> None:
        self._leader_epochs: dict[int, int] = {}

    def expect(self, image: ClusterImage) -> None:
        """Record the leader epochs of the metadata, which is the only copy."""
        sets = image.replica_sets
        self._leader_epochs = {
            set_id: replica_set.leader_epoch for set_id, replica_set in sets.items()
        }

    def check(self, place: ReplicaSetPlace, log_epoch: int) -> None:
        """Refuse a log that is ahead, the first time it is opened. Raises ConfigError."""
        known_epoch = self._leader_epochs.pop(place.replica_set_id, None)
        if known_epoch is not None and log_epoch > max(known_epoch, NO_EPOCH):
            raise ConfigError(
                f"{place.path} has records of leader epoch {log_epoch} and the metadata log knows "
                f"of {known_epoch}, so it is an older copy: restore the newest one"
            )
