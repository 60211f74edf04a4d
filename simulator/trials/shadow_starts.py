"""Tests a start after a power loss at the present moment, on a copy of the disk.

    at intervals, and after each cut or copy of a log ─► copy of the set's files ─► loss of power
        ─► recovery, as in production ─► no damage, all durable data, nothing unconfirmed

A run loses power about ten times, which seldom hits the milliseconds between two syncs. A copy is
cheap and can be tested at any time; the disk and the processes of the run are not affected. Disks
that fail, lie or were damaged are left out.

Source: docs/adr/0047; the order of operations that recovery.py relies on.
"""

from collections.abc import Iterator
from random import Random

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.node.layout import METADATA_DIRECTORY, ReplicaSetPlace
from penstock.raft.configuration import Configuration
from penstock.raft.ids import DirectoryId
from penstock.replica.replica_set import ReplicaSetMember
from penstock.runtime.raft.storage import FirstStart, RaftStorage
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import ProducerStates
from penstock.storage.recover.recovery import Recovery
from simulator.kernel.disk import SimDisk
from simulator.run.server import Server
from simulator.run.topology import data_path

SHARE = 0.02
"""Share of checks of a member that start a trial."""


class ShadowStarts:
    """See the module. It has its own random numbers, so that the run is not affected."""

    def __init__(self) -> None:
        self._random = Random("shadow starts")  # noqa: S311  reproducible on purpose

    def is_due(self) -> bool:
        """Whether this check starts a trial."""
        return self._random.random() < SHARE

    def of_member(self, server: Server, member: ReplicaSetMember, confirmed: int) -> Iterator[str]:
        """Try a start of one log; `confirmed` is what masters have called confirmed so far."""
        if not _is_askable(server) or member.log.is_fenced:
            return
        log, set_id = member.log, member.replica_set_id
        directory = ReplicaSetPlace(set_id, data_path(server.host)).name
        # Before the copy: what becomes durable by it may not be told yet.
        durable, is_calm = log.durable_position, not log.is_busy
        disk = self._without_power(server, f"{directory}/")
        states = ProducerStates(log.config.producer_ids_max, 0)
        found = Recovery(disk, directory, log.config, states)
        name = f"{server.name}: set {set_id}, after a loss of power now,"
        try:
            found.run(_no_progress)
        except (PlatformError, OSError) as error:
            yield f"{name} can not start: {error}"
            return
        if is_calm and server.is_durable_at_once and found.position < durable:
            yield f"{name} ends at {found.position}, and {durable} was durable"
        if is_calm and found.confirmed_position > confirmed and not log.is_sole_member:
            yield f"{name} calls {found.confirmed_position} confirmed, and masters {confirmed}"
        if is_calm and found.position == log.end_position:
            yield from (f"{name} {text}" for text in _differences(found, member))

    def of_controller(self, server: Server) -> Iterator[str]:
        """Try a start of the metadata log."""
        node = server.node
        if not _is_askable(server) or node is None or not server.host.is_controller:
            return
        names = server.disk.files.durable
        if f"{METADATA_DIRECTORY}/raft.log" not in names:
            return
        disk = self._without_power(server, f"{METADATA_DIRECTORY}/")
        first = FirstStart(members=Configuration(), new_directory_id=lambda: DirectoryId("shadow"))
        try:
            RaftStorage(
                disk, METADATA_DIRECTORY, own_id=PeerId(server.host.process_id), first=first
            )
        except (PlatformError, OSError) as error:
            yield f"{server.name}: controller, after a loss of power now, can not start: {error}"

    def _without_power(self, server: Server, begins: str) -> SimDisk:
        disk = server.disk.duplicate(begins, self._random)
        disk.power_loss()
        return disk


def _is_askable(server: Server) -> bool:
    disk = server.disk
    is_sound = not (server.is_disk_damaged or server.has_disk_faults or disk.faults)
    return is_sound and not (disk.is_cut or disk.is_lying)


def _differences(found: Recovery, member: ReplicaSetMember) -> Iterator[str]:
    """Yield in what a log that was read is not the one in memory, where both end alike."""
    log = member.log
    start = max(log.start_position, found.segments[0].base)
    epochs, known = (
        [(epoch, at) for epoch, at in some if at >= start] for some in (found.epochs, log.epochs)
    )
    if epochs != known:
        yield f"has the masterships {epochs}, and {known} in memory, from {start} on"
    for key, partition in log.partitions.items():
        copy = found.partitions.get(key)
        if copy is None:
            if partition.last_end_position > log.start_position:
                yield f"lacks {key}"
        elif _facts(copy) != _facts(partition):
            yield f"has {key} as {_facts(copy)}, and {_facts(partition)} in memory"


def _facts(partition_log: PartitionLog) -> tuple[int, int, int]:
    return (
        partition_log.log_end_offset,
        partition_log.last_end_position,
        partition_log.max_timestamp,
    )


def _no_progress(_done: int, _all: int) -> None:
    pass
