"""Submitting a change of the metadata to the controller on behalf of a request."""

from typing import TYPE_CHECKING, TypeVar

from penstock.controller.commands.command import Command
from penstock.controller.errors import MetadataError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

R = TypeVar("R")


async def submit(broker: "Broker", command: Command[R]) -> R | MetadataError:
    """Return the controller's response, or the error that applies to every part of the request."""
    try:
        async with broker.long_places.away():
            answer: R = await broker.controller.submit(command)
    except MetadataError as error:
        return error
    return answer
