"""The tier's metadata as whoever copies asks for it: on this node, or nowhere.

Source: docs/adr/0121; docs/requirements.md T-2.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.coordinator.unwritten import Unwritten
from penstock.tier.metadata.commands import Answer, Command
from penstock.tier.metadata.objects import Due
from penstock.tier.service.coordinator import TierCoordinator

A = TypeVar("A")


class AskedMetadata(Protocol):
    """Answers commands; with an Unwritten nobody knows whether one was done."""

    async def ask(self, command: Command) -> Answer | Unwritten:
        """Return the answer to a command once no failover can undo it."""

    async def due(self) -> list[Due] | Unwritten:
        """Return what the store is to delete now."""


class OwnMetadata:
    """AskedMetadata over the coordinator of this node."""

    def __init__(
        self, coordinator: TierCoordinator, partition_of: Callable[[], int | None]
    ) -> None:
        """`partition_of` tells the internal partition of the set; None: there is none yet."""
        self._coordinator = coordinator
        self._partition_of = partition_of

    async def ask(self, command: Command) -> Answer | Unwritten:
        """As in AskedMetadata."""
        return await self._answer(
            lambda partition, reply: self._coordinator.ask(partition, command, reply)
        )

    async def due(self) -> list[Due] | Unwritten:
        """As in AskedMetadata."""
        return await self._answer(self._coordinator.due)

    async def _answer(
        self, begin: Callable[[int, Callable[[A | Unwritten], None]], None]
    ) -> A | Unwritten:
        partition = self._partition_of()
        if partition is None:
            return Unwritten.NOT_HERE
        future: asyncio.Future[A | Unwritten] = asyncio.get_running_loop().create_future()

        def replied(answer: A | Unwritten) -> None:
            if not future.done():  # who has asked may have been cancelled
                future.set_result(answer)

        begin(partition, replied)
        return await future
