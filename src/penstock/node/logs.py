"""Opens this node's commit logs: their places, recovery, and log ids.

The log id (replica_file.py) is created with the log and registered with the controllers: a member
with another one has lost what it had acknowledged, and must not be elected for it. So the id is
written before the log, and a log without an id counts as lost. So does an id without a log: an
empty log must not use the id of one that had records.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from penstock.base.errors import ConfigError, PlatformError
from penstock.base.ids import Position, ReplicaSetId
from penstock.base.ports import Disk, Offload, Randomness
from penstock.controller.metadata.image import NO_EPOCH, ClusterImage
from penstock.node.continuity import LogsBehindMetadata
from penstock.node.layout import ReplicaSetPlace, SetPlaces
from penstock.node.recovery import GivenUp, LogOpener, in_worker
from penstock.node.replica_file import (
    REPLICA_FILE,
    DamagedReplicaFile,
    log_id_of,
    renew_log_id,
)
from penstock.replica.replica_set import ReplicaSetMember
from penstock.runtime.ha.host import OpenedLog
from penstock.storage.commit_log.files import has_log
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.errors import CorruptLog
from penstock.storage.recover.repair import cut_below_damage

log = logging.getLogger(__name__)


class SetNotHere(PlatformError):
    """The only copy of a set is in none of the data directories; no new log is created for it."""

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
        """Recover the set's log, or make an empty one. Raises PlatformError, OSError.

        The image at a start may be behind, since the commit index need not survive a loss of power.
        It still never shows a set with this broker as its only member if another member has been in
        step: this broker sent that member nothing before it had applied its registration, which
        was proposed after the change of members was committed. Whichever disk holds an entry also
        records that the entries it depends on are committed
        (tests/runtime/test_raft_known_agreed.py). A member without registration is sent nothing
        (tests/runtime/test_ha_server.py), and loses its registration with its membership
        (tests/controller/test_registration.py).
        """
        replica_set = self._image.replica_sets.get(replica_set_id)
        is_sole = replica_set is None or len(replica_set.replicas) == 1
        was_led = replica_set is not None and replica_set.leader_epoch != NO_EPOCH
        if is_sole and was_led and replica_set_id not in self._places:
            raise SetNotHere(replica_set_id, self._image.partition_counts.get(replica_set_id, 0))
        place = self._places.place(replica_set_id)
        disk, workers = self._places.disk(place), self._workers[place.directory]
        rebuilt_files = 0
        is_lost = was_led and await in_worker(workers, lambda: _is_name_without_log(place, disk))
        try:
            log_id = await in_worker(workers, lambda: log_id_of(place, disk, self._randomness))
        except DamagedReplicaFile as error:
            if is_sole:
                raise
            log.critical(
                "set=%d: %s; it gets a new one, and counts as lost", place.replica_set_id, error
            )
            log_id = await in_worker(workers, lambda: renew_log_id(place, disk, self._randomness))
            rebuilt_files = 1
        if is_lost:
            log_id = await self._begin_lost_log_anew(place, is_sole=is_sole)
        try:
            opened = await self._opener.open(place, disk, workers, is_sole_member=is_sole)
        except GivenUp:  # the node stops: this is no failure to open the log
            raise asyncio.CancelledError from None
        try:
            self._behind_metadata.check(place, opened.leader_epoch)
        except ConfigError:
            opened.close()
            raise
        rebuilt_files += len(opened.recovery.damaged_files)
        return OpenedLog(opened, log_id, rebuilt_files)

    async def _begin_lost_log_anew(self, place: ReplicaSetPlace, *, is_sole: bool) -> str:
        """Give a log without any files a new id. Raises CorruptLog for the only copy.

        With the registered id the controllers would count on its old content, and could elect it.
        """
        if is_sole:
            raise CorruptLog(str(place.path), 0, "every file of the log is missing")
        log.critical("set=%d: every file of its log is missing", place.replica_set_id)
        disk, workers = self._places.disk(place), self._workers[place.directory]
        return await in_worker(workers, lambda: renew_log_id(place, disk, self._randomness))

    async def repair(self, replica_set_id: ReplicaSetId, position: Position) -> Position:
        """Renew the id of a closed log, then truncate it below the damage at `position`.

        Returns the log's new end position (exclusive). Raises OSError.
        """
        place = self._places.place(replica_set_id)
        disk, config = self._places.disk(place), self._opener.config

        def work() -> Position:
            renew_log_id(place, disk, self._randomness)
            return cut_below_damage(disk, place.name, position, config)

        return await in_worker(self._workers[place.directory], work)

    def close(self, replica_set_id: ReplicaSetId, log: SetLog) -> None:
        """Close the log; its files stay. Raises StorageError, OSError."""
        del replica_set_id
        log.close()


def close_log(member: ReplicaSetMember) -> bool:
    """Close one member's log; an error must not keep the others from being closed."""
    try:
        member.log.close()
    except (PlatformError, OSError) as error:
        log.critical("set=%d was not closed cleanly: %s", member.replica_set_id, error)
        return False
    return True


def _is_name_without_log(place: ReplicaSetPlace, disk: Disk) -> bool:
    return REPLICA_FILE in disk.list(place.name) and not has_log(disk, place.name)
