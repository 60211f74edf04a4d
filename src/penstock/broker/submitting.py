"""Asking the controller for a change of the metadata, on behalf of a request."""

from typing import TYPE_CHECKING, TypeVar

from penstock.controller.commands.command import Command
from penstock.controller.errors import MetadataError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

R = TypeVar("R")


async def submit(broker: "Broker", command: Command[R]) -> R | MetadataError:
    """Return the controller's answer, or the error that stands for every part of the request."""
    try:
        async with broker.long_places.away():
            answer: R = await broker.controller.submit(command)
    except MetadataError as error:
        return error
    return answer
