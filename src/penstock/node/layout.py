"""Which replica set lives in which data directory.

    first data directory/   metadata/   the metadata log
    each data directory/    set-<id>/   the commit log of one replica set

A directory keeps its set for life: the names on disk say which. A fresh directory gets the lowest
id that no directory has and that never had a master: a set of which metadata remembers data is not
begun anew as an empty log. Taking a directory away takes its set's partitions away, and nothing
else.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.base.errors import ConfigError
from penstock.base.ids import ReplicaSetId

METADATA_DIRECTORY = "metadata"
METADATA_FILE = "log"
_SET_NAME = re.compile(r"set-([1-9][0-9]{0,8})")


class ReplicaSetPlace(NamedTuple):
    """A replica set and where its log is."""

    replica_set_id: ReplicaSetId
    directory: Path

    @property
    def name(self) -> str:
        """Directory of the log, relative to the data directory."""
        return f"set-{self.replica_set_id}"

    @property
    def path(self) -> Path:
        """Directory of the log."""
        return self.directory / self.name


def place_replica_sets(
    directories: Sequence[Path], used: Collection[int] = ()
) -> list[ReplicaSetPlace]:
    """Return one place per data directory, in their order. Raises ConfigError.

    `used` are sets that have data somewhere: a fresh directory gets none of these ids.
    """
    found = [set_in(directory) for directory in directories]
    here = [set_id for set_id in found if set_id is not None]
    taken = {*here, *used}
    if len(set(here)) < len(here):
        raise ConfigError("two data directories hold the same replica set: remove the copy")
    free = (number for number in range(1, len(directories) + len(taken) + 1) if number not in taken)
    return [
        ReplicaSetPlace(ReplicaSetId(next(free) if set_id is None else set_id), directory)
        for set_id, directory in zip(found, directories, strict=True)
    ]


def set_in(directory: Path) -> int | None:
    """Return the id of the replica set in a data directory, None for none. Raises ConfigError."""
    matches = [_SET_NAME.fullmatch(entry.name) for entry in directory.iterdir() if entry.is_dir()]
    ids = sorted(int(match[1]) for match in matches if match is not None)
    if len(ids) > 1:
        raise ConfigError(f"data directory {directory} holds {len(ids)} replica sets, not one")
    return ids[0] if ids else None


def has_metadata(directory: Path) -> bool:
    """Whether the metadata log is in this data directory."""
    return (directory / METADATA_DIRECTORY / METADATA_FILE).exists()
