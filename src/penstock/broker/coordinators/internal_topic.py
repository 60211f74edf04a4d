"""The internal topic of a kind of coordinator, created when it is first needed.

It gets the partition count of that kind's settings and the cluster's default replication factor, so
that positions are as safe as the data they refer to. Later changes of the settings do not affect
it.

Source: Kafka `AutoTopicCreationManager` (`__consumer_offsets`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.controller.commands.command import NewTopic

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.topics_on_demand import TopicsOnDemand


class InternalTopic:
    """Creates the topic if it is missing."""

    __slots__ = ("_broker", "_name", "_on_demand", "_partition_count")

    def __init__(
        self,
        broker: Broker,
        on_demand: TopicsOnDemand,
        name: str,
        partition_count: Callable[[], int],
    ) -> None:
        """`partition_count` is called when the topic is created."""
        self._broker = broker
        self._partition_count = partition_count
        self._on_demand = on_demand
        self._name = name

    @property
    def exists(self) -> bool:
        """Whether this broker's image has the topic."""
        return self._name in self._broker.metadata.topics_by_name

    async def ensure(self) -> bool:
        """Create the topic if needed; return whether it exists. Clients retry if it does not."""
        if self.exists:
            return True
        topic = NewTopic(name=self._name, partition_count=self._partition_count())
        await self._on_demand.create((topic,), is_internal=True)
        return self.exists
