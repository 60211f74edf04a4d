"""The data directories of a node, as in answers to DescribeLogDirs."""

from collections.abc import Mapping
from pathlib import Path

from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Disk
from penstock.broker.log_directories import LogDirectory
from penstock.node.layout import SetPlaces

UNKNOWN = -1


def log_directories(disks: Mapping[Path, Disk], places: SetPlaces) -> list[LogDirectory]:
    """Ask each file system for its space, and return the directories in the order of settings."""
    sets: dict[Path, set[ReplicaSetId]] = {path: set() for path in disks}
    for place in places:
        sets[place.directory].add(place.replica_set_id)
    return [
        LogDirectory(str(path), *_space(disk), frozenset(sets[path]))
        for path, disk in disks.items()
    ]


def _space(disk: Disk) -> tuple[int, int]:
    try:
        return disk.total_bytes(), disk.free_bytes()
    except OSError:
        return UNKNOWN, UNKNOWN
