"""How everybody else reaches the controller: `submit` a command, await its answer.

Source: the seam between Kafka's brokers and its Controller interface. Implemented by
runtime/controller_driver.py; reading metadata does not go through here.
"""

from typing import Protocol, TypeVar

from penstock.controller.commands.command import Command

R = TypeVar("R")


class ControllerPort(Protocol):
    """Whoever has one can change metadata; reading needs only the ClusterImage."""

    async def submit(self, command: Command[R]) -> R:
        """Return the answer once the change is committed and replayed here.

        Raises:
            RefusedCommand: the command as a whole can not be.
            MetadataUnavailable: not taken, or its fate is unknown.
        """
