"""Producer ids for the coordinator of transactions, from this broker's block."""

import logging
from collections.abc import Awaitable, Callable

from penstock.base.ids import ProducerId
from penstock.controller.errors import MetadataError
from penstock.kafka.transactions.marking import Spawn
from penstock.transactions.messages import ToldId

log = logging.getLogger(__name__)


class FreshIds:
    """The Ids port; the coordinator is told in a later turn of the event loop."""

    __slots__ = ("_spawn", "_take")

    def __init__(self, take: Callable[[], Awaitable[int]], spawn: Spawn) -> None:
        self._take = take
        self._spawn = spawn

    def next_id(self, told: ToldId) -> None:
        """As in Ids."""
        self._spawn("producer-id", self._tell(told))

    async def _tell(self, told: ToldId) -> None:
        try:
            producer_id = await self._take()
        except MetadataError as error:
            log.info("no producer id: %s", error)
            told(None)
        else:
            told(ProducerId(producer_id))
