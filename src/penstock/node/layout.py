"""The places of replica sets in data directories.

    first data directory/   metadata/   the metadata log
    each data directory/    set-<id>/   the commit log of one replica set, and replica.json

A set keeps its directory for life; the directories on disk are the only record of it. A new set
goes to the data directory with the fewest sets. A data directory that is removed takes only its own
sets' copies with it: if such a copy comes back empty, the controllers notice by the log id in
replica.json that it is not the registered one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.base.errors import ConfigError
from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Disk

METADATA_DIRECTORY = "metadata"
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


class SetPlaces:
    """The places of this node's sets: those found on disk and those assigned since."""

    def __init__(self, disks: Mapping[Path, Disk]) -> None:
        """List the sets on disk. Raises ConfigError if two directories contain the same set."""
        self._disks = disks
        self._places: dict[int, ReplicaSetPlace] = {}
        for directory, disk in disks.items():
            for set_id in sets_in(disk):
                if set_id in self._places:
                    raise ConfigError(
                        f"{directory} and {self._places[set_id].directory} both hold replica set "
                        f"{set_id}: remove the copy"
                    )
                self._places[set_id] = ReplicaSetPlace(ReplicaSetId(set_id), directory)

    def __iter__(self) -> Iterator[ReplicaSetPlace]:
        return iter(list(self._places.values()))

    def __contains__(self, set_id: int) -> bool:
        return set_id in self._places

    def place(self, set_id: int) -> ReplicaSetPlace:
        """Return the set's place; a new set gets the directory with the fewest, in their order."""
        known = self._places.get(set_id)
        if known is None:
            counts = Counter(place.directory for place in self._places.values())
            directory = min(self._disks, key=lambda each: counts[each])
            known = self._places[set_id] = ReplicaSetPlace(ReplicaSetId(set_id), directory)
        return known

    def disk(self, place: ReplicaSetPlace) -> Disk:
        """Return the disk of a place."""
        return self._disks[place.directory]

    def forget(self, set_id: int) -> None:
        """Remove the set's place; its files are gone."""
        self._places.pop(set_id, None)


def sets_in(disk: Disk) -> list[int]:
    """Return the ids of the replica sets in a data directory, ascending."""
    matches = [_SET_NAME.fullmatch(name) for name in disk.directories("")]
    return sorted(int(match[1]) for match in matches if match is not None)


def has_metadata(disk: Disk) -> bool:
    """Whether the metadata log is in this data directory."""
    return bool(disk.list(METADATA_DIRECTORY))
