"""Where this node's commit logs come from: places, recovery, and the name each log was made with.

    set-<id>/replica.json   {"format_version", "replica_set_id", "log_id"}

The log id is made with the log and registered with the controllers: a member that comes with
another one has lost what it had acknowledged, and must not be elected on it (row H-12). So it is
written before the log is, and a log that is found without it is treated as one that was lost.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from penstock.base.errors import ConfigError, PlatformError
from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Disk, Offload, Randomness
from penstock.controller.image import NO_EPOCH, ClusterImage
from penstock.node.continuity import LogsBehindMetadata
from penstock.node.layout import ReplicaSetPlace, SetPlaces
from penstock.node.recovery import GivenUp, LogOpener, in_worker
from penstock.runtime.randomness import token_text
from penstock.runtime.replica_manager import OpenedLog
from penstock.storage.set_log import SetLog

REPLICA_FILE = "replica.json"
FORMAT_VERSION = 1


class SetNotHere(PlatformError):
    """The only copy of a set is in none of the data directories: nothing is made in its place."""

    def __init__(self, replica_set_id: int, partition_count: int) -> None:
        super().__init__(
            f"set {replica_set_id} is in none of node.data_directories: its {partition_count} "
            "partitions are not served until its directory is back"
        )


class NodeLogs:
    """A LogSource over this node's data directories."""

    def __init__(
        self,
        image: ClusterImage,
        places: SetPlaces,
        opener: LogOpener,
        workers: Mapping[Path, Offload],
        *,
        behind_metadata: LogsBehindMetadata,
        randomness: Randomness,
    ) -> None:
        self._image = image
        self._places = places
        self._opener = opener
        self._workers = workers
        self._behind_metadata = behind_metadata
        self._randomness = randomness

    async def open(self, replica_set_id: ReplicaSetId) -> OpenedLog:
        """Recover the set's log, or make an empty one. Raises PlatformError, OSError."""
        replica_set = self._image.replica_sets.get(replica_set_id)
        is_sole = replica_set is None or len(replica_set.replicas) == 1
        was_led = replica_set is not None and replica_set.leader_epoch != NO_EPOCH
        if is_sole and was_led and replica_set_id not in self._places:
            raise SetNotHere(replica_set_id, self._image.partition_counts.get(replica_set_id, 0))
        place = self._places.place(replica_set_id)
        disk, workers = self._places.disk(place), self._workers[place.directory]
        log_id = await in_worker(workers, lambda: log_id_of(place, disk, self._randomness))
        try:
            opened = await self._opener.open(place, disk, workers, is_sole_member=is_sole)
        except GivenUp:  # the node stops: nobody is to be told that the log could not be opened
            raise asyncio.CancelledError from None
        try:
            self._behind_metadata.check(place, opened.leader_epoch)
        except ConfigError:
            opened.close()
            raise
        return OpenedLog(opened, log_id)

    def close(self, replica_set_id: ReplicaSetId, log: SetLog) -> None:
        """Close the log; its files stay. Raises StorageError, OSError."""
        del replica_set_id
        log.close()


def log_id_of(place: ReplicaSetPlace, disk: Disk, randomness: Randomness) -> str:
    """Return the log id of a place, making one durably where there is none. Blocking."""
    name, path = f"{place.name}/{REPLICA_FILE}", place.path / REPLICA_FILE
    try:
        fields = json.loads(_read_whole(disk, name))
        if fields["format_version"] > FORMAT_VERSION:
            raise ConfigError(f"{path} has a newer format: install a newer Penstock")
        return str(fields["log_id"])
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{path} is damaged: restore it from a copy, or move {place.path} away to begin this "
            "copy of the set anew from its master"
        ) from error
    fresh = {
        "format_version": FORMAT_VERSION,
        "replica_set_id": place.replica_set_id,
        "log_id": token_text(randomness, 16),
    }
    disk.make_directory(place.name)
    disk.replace(name, json.dumps(fresh).encode() + b"\n")
    return str(fresh["log_id"])


def _read_whole(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return bytes(file.read(0, file.size()))
    finally:
        file.close()
