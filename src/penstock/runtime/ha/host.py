"""Interfaces between the driver of one set and the manager of all sets (replica_manager.py)."""

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from penstock.base.ids import BrokerId, Position, ReplicaSetId, SessionId
from penstock.base.ports import Clock, Scheduler
from penstock.controller.commands.command import Command
from penstock.controller.metadata.image import ClusterImage
from penstock.net.peer import PeerSecurity
from penstock.replica.follow_parts import FollowStats
from penstock.replica.mending import DamageStats
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.scrubber import Scrubber
from penstock.replication.config import ReplicationConfig
from penstock.replication.sync_state import Process
from penstock.runtime.ha.client import HaClient
from penstock.runtime.ha.server import HaServer
from penstock.storage.commit_log.set_log import SetLog

Hook = Callable[[ReplicaSetMember], None]


class OpenedLog(NamedTuple):
    """A recovered commit log with the log id that it was created with (set-<id>/replica.json)."""

    log: SetLog
    log_id: str
    rebuilt_files: int = 0
    """Files beside the log that were damaged and rebuilt."""


class LogSource(Protocol):
    """Opens, repairs and closes logs; implemented by the node, which knows the directories."""

    async def open(self, replica_set_id: ReplicaSetId) -> OpenedLog:
        """Recover the set's log, or choose a directory and create a log. Raises PlatformError.

        If the set has other members, `is_sole_member` must be False before the log's own `open`.
        Otherwise the snapshot at its end takes an unconfirmed tail for confirmed, and the slave
        later refuses to truncate it.
        """

    async def repair(self, replica_set_id: ReplicaSetId, position: Position) -> Position:
        """Give a closed log another log id, durably, then truncate it below the damage at
        `position`; with NOTHING_KEPT, replace it by an empty log. Returns the log's end, exclusive.

        Raises PlatformError, OSError.
        """

    def close(self, replica_set_id: ReplicaSetId, log: SetLog) -> None:
        """This broker is no longer a member of the set."""


class Submitter(Protocol):
    """Sends commands to the active controller."""

    async def submit(self, command: Command[Any]) -> Any:
        """Return the command's response. Raises MetadataError kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerPorts:
    """What the manager needs of the node."""

    clock: Clock
    scheduler: Scheduler
    logs: LogSource
    controller: Submitter
    security: PeerSecurity
    spawn: Callable[[str, Coroutine[Any, Any, None]], None]
    """Runs a coroutine under supervision (Supervisor.run_once)."""
    new_session_id: Callable[[], SessionId]


class Host(Protocol):
    """The manager as seen by a driver."""

    broker_id: BrokerId
    incarnation: str
    image: ClusterImage
    config: ReplicationConfig
    ports: ManagerPorts
    server: HaServer
    client: HaClient
    scrubber: Scrubber
    follow_stats: FollowStats
    damage_stats: DamageStats
    lease_losses_before: int
    """Counters of ended masterships."""
    on_became_master: list[Hook]
    on_lost_mastership: list[Hook]

    @property
    def is_registered(self) -> bool:
        """Whether the controllers have registered this process."""

    def drained(self) -> Collection[BrokerId]:
        """Return the brokers that must not join a sync-state set because they are draining."""

    def dead(self) -> Collection[BrokerId]:
        """Return the brokers that the controllers have found dead."""

    def process_of(self, broker_id: BrokerId) -> Process | None:
        """Return the process that the controllers have registered as that broker."""

    def opened(self, member: ReplicaSetMember) -> None:
        """A driver has opened its log."""

    def closed(self, member: ReplicaSetMember) -> None:
        """A driver has given up its member."""

    def fenced(self, member: ReplicaSetMember, error: Exception) -> None:
        """The log of a driver has failed."""

    def tell(self, hooks: list[Hook], member: ReplicaSetMember) -> None:
        """Call all hooks of an event."""
