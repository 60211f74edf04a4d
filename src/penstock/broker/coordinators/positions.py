"""Positions of the groups that this broker coordinates, for clients who are not their members.

A position is committed from outside of the group, as by a Kafka consumer without membership, so it
is refused while the group has members of Kafka.

Source: ours, docs/adr/0122.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from penstock.base.ids import BrokerId
from penstock.broker.coordinators.lease import knows_group
from penstock.coordinator.calls.positions import (
    NO_POSITION,
    NOT_HERE,
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
    GroupPositionsResponse,
    KnownPosition,
    PositionResponse,
)
from penstock.coordinator.partitioning import partition_of
from penstock.groups.messages import CommitOffsets
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.groups.records import CommittedOffset, TopicKey

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

Done = Callable[[PositionResponse], None]
_FAILED: Final = -1
"""Kafka's UNKNOWN_SERVER_ERROR."""
PAGE: Final = 400
"""Positions of one answer; with names of 249 bytes they take 120 KiB."""
_NO_ID: Final = bytes(16)


class GroupPositions:
    """See the module; one for each broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def commit(self, asked: CommitPositionRequest, done: Done) -> None:
        """Keep a position; `done` is called once, when it is durable or refused."""
        if not knows_group(self._broker, asked.group):
            done(PositionResponse(code=NOT_HERE))
            return
        key = TopicKey(asked.topic, asked.partition)
        position = CommittedOffset(
            offset=asked.offset,
            commit_timestamp_ms=self._broker.clock.wall_ms(),
            topic_id=asked.topic_id,
        )

        def answered(errors: Mapping[TopicKey, int]) -> None:
            done(PositionResponse(code=int(errors.get(key, _FAILED))))

        commit = CommitOffsets(group_id=asked.group, offsets={key: position})
        self._broker.groups.commit(commit, answered)

    def find(self, asked: FetchPositionRequest) -> PositionResponse:
        """Return a position, `NO_POSITION` if the group has none."""
        if not knows_group(self._broker, asked.group):
            return PositionResponse(code=NOT_HERE)
        key = TopicKey(asked.topic, asked.partition)
        reply = self._broker.groups.reading.fetch_offsets(asked.group, [key])
        if reply.error:
            return PositionResponse(code=int(reply.error))
        fetched = reply.offsets[key]
        if fetched.error:
            return PositionResponse(code=int(fetched.error))
        position = fetched.committed
        if position is None or position.topic_id not in {None, asked.topic_id}:
            return PositionResponse(code=0, offset=NO_POSITION)
        return PositionResponse(code=0, offset=position.offset)

    def page(self, asked: GroupPositionsRequest) -> GroupPositionsResponse:
        """Return the next positions of a group; none if it is unknown."""
        if not knows_group(self._broker, asked.group):
            return GroupPositionsResponse(code=NOT_HERE)
        reading = self._broker.groups.reading
        after = (asked.after_topic, asked.after_partition)
        behind = (one for one in reading.committed_keys(asked.group) if tuple(one) > after)
        keys = nsmallest(PAGE + 1, behind)
        reply = reading.fetch_offsets(asked.group, keys[:PAGE])
        if reply.error:
            return GroupPositionsResponse(code=int(reply.error))
        told = [
            KnownPosition(key.topic, found.topic_id or _NO_ID, key.partition, found.offset)
            for key, fetched in reply.offsets.items()
            if (found := fetched.committed) is not None
        ]
        is_last = len(keys) <= PAGE
        return GroupPositionsResponse(code=0, positions=tuple(told), is_last=is_last)

    def delete(self, group: str, done: Done) -> None:
        """Delete a group; `done` is called once, when that is durable or refused."""
        if not knows_group(self._broker, group):
            done(PositionResponse(code=NOT_HERE))
            return

        def answered(codes: Mapping[str, int]) -> None:
            done(PositionResponse(code=int(codes.get(group, _FAILED))))

        self._broker.groups.delete_groups([group], answered)

    async def answer_all(self, asked: GroupPositionsRequest) -> GroupPositionsResponse:
        """Answer another broker."""
        return self.page(asked)

    async def answer_deletion(self, asked: DeleteGroupRequest) -> PositionResponse:
        """Answer another broker, when the group is deleted or that is refused."""
        told: asyncio.Future[PositionResponse] = asyncio.get_running_loop().create_future()

        def done(answer: PositionResponse) -> None:
            if not told.done():  # the call has waited for its time
                told.set_result(answer)

        self.delete(asked.group, done)
        return await told

    async def answer_commit(self, asked: CommitPositionRequest) -> PositionResponse:
        """Answer another broker, when the position is durable or refused."""
        told: asyncio.Future[PositionResponse] = asyncio.get_running_loop().create_future()

        def done(answer: PositionResponse) -> None:
            if not told.done():  # the call has waited for its time
                told.set_result(answer)

        self.commit(asked, done)
        return await told

    async def answer_fetch(self, asked: FetchPositionRequest) -> PositionResponse:
        """Answer another broker."""
        return self.find(asked)


def coordinator_of(broker: Broker, group: str) -> BrokerId | None:
    """Return the broker that coordinates a group; None while there is none."""
    topic = broker.metadata.topics_by_name.get(INTERNAL_TOPIC)
    if topic is None:
        return None
    placed = topic.partitions[partition_of(group, len(topic.partitions))]
    found = broker.metadata.replica_sets.get(placed.replica_set_id)
    return None if found is None or found.master < 0 else found.master
