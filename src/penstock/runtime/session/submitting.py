"""A command of a session, executed in parts that each hold the loop for a few milliseconds."""

import asyncio
from typing import Any, TypeVar, cast

from penstock.controller.commands.command import Command
from penstock.controller.commands.parts import parts_of
from penstock.controller.errors import LeadershipLost, MetadataError
from penstock.runtime.controller_driver import ControllerDriver

R = TypeVar("R")


async def submit_in_parts(driver: ControllerDriver, command: Command[R]) -> R:
    """Return the answer to all of the command.

    Raises what the driver raises for its first part. LeadershipLost if a later one fails, in
    whatever way: something of the command is committed, so it must not be sent elsewhere, and
    whoever sent it has to look.
    """
    parts = parts_of(command)
    first = next(parts)
    if first is not command:
        await asyncio.sleep(0)  # this turn of the loop has decoded all of it
    answer = await driver.submit(first)
    for part in parts:
        try:
            more = await driver.submit(part)
        except MetadataError as error:
            raise LeadershipLost(driver.leadership.leader_id) from error
        answer = cast("R", cast("Any", answer) + more)
    return answer
