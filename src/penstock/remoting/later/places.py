"""Partitions of the front's own topics in the replica sets of the messages that they are for.

    topic, set ─► partition ─► here? ─► used at once
                     └─ none yet ─► one PlaceInternal, however many requests want it ─► used

What waits for its time, what is sent back and dead letters are in the set of their message: so they
have its master and its log, and nothing of it waits for another broker.

Source: ours, docs/adr/0127; broker/coordinators/share_places.py, which does the same for shares.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import PlatformError
from penstock.broker.submitting import submit
from penstock.controller.commands.command import PlaceInternal
from penstock.controller.errors import MetadataError, MetadataQueueFull, MetadataUnavailable
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition

UNDER_WAY_MAX: Final = 1_000
"""Partitions that are being made at one time."""
Use = Callable[["HostedPartition | PlatformError"], None]
"""Called once, with the partition or with why there is none."""
_Key = tuple[str, "ReplicaSetId"]


class Places:
    """See the module; one for each front."""

    def __init__(
        self, broker: Broker, spawn: Callable[[str, Coroutine[Any, Any, None]], None]
    ) -> None:
        self._broker = broker
        self._spawn = spawn
        self._under_way: dict[_Key, list[Use]] = {}

    def find(self, topic_name: str, set_id: ReplicaSetId) -> HostedPartition | None:
        """Return the first partition of a topic in a set; None if it is not here."""
        topic = self._broker.partitions.by_name.get(topic_name.encode())
        if topic is None or set_id not in topic.placed:
            return None
        return topic.find(topic.placed.index(set_id))

    def use(self, topic_name: str, set_id: ReplicaSetId, use: Use) -> None:
        """Call `use` with the partition of a topic in a set, which is made if need be."""
        hosted = self.find(topic_name, set_id)
        key = (topic_name, set_id)
        waiting = self._under_way.get(key)
        if hosted is not None:
            use(hosted)
        elif waiting is not None:
            waiting.append(use)
        elif len(self._under_way) >= UNDER_WAY_MAX:
            use(MetadataQueueFull(UNDER_WAY_MAX))
        else:
            self._under_way[key] = [use]
            self._spawn("place of a topic", self._make(key))

    async def _make(self, key: _Key) -> None:
        answer: int | MetadataError = MetadataUnavailable("the node stops")
        try:
            answer = await submit(self._broker, PlaceInternal(topic=key[0], replica_set_id=key[1]))
        finally:
            uses = self._under_way.pop(key)
            found = answer if isinstance(answer, MetadataError) else self._found(key)
            for use in uses:
                use(found)

    def _found(self, key: _Key) -> HostedPartition | PlatformError:
        hosted = self.find(*key)
        return NotMaster("another broker has this set by now") if hosted is None else hosted
