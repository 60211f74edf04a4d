"""The internal topic that group positions are kept in: made by whoever needs it first.

It gets the partition count of the group settings and the cluster's default replication factor, so
that positions are as safe as the data that they stand for. Later settings change nothing about it.

Source: Kafka `AutoTopicCreationManager` (`__consumer_offsets`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.broker.submitting import submit
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.errors import MetadataError, TopicExists
from penstock.groups.partitioning import INTERNAL_TOPIC

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger(__name__)


class InternalTopic:
    """Makes the topic once, however many ask for it at the same time."""

    __slots__ = ("_broker", "_turn")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turn = asyncio.Lock()

    @property
    def exists(self) -> bool:
        """Whether this broker's image has the topic."""
        return INTERNAL_TOPIC in self._broker.metadata.topics_by_name

    async def ensure(self) -> bool:
        """Make the topic unless it is there; returns whether it is. Clients ask again if not."""
        if self.exists:
            return True
        async with self._turn:
            if not self.exists:
                await self._create()
        return self.exists

    async def _create(self) -> None:
        count = self._broker.groups.config.partition_count
        topic = NewTopic(name=INTERNAL_TOPIC, partition_count=count)
        outcomes = await submit(self._broker, CreateTopics(topics=(topic,), internal=True))
        error = outcomes if isinstance(outcomes, MetadataError) else outcomes[0].error
        if error is not None and not isinstance(error, TopicExists):
            log.warning("internal topic not created yet: %s", error)
