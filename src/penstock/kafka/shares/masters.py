"""Asks the masters of data about the shares of a group, and lets them change: a ShareMasters.

    places ─► by master ─► parts of 500 ─► calls, to all masters at the same time

What a question asks for may be asked for again, so that an answer that is lost is an error that the
client tries again after.

Source: Kafka, PersisterStateManager (KIP-932).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.assignors.partitions import Partitions
from penstock.base.ids import BrokerId, CoordinatorEpoch, TopicId
from penstock.broker.broker import Broker
from penstock.broker.turns import Pace
from penstock.controller.metadata.image import NO_MASTER
from penstock.coordinator.calls.asking import Caller, CallError
from penstock.coordinator.calls.shares import (
    NO_EPOCH,
    ShareChange,
    ShareChangeKind,
    ShareChangeRequest,
    ShareLeaveRequest,
    SharePlace,
    ShareSummary,
    ShareSummaryRequest,
)
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.groups.share.masters import Done
from penstock.kafka.gate import find_hosted_topic, find_topic
from penstock.protocol.error_codes import ErrorCode, known_code

TOGETHER = 500
"""Places of one question: a short turn on either side."""
ANSWER_MS = 10_000
"""Within the time that administrators' clients wait by default."""
SUMMARY_MS = 5_000
"""For what a master has in memory: one that has not answered by then does not soon."""

Spawn = Callable[[str, Coroutine[Any, Any, None]], object]
T = TypeVar("T")
A = TypeVar("A")


class CalledShareMasters:
    """The masters as this broker's metadata has them, over the calls between brokers."""

    __slots__ = ("_broker", "_calls", "_spawn")

    def __init__(self, broker: Broker, calls: Caller, spawn: Spawn) -> None:
        self._broker = broker
        self._calls = calls
        self._spawn = spawn

    async def summaries(
        self, group_id: str, places: Iterable[SharePlace], *, with_deliveries: bool = False
    ) -> Mapping[SharePlace, ShareSummary]:
        """As in ShareMasters."""

        async def ask(master: BrokerId, some: Sequence[SharePlace]) -> Sequence[ShareSummary]:
            question = ShareSummaryRequest(
                group=group_id, places=tuple(some), with_deliveries=with_deliveries
            )
            found = (await self._calls.ask(master, question, timeout_ms=SUMMARY_MS)).found
            return [one._replace(code=known_code(one.code)) for one in found]

        return dict(await self._ask_all([(one, one) for one in places], ask, ShareSummary))

    def epoch_of(self, group_id: str) -> CoordinatorEpoch:
        """As in ShareMasters."""
        topic = find_hosted_topic(self._broker, INTERNAL_TOPIC)
        hosted = None if topic is None else topic.find(self._broker.groups.partition_of(group_id))
        return NO_EPOCH if hosted is None else CoordinatorEpoch(hosted.member.leader_epoch)

    async def change(
        self,
        group_id: str,
        kind: ShareChangeKind,
        changes: Iterable[ShareChange],
        coordinator_epoch: CoordinatorEpoch,
    ) -> Mapping[SharePlace, ErrorCode]:
        """As in ShareMasters."""

        async def ask(master: BrokerId, some: Sequence[ShareChange]) -> Sequence[ErrorCode]:
            question = ShareChangeRequest(
                group=group_id, kind=kind, changes=tuple(some), coordinator_epoch=coordinator_epoch
            )
            answer = await self._calls.ask(master, question, timeout_ms=ANSWER_MS)
            return [*map(known_code, answer.codes)]

        asked = [(SharePlace(one.topic_id, one.partition), one) for one in changes]
        return dict(await self._ask_all(asked, ask, ErrorCode))

    def delete(self, group_id: str, partitions: Partitions, done: Done) -> None:
        """As in ShareMasters."""
        epoch = self.epoch_of(group_id)
        self._spawn("share deletion", self._delete(group_id, partitions, epoch, done))

    async def _delete(
        self, group_id: str, partitions: Partitions, epoch: CoordinatorEpoch, done: Done
    ) -> None:
        changes = [
            ShareChange(topic_id, number)
            for topic_id, numbers in partitions.items()
            for number in sorted(numbers)
        ]
        error: ErrorCode | None = ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            codes = await self.change(group_id, ShareChangeKind.DELETE, changes, epoch)
            # Of a deleted topic no share is left; a master may not have heard of a new one yet.
            if not any(code and self._has(place) for place, code in codes.items()):
                error = None
        finally:
            done(error)  # whatever happens: the group is Dead until then

    def leave(self, group_id: str, member_id: str, partitions: Partitions) -> None:
        """As in ShareMasters."""
        topics = [find_topic(self._broker, None, TopicId(topic_id)) for topic_id in partitions]
        set_ids = {one for topic in topics if topic is not None for one in topic.partitions.set_ids}
        sets = self._broker.metadata.replica_sets
        masters = {sets[one].master for one in set_ids if one in sets} - {NO_MASTER}
        question = ShareLeaveRequest(group=group_id, member=member_id)
        for master in sorted(masters):
            self._spawn("share leave", self._leave(master, question))

    async def _leave(self, master: BrokerId, question: ShareLeaveRequest) -> None:
        try:
            await self._calls.ask(master, question, timeout_ms=ANSWER_MS)
        except CallError:
            return  # the records are free when their locks end

    async def _ask_all(
        self,
        asked: Sequence[tuple[SharePlace, T]],
        ask: Callable[[BrokerId, Sequence[T]], Coroutine[Any, Any, Sequence[A]]],
        failed: Callable[[ErrorCode], A],
    ) -> Sequence[tuple[SharePlace, A]]:
        """Ask the master of each place; who can not be asked counts as failed."""
        by_master: dict[BrokerId, list[tuple[SharePlace, T]]] = {}
        told: list[tuple[SharePlace, A]] = []
        pace = Pace(self._broker.turns)
        for place, one in asked:
            await pace.step()
            master = self._master_of(place)
            if master is None:
                told.append((place, failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
            elif master == NO_MASTER:
                told.append((place, failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
            else:
                by_master.setdefault(master, []).append((place, one))

        async def ask_one(master: BrokerId, some: Sequence[tuple[SharePlace, T]]) -> None:
            for begin in range(0, len(some), TOGETHER):
                part = some[begin : begin + TOGETHER]
                try:
                    answers = await ask(master, [one for _, one in part])
                except CallError:
                    answers = [failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * len(part)
                told.extend((place, code) for (place, _), code in zip(part, answers, strict=True))

        await asyncio.gather(*(ask_one(master, some) for master, some in by_master.items()))
        return told

    def _master_of(self, place: SharePlace) -> BrokerId | None:
        """Return the master of a partition's data, or NO_MASTER; None for no such partition."""
        topic = find_topic(self._broker, None, TopicId(place.topic_id))
        if topic is None or not 0 <= place.partition < len(topic.partitions):
            return None
        found = self._broker.metadata.replica_sets.get(topic.partitions.set_ids[place.partition])
        return NO_MASTER if found is None else found.master

    def _has(self, place: SharePlace) -> bool:
        return self._master_of(place) is not None
