"""Whether the data directories still belong together. If not, the node does not start.

    before anything is opened   the commit logs are there and the metadata log is not
    after the metadata log      it is another cluster's, or does not know a set that has a log
    after the commit logs       a log has seen a mastership that the metadata log does not know of

Metadata says which topics exist, and partitions of others are dropped. With an empty, older or
foreign metadata log a start would thus throw acknowledged records away, although every file is
whole. All of this is refused with a ConfigError before a commit log has been changed.

A set whose directory is not among the data directories is no such case: it loses its master, its
partitions are not served, and they are again when the directory comes back.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.controller.image import NO_EPOCH, ClusterImage, ReplicaSetImage
from penstock.node.layout import METADATA_DIRECTORY, ReplicaSetPlace, has_metadata, set_in

_ADVICE = "restore the directory from a copy, or correct node.data_directories"


def check_metadata_is_there(directories: Sequence[Path]) -> None:
    """Refuse directories that hold commit logs, but no metadata log where it must be.

    Reads only, and tolerates directories that can not be read: others say what is wrong with them.
    """
    present = [directory for directory in directories if directory.is_dir()]
    first = directories[0]
    if has_metadata(first):
        return
    elsewhere = [directory for directory in present if has_metadata(directory)]
    if elsewhere:
        raise ConfigError(
            f"the metadata log is in {elsewhere[0]} and not in the first data directory, {first}: "
            "name its directory first in node.data_directories"
        )
    for directory in present:
        set_id = set_in(directory)
        if set_id is not None:
            raise ConfigError(
                f"{first / METADATA_DIRECTORY} is missing while {directory / f'set-{set_id}'} "
                f"holds data that only it explains: {_ADVICE}"
            )


def check_metadata(image: ClusterImage, directories: Sequence[Path], *, cluster_id: str) -> None:
    """Refuse a metadata log that is not the one these directories were written with."""
    where = directories[0] / METADATA_DIRECTORY
    if image.cluster_id not in {"", cluster_id}:
        raise ConfigError(
            f"{where} belongs to cluster {image.cluster_id}, and the data directories to "
            f"{cluster_id}: {_ADVICE}"
        )
    for directory in directories:
        set_id = set_in(directory)
        if set_id is not None and set_id not in image.replica_sets:
            raise ConfigError(
                f"{where} knows nothing of {directory / f'set-{set_id}'}, so it is empty, too old "
                f"or not of this node: {_ADVICE}"
            )


def check_leader_epochs(
    image: ClusterImage, place: ReplicaSetPlace, epochs: Iterable[tuple[int, int]]
) -> None:
    """Refuse a log, whose `epochs` these are, that is ahead of the metadata log."""
    newest = max((leader_epoch for leader_epoch, _ in epochs), default=NO_EPOCH)
    known = image.replica_sets[place.replica_set_id].leader_epoch
    if newest > known:
        raise ConfigError(
            f"{place.path} was written under leader epoch {newest}, and the metadata log knows "
            f"epochs up to {known}, so it is an older copy: restore a newer one"
        )


def sets_with_data(image: ClusterImage) -> set[int]:
    """Return the ids of sets that were ever led, and so may hold data."""
    return {
        set_id
        for set_id, replica_set in image.replica_sets.items()
        if replica_set.leader_epoch != NO_EPOCH
    }


def sets_without_directory(
    image: ClusterImage, places: Iterable[ReplicaSetPlace], *, broker_id: int
) -> list[ReplicaSetImage]:
    """Return the sets that this broker leads by the metadata, and whose log it does not have."""
    here = {place.replica_set_id for place in places}
    return [
        replica_set
        for replica_set in image.replica_sets.values()
        if replica_set.master == broker_id and replica_set.replica_set_id not in here
    ]
