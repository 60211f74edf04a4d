"""Answers masters of data whether shares may begin: the coordinator of the group's side.

    no such group, or partition      GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION
    shares are moved or deleted now  COORDINATOR_NOT_AVAILABLE
    not the coordinator, for certain NOT_COORDINATOR and the like

Only what is confirmed counts, and only while nobody else can be the coordinator: a successor may
have deleted the group.

Source: ADR 0105.
"""

from penstock.broker.broker import Broker
from penstock.broker.turns import Pace
from penstock.coordinator.share_calls import ShareBeginRequest, ShareCodesResponse
from penstock.groups.share.records import Shared
from penstock.kafka.gate import group_error_of_broker
from penstock.protocol.error_codes import ErrorCode


class ShareAdmitting:
    """The handler of one broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def may_begin(self, question: ShareBeginRequest) -> ShareCodesResponse:
        """Say of each partition whether the group may have a share in it."""
        pace = Pace(self._broker.turns)
        codes: list[ErrorCode] = []
        for place in question.places:
            await pace.step()
            shared = self._shared(question.group)
            if isinstance(shared, ErrorCode):
                codes.append(shared)
                continue
            topic = shared.topics.get(bytes(place.topic_id))
            is_known = topic is not None and place.partition in topic.numbers
            codes.append(ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ShareCodesResponse(codes=tuple(codes))

    def _shared(self, group_id: str) -> Shared | ErrorCode:
        """Return what may have a share now, or why that can not be told: looked up in each turn."""
        error = group_error_of_broker(self._broker, group_id)
        return error or self._broker.groups.shares.beginning(group_id)
