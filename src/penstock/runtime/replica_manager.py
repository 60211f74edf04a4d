"""The replica manager: moves this broker's members between roles as the cluster image says.

    image delta ──► newest wish of each set ──► one transition at a time for each set
                                                  │ open the log, register the replica
                                                  │ become_master / become_slave / resign
                                                  ▼
                                       HaServer (sets led)   HaClient (one link for each master)

A wish is (leader epoch, master, sync-state set); while one is being carried out newer ones replace
each other, and only the newest is taken up next: nothing is lost and nothing runs twice at a time.

Use: make it, add hooks, `start()` once the image has been replayed, pass links of purpose `ha` to
`on_link`, tell `note_controller()` at each heartbeat answer, `await stop()`.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Clock, Scheduler
from penstock.broker.replica_set import ReplicaSetMember
from penstock.controller.commands import Command
from penstock.controller.image import ClusterImage
from penstock.controller.session import PrepareTransfer, ProbeSets, SetReport, TransferReady
from penstock.net.peer import PeerLink, PeerSecurity
from penstock.replication.config import ReplicationConfig
from penstock.storage.set_log import SetLog

Hook = Callable[[ReplicaSetMember], None]


class OpenedLog(NamedTuple):
    """A recovered commit log with the random name that it was made with (set-<id>/replica.json)."""

    log: SetLog
    log_id: str


class LogSource(Protocol):
    """Where logs come from: the node knows the directories."""

    async def open(self, replica_set_id: ReplicaSetId) -> OpenedLog:
        """Recover the set's log, or choose a place and make a new one. Raises PlatformError."""

    def close(self, replica_set_id: ReplicaSetId, log: SetLog) -> None:
        """The set is not this broker's any more, or the process stops."""


class Submitter(Protocol):
    """The way to the active controller."""

    async def submit(self, command: Command[Any]) -> Any:
        """Return the command's answer. Raises MetadataError kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerPorts:
    """What the manager is given by the node."""

    clock: Clock
    scheduler: Scheduler
    logs: LogSource
    controller: Submitter
    security: PeerSecurity
    spawn: Callable[[str, Coroutine[Any, Any, None]], None]
    """Runs a coroutine under supervision (Supervisor.run_once)."""
    new_session_id: Callable[[], int]


class ReplicaManager:
    """All replica set members of this broker, in `members` by set id."""

    def __init__(
        self,
        *,
        broker_id: int,
        cluster_id: str,
        image: ClusterImage,
        members: dict[int, ReplicaSetMember],
        config: ReplicationConfig,
        ports: ManagerPorts,
    ) -> None:
        """`members` is filled in here (broker.members); hooks run on the loop, after the change.

        on_member_opened    a member is in `members` now: open its partitions (idle, takes nothing)
        on_member_closed    it is out of `members`, and its log will be closed
        on_became_master    it takes writes: load the groups of its internal partitions
        on_lost_mastership  it takes none any more: unload them
        """
        self.members = members
        self.on_member_opened: list[Hook] = []
        self.on_member_closed: list[Hook] = []
        self.on_became_master: list[Hook] = []
        self.on_lost_mastership: list[Hook] = []

    def start(self) -> None:
        """Take up what the image says now, and follow it from here on."""

    async def stop(self) -> None:
        """Close the links, end the transitions, resign everything. Logs stay open for the node."""

    def on_link(self, link: PeerLink) -> None:
        """Serve a slave's process: the callback for purpose b"ha" of the PeerListener."""

    def note_controller(self) -> None:
        """Take note that a controller has answered just now: that keeps the leases."""

    def reports(self) -> tuple[SetReport, ...]:
        """Return the state of every open member, for heartbeats and status."""

    def probe(self, request: ProbeSets) -> tuple[SetReport, ...]:
        """Return the durable state of the sets asked for, and promise what ProbeSets says."""

    async def prepare_transfer(self, request: PrepareTransfer) -> TransferReady:
        """Stop taking writes, wait until the target holds all; bounded by the request."""
