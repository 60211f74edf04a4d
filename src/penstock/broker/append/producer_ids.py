"""The producer ids that this broker may assign: one block at a time, from the controller.

A block is allocated when the broker registers, so that a thousand producers can start even without
controllers. The rest of a block is never used after a stop: the next start allocates a new one.
"""

import asyncio
from typing import TYPE_CHECKING

from penstock.base.ids import BrokerId
from penstock.controller.commands.command import AllocateProducerIds, ProducerIdBlock

if TYPE_CHECKING:
    from penstock.controller.port import ControllerPort


class ProducerIdPool:
    """Ids of the current block; `take` waits for the controller when the block is used up."""

    __slots__ = ("_end", "_next", "_turn")

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._turn = asyncio.Lock()

    async def take(self, controller: "ControllerPort", broker_id: BrokerId) -> int:
        """Return a unique producer id. Raises MetadataError."""
        async with self._turn:
            await self._refill(controller, broker_id)
            producer_id = self._next
            self._next += 1
            return producer_id

    async def prepare(self, controller: "ControllerPort", broker_id: BrokerId) -> None:
        """Allocate a block in advance: producers then need no controller. Raises MetadataError."""
        async with self._turn:
            await self._refill(controller, broker_id)

    async def _refill(self, controller: "ControllerPort", broker_id: BrokerId) -> None:
        if self._next == self._end:
            block: ProducerIdBlock = await controller.submit(
                AllocateProducerIds(broker_id=broker_id)
            )
            self._next, self._end = block.first_producer_id, block.next_producer_id
