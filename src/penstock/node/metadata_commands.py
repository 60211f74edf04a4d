"""The broker's way to the active controller, which says at once when there will never be one.

Commands wait for a controller to be elected. A node that is its own only controller has nobody to
wait for once its metadata log's disk has failed: clients hear that instead of a time-out.
"""

from collections.abc import Callable
from typing import TypeVar

from penstock.controller.commands.command import Command
from penstock.controller.errors import MetadataLogFenced
from penstock.node.control_plane import ControlPlane
from penstock.runtime.session.client import SessionClient
from penstock.runtime.session.messages import Operation

R = TypeVar("R")


class MetadataCommands:
    """A ControllerPort, and the operations of one."""

    def __init__(self, plane: ControlPlane, sessions: SessionClient) -> None:
        self._plane = plane
        self._sessions = sessions

    async def submit(self, command: Command[R]) -> R:
        """Return the answer. Raises as SessionClient.submit does."""
        self._check()
        return await self._sessions.submit(command)

    async def operate(self, make: Callable[[int], Operation]) -> str:
        """Return what was done, in words. Raises as SessionClient.operate does."""
        self._check()
        return await self._sessions.operate(make)

    def _check(self) -> None:
        if self._plane.log.is_fenced and self._plane.is_only_voter:
            raise MetadataLogFenced(
                "The metadata log's disk has failed: look at the disk and restart the node."
            )
