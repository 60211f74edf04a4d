"""Where shares are: in the internal partition of the replica set that has the data.

    group, topic id, partition ─► set of the data ─► partition of `__share_state` in that set

A data partition stays in its set, and so does its shares' partition; when the set has another
master, that one has both. What is missing is asked of the controller once, however many requests
need it at the same time.

Source: ours (ADR 0096); Kafka places a share's state by a hash (`SharePartitionKey`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from penstock.base.ids import ReplicaSetId, TopicId
from penstock.broker.coordinators.share_policies import SharePolicies
from penstock.broker.submitting import submit
from penstock.broker.topics_on_demand import WAIT_MS
from penstock.controller.commands.command import PlaceInternal
from penstock.controller.commands.topic_names import SHARE_STATE_TOPIC
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.kinds import ResourceType
from penstock.shares.config import ShareConfig, SharePolicy
from penstock.shares.messages import Unavailable

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.shares.state import ShareKey

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
"""Runs a named coroutine under supervision."""
_NO_KEYS: Mapping[str, str] = {}

log = logging.getLogger(__name__)


class SharePlaces:
    """The Groups port of the coordinator of shares, from the image that this node follows."""

    __slots__ = ("_broker", "_by_set", "_policies", "_set_ids", "_spawn", "_under_way")

    def __init__(self, broker: Broker, config: ShareConfig, spawn: Spawn) -> None:
        self._broker = broker
        self._spawn = spawn
        self._policies = SharePolicies(config, self.group_keys)
        self._set_ids: tuple[ReplicaSetId, ...] = ()
        self._by_set: dict[ReplicaSetId, int] = {}
        self._under_way: dict[ReplicaSetId, asyncio.Event] = {}

    def policy_of(self, key: ShareKey) -> SharePolicy:
        """As in Groups."""
        return self._policies.of(key)

    def group_keys(self, group: str) -> Mapping[str, str]:
        """Return what is set for a group."""
        resources = self._broker.metadata.configuration.resources
        return resources.get((ResourceType.GROUP, group), _NO_KEYS)

    def set_of(self, topic_id: bytes, partition: int) -> ReplicaSetId | None:
        """Return the replica set of a data partition; None if there is no such partition."""
        topic = self._broker.metadata.topics_by_id.get(TopicId(topic_id))
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions.set_ids[partition]

    def internal_partition_of(self, key: ShareKey) -> int | None:
        """As in Groups."""
        set_id = self.set_of(key.topic_id, key.partition)
        return None if set_id is None else self._partitions().get(set_id)

    def is_gone(self, key: ShareKey) -> bool:
        """Whether the data of a share that is coordinated here was deleted."""
        topic_id = TopicId(key.topic_id)
        if topic_id in self._broker.metadata.topics_by_id:
            return False
        return self._broker.leftovers.is_deleted(topic_id)

    async def ensure(self, key: ShareKey, deadline: float) -> Unavailable | None:
        """Have the internal partition of a share made if need be; return why it is not there.

        NOT_HERE if there is no such data or the controller refuses, LOADING if it has not answered
        by a time of the loop's clock, or within WAIT_MS: then it may still come.
        """
        set_id = self.set_of(key.topic_id, key.partition)
        if set_id is None:
            return Unavailable.NOT_HERE
        made: asyncio.Event | None = None
        if set_id not in self._partitions():
            made = self._under_way.get(set_id)
            if made is None:
                made = self._under_way[set_id] = asyncio.Event()
                self._spawn("share state", self._make(set_id, made))
            await self._wait(made, deadline)
        if set_id in self._partitions():
            return None
        is_answered = made is None or made.is_set()
        return Unavailable.NOT_HERE if is_answered else Unavailable.LOADING

    async def _make(self, set_id: ReplicaSetId, made: asyncio.Event) -> None:
        command = PlaceInternal(topic=SHARE_STATE_TOPIC, replica_set_id=set_id)
        try:
            answer = await submit(self._broker, command)
            if isinstance(answer, MetadataError):
                log.warning("%s in set=%d not made yet: %s", SHARE_STATE_TOPIC, set_id, answer)
        finally:
            del self._under_way[set_id]
            made.set()

    async def _wait(self, made: asyncio.Event, deadline: float) -> None:
        """A command may take long while no controller answers: clients ask again."""
        now = asyncio.get_running_loop().time()
        if deadline <= now:
            return
        async with self._broker.long_places.away():
            try:
                async with asyncio.timeout_at(min(deadline, now + WAIT_MS / 1000)):
                    await made.wait()
            except TimeoutError:
                return

    def _partitions(self) -> dict[ReplicaSetId, int]:
        """Return the partitions of the internal topic by their sets."""
        topic = self._broker.metadata.topics_by_name.get(SHARE_STATE_TOPIC)
        set_ids = () if topic is None or not topic.internal else topic.partitions.set_ids
        if set_ids is not self._set_ids:
            self._set_ids = set_ids
            self._by_set = {set_id: number for number, set_id in enumerate(set_ids)}
        return self._by_set
