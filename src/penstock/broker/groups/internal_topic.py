"""The internal topic that group positions are kept in: made by whoever needs it first.

It gets the partition count of the group settings and the cluster's default replication factor, so
that positions are as safe as the data that they stand for. Later settings change nothing about it.

Source: Kafka `AutoTopicCreationManager` (`__consumer_offsets`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.commands.command import NewTopic
from penstock.groups.partitioning import INTERNAL_TOPIC

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.topics_on_demand import TopicsOnDemand


class InternalTopic:
    """Has the topic made where it is missing."""

    __slots__ = ("_broker", "_on_demand")

    def __init__(self, broker: Broker, on_demand: TopicsOnDemand) -> None:
        self._broker = broker
        self._on_demand = on_demand

    @property
    def exists(self) -> bool:
        """Whether this broker's image has the topic."""
        return INTERNAL_TOPIC in self._broker.metadata.topics_by_name

    async def ensure(self) -> bool:
        """Make the topic unless it is there; returns whether it is. Clients ask again if not."""
        if self.exists:
            return True
        count = self._broker.groups.config.partition_count
        topic = NewTopic(name=INTERNAL_TOPIC, partition_count=count)
        await self._on_demand.create((topic,), is_internal=True)
        return self.exists
