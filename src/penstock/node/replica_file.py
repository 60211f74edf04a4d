"""The log id of a replica, in `set-<id>/replica.json`.

    {"format_version": 1, "replica_set_id", "log_id", "check": crc32c of "<set id>:<log id>"}

Files of earlier releases have no check. A damaged file means a lost id: in a set with other members
the log gets a new one, and counts as lost until it has caught up with its master.
"""

import json
from typing import Any

from crc32c import crc32c

from penstock.base.errors import ConfigError
from penstock.base.ports import Disk, Randomness
from penstock.node.layout import ReplicaSetPlace
from penstock.runtime.io.randomness import token_text

REPLICA_FILE = "replica.json"
FORMAT_VERSION = 1


class DamagedReplicaFile(ConfigError):
    """The file cannot be read, or its check fails."""


def log_id_of(place: ReplicaSetPlace, disk: Disk, randomness: Randomness) -> str:
    """Return the log id of a place, durably creating one if there is none. Blocking.

    Raises:
        DamagedReplicaFile, ConfigError: the file is damaged, or of a newer format.
    """
    name, path = f"{place.name}/{REPLICA_FILE}", place.path / REPLICA_FILE
    try:
        fields = json.loads(_read_whole(disk, name))
        log_id = str(fields["log_id"])
        is_newer = fields["format_version"] > FORMAT_VERSION
        is_whole = fields.get("check") in {None, _check(place, log_id)}
    except FileNotFoundError:
        return renew_log_id(place, disk, randomness)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(place) from error
    if not is_whole:
        raise _damaged(place)
    if is_newer:
        raise ConfigError(f"{path} has a newer format: install a newer Penstock")
    return log_id


def _damaged(place: ReplicaSetPlace) -> DamagedReplicaFile:
    return DamagedReplicaFile(
        f"{place.path / REPLICA_FILE} is damaged: restore it from a copy, or move {place.path} "
        "away to begin this copy of the set anew from its master"
    )


def renew_log_id(place: ReplicaSetPlace, disk: Disk, randomness: Randomness) -> str:
    """Give the log of a place a new id, durably, and return it. Blocking."""
    log_id = token_text(randomness, 16)
    fresh: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "replica_set_id": place.replica_set_id,
        "log_id": log_id,
        "check": _check(place, log_id),
    }
    disk.make_directory(place.name)
    disk.replace(f"{place.name}/{REPLICA_FILE}", json.dumps(fresh).encode() + b"\n")
    return log_id


def _check(place: ReplicaSetPlace, log_id: str) -> int:
    return int(crc32c(f"{place.replica_set_id}:{log_id}".encode()))


def _read_whole(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return bytes(file.read(0, file.size()))
    finally:
        file.close()
