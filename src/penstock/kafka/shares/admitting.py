"""Answers masters of data whether shares may begin: the coordinator of the group's side.

    no such group, or partition      GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION
    shares are moved or deleted now  COORDINATOR_NOT_AVAILABLE
    not the coordinator, for certain NOT_COORDINATOR and the like

A group whose name is that of popping (share_policies.py) has no members here that subscribe: what
masters ask for is noted then, and may begin once that is durable.

Only what is confirmed counts, and only while nobody else can be the coordinator: a successor may
have deleted the group.

Source: ADR 0105.
"""

import asyncio

from penstock.base.ids import TopicId
from penstock.broker.awaited import awaited
from penstock.broker.broker import Broker
from penstock.broker.coordinators.share_policies import popping_group
from penstock.broker.turns import Pace
from penstock.coordinator.calls.shares import ShareBeginRequest, ShareCodesResponse, SharePlace
from penstock.groups.share.records import Shared, SharedTopic
from penstock.kafka.gate import find_topic, group_error_of_broker
from penstock.protocol.error_codes import ErrorCode

TOGETHER, STEPS = 100, 5
"""Places that are looked up together, and steps of a turn that they stand for: 50 us."""


class ShareAdmitting:
    """The handler of one broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def may_begin(self, question: ShareBeginRequest) -> ShareCodesResponse:
        """Say of each partition whether the group may have a share in it."""
        pace = Pace(self._broker.turns)
        if popping_group(question.group) is not None:
            await self._note(question, pace)
        codes: list[ErrorCode] = []
        for begin in range(0, len(question.places), TOGETHER):
            await pace.step(STEPS)
            shared = self._shared(question.group)
            some = question.places[begin : begin + TOGETHER]
            if isinstance(shared, ErrorCode):
                codes += [shared] * len(some)
            else:
                codes += (_code(shared, place) for place in some)
        return ShareCodesResponse(codes=tuple(codes))

    async def _note(self, question: ShareBeginRequest, pace: Pace) -> None:
        """Note what is asked for and not known, unless that is not possible now."""
        shared = self._shared(question.group)
        known = shared.topics if isinstance(shared, Shared) else {}
        topics: dict[bytes, SharedTopic] = {}
        for place in question.places:
            await pace.step()
            topic_id = bytes(place.topic_id)
            image = find_topic(self._broker, None, TopicId(topic_id))
            if image is None or not 0 <= place.partition < len(image.partitions):
                continue
            topic = known.get(topic_id)
            if topic is None or place.partition not in topic.numbers:
                topics[topic_id] = SharedTopic(image.name, frozenset(range(len(image.partitions))))
        error = group_error_of_broker(self._broker, question.group)
        if not topics or error:
            return
        held = self._broker.groups.shares.hold(question.group, creates=True)
        if isinstance(held, ErrorCode):
            return
        try:
            written: asyncio.Future[ErrorCode | None]
            written, tell = awaited()
            held.add(topics, tell)
            async with self._broker.long_places.away():
                await written
        finally:
            held.end()

    def _shared(self, group_id: str) -> Shared | ErrorCode:
        """Return what may have a share now, or why that can not be told: looked up in each turn."""
        error = group_error_of_broker(self._broker, group_id)
        return error or self._broker.groups.shares.beginning(group_id)


def _code(shared: Shared, place: SharePlace) -> ErrorCode:
    topic = shared.topics.get(bytes(place.topic_id))
    is_known = topic is not None and place.partition in topic.numbers
    return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
