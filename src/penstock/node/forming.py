"""Waits, at the start of a node, until it is registered and its sets have roles.

    logs open ─► registered ─► every set has a role here ─► clients may come
    (as long as it takes)      (start_timeout_ms at most)

A damaged log that another member can repair is not waited for.

Clients that connect earlier would only get retriable errors. If no controller answers, the node
continues with the roles that its own copy of the metadata gives it.
"""

import asyncio
import logging

from penstock.controller.metadata.image import NO_EPOCH, NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.node.logs import SetNotHere
from penstock.replica.replica_set import Role
from penstock.runtime.replica_manager import ReplicaManager

POLL_SECONDS = 0.005

log = logging.getLogger(__name__)


class Forming:
    """Waits for logs, registration and roles."""

    def __init__(
        self, manager: ReplicaManager, image: ClusterImage, *, replication_factor: int
    ) -> None:
        self._manager = manager
        self._image = image
        self._replication_factor = replication_factor

    async def wait(self, timeout_ms: int) -> None:
        """Return when nothing is missing, or after the time-out once every known log is open.

        Raises ConfigError, StorageError, OSError when a log can not be opened.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while not (self._are_logs_open() and self._is_formed()):
            if loop.time() > deadline and self._are_logs_open():
                log.warning("start goes on without waiting any longer: %s", self._missing())
                return
            await asyncio.sleep(POLL_SECONDS)

    def _are_logs_open(self) -> bool:
        for driver in self._manager.drivers.values():
            if isinstance(driver.open_error, SetNotHere) or driver.mending.is_pending:
                continue
            if driver.open_error is not None:
                raise driver.open_error
            if driver.member is None:
                return False
        return True

    def _is_formed(self) -> bool:
        return not self._missing()

    def _missing(self) -> str:
        manager, image = self._manager, self._image
        broker = image.brokers.get(manager.broker_id)
        if not manager.is_registered or broker is None or broker.is_fenced:
            return "not registered"
        present = sum(not one.is_fenced for one in image.brokers.values())
        own = [
            replica_set
            for replica_set in image.replica_sets.values()
            if manager.broker_id in replica_set.replicas
        ]
        if not own and present >= self._replication_factor:
            return "no replica sets yet"
        return next((missing for one in own if (missing := self._missing_of(one))), "")

    def _missing_of(self, replica_set: ReplicaSetImage) -> str:
        member = self._manager.members.get(replica_set.replica_set_id)
        if member is None or member.log.is_fenced:
            return ""
        if replica_set.master == NO_MASTER:
            # Members in step can be elected, this broker too: an election is near.
            is_near = (
                replica_set.leader_epoch == NO_EPOCH
                or self._manager.broker_id in replica_set.sync_state_set
            )
            return f"set {replica_set.replica_set_id} has no master yet" if is_near else ""
        if member.leader_epoch < replica_set.leader_epoch or member.role is Role.IDLE:
            return f"set {replica_set.replica_set_id} has no role here yet"
        return ""
