"""Registers the log of one member with the controllers, until the image has it.

Source: controller/commands (RegisterReplica): the controllers give each log id a replica id, which
the handshakes of replication name.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from penstock.base.ids import ReplicaId
from penstock.controller.commands.command import RegisterReplica
from penstock.controller.errors import MetadataError

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId
    from penstock.controller.metadata.image import ReplicaSetImage
    from penstock.replica.replica_set import ReplicaSetMember
    from penstock.runtime.ha.host import Host

RETRY_MS = 500
"""Pause after a failed attempt to open a log, to begin a mastership or to register."""

log = logging.getLogger(__name__)


class Registering(Protocol):
    """A set's driver, as far as registration needs it (set_driver.py)."""

    replica_set_id: ReplicaSetId
    member: ReplicaSetMember | None
    log_id: str
    is_stopped: bool

    @property
    def image(self) -> ReplicaSetImage | None: ...

    def replica_id(self) -> ReplicaId | None: ...


class ReplicaRegistration:
    """The registration of one member's log."""

    def __init__(self, driver: Registering, host: Host) -> None:
        self._driver = driver
        self._host = host
        self._is_running = False

    def begin(self) -> None:
        """Register the log in the background if it is not recorded, retrying until it is."""
        driver = self._driver
        if driver.replica_id() is None and not self._is_running and driver.image is not None:
            self._is_running = True
            self._host.ports.spawn(f"register-set-{driver.replica_set_id}", self._run())

    async def _run(self) -> None:
        driver = self._driver
        try:
            while not driver.is_stopped and driver.image is not None and self._is_missing:
                try:
                    await self.register()
                except MetadataError as error:
                    log.debug("set=%d not registered: %s", driver.replica_set_id, error)
                await asyncio.sleep(RETRY_MS / 1000)
        finally:
            self._is_running = False

    @property
    def _is_missing(self) -> bool:
        return self._driver.replica_id() is None

    async def register(self) -> None:
        """Have the own log recorded by the controllers, unless it is. Raises MetadataError."""
        driver = self._driver
        if driver.member is not None and self._is_missing:
            command = RegisterReplica(
                replica_set_id=driver.replica_set_id,
                broker_id=self._host.broker_id,
                log_id=driver.log_id,
                incarnation=self._host.incarnation,
            )
            await self._host.ports.controller.submit(command)
