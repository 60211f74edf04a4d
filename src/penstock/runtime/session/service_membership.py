"""Changing the voters of the metadata log, as operators ask for it."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.controller.errors import MetadataError, MetadataTimeout, RefusedCommand
from penstock.raft.ids import DirectoryId
from penstock.runtime.session.messages import ChangeControllers
from penstock.runtime.session.operator_ports import ChangeMembership

CHANGE_TIMEOUT_MS = 30_000

ChangeDone = Callable[[PlatformError | None], None]


class VoterLog(Protocol):
    """The part of Voters needed here; `done` is called exactly once."""

    def add_voter(
        self,
        peer_id: PeerId,
        address: str,
        done: ChangeDone,
        directory_id: DirectoryId | None = None,
    ) -> None:
        """Make `peer_id`, reached at "host:port", a controller."""

    def remove_voter(
        self, peer_id: PeerId, done: ChangeDone, directory_id: DirectoryId | None = None
    ) -> None:
        """Make the controller an observer."""

    def transfer(self, to: PeerId, done: ChangeDone) -> None:
        """Transfer leadership to another controller."""


def membership_by(voters: VoterLog) -> ChangeMembership:
    """Return the function by which a ControllerService changes the controllers."""

    async def change(request: ChangeControllers) -> str:
        outcome: asyncio.Future[PlatformError | None] = asyncio.get_running_loop().create_future()

        def done(error: PlatformError | None) -> None:
            if not outcome.done():
                outcome.set_result(error)

        text = _begin(voters, request, done)
        try:
            async with asyncio.timeout(CHANGE_TIMEOUT_MS / 1000):
                error = await outcome
        except TimeoutError:
            raise MetadataTimeout(CHANGE_TIMEOUT_MS) from None
        if isinstance(error, MetadataError):
            raise error
        if error is not None:
            raise RefusedCommand(str(error)) from error
        return text

    return change


def _begin(voters: VoterLog, request: ChangeControllers, done: ChangeDone) -> str:
    """Start the change; return the sentence that holds afterwards. Raises RefusedCommand."""
    peer_id, address = request.peer_id, request.address
    directory_id = request.directory_id or None
    match request.action:
        case "add":
            host, _, port = address.rpartition(":")
            if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
                raise RefusedCommand(f"{address[:100]!r} is not an address: write host:port.")
            voters.add_voter(peer_id, address, done, directory_id)
            return f"{peer_id} at {address} is a controller."
        case "remove":
            voters.remove_voter(peer_id, done, directory_id)
            return f"{peer_id} is no longer a controller."
        case "transfer":
            voters.transfer(peer_id, done)
            return f"{peer_id} is the active controller."
        case _:
            raise RefusedCommand(f"Controllers are added, removed or transferred to, not "
                                 f"{request.action[:50]!r}.")  # fmt: skip
