"""A gRPC client whose calls are refused: each with the code, or the status, that it has to be.

A node that has no answer, or is not ready, says nothing wrong: only another answer is.

Source: RocketMQ's proxy, and gRPC's statuses (docs/adr/0137).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.grpc.proto.messages import (
    AckMessageEntry,
    AckMessageRequest,
    Answer,
    EndTransactionRequest,
    FilterExpression,
    HeartbeatRequest,
    MessageQueue,
    QueryRouteRequest,
    RecallMessageRequest,
    ReceiveMessageRequest,
    Resource,
    SendMessageRequest,
    SystemProperties,
)
from penstock.grpc.statuses import ClientType, Code, GrpcStatus, MessageType
from penstock.protobuf.codec import decode, encode
from simulator.clients.grpc.client import GrpcClient, duration
from simulator.clients.grpc.link import CallEnded
from simulator.clients.grpc.producer import message_of
from simulator.clients.wire import LinkFailed
from simulator.clients.world import pause
from simulator.history.remoting.events import FINDINGS_MAX

IDLE_SECONDS = (0.1, 0.6)
_NOT_NOW = frozenset({Code.HA_NOT_AVAILABLE, Code.TOO_MANY_REQUESTS, Code.TOPIC_NOT_FOUND})
Odd = Callable[[str], tuple[str, Any, int]]
"""Of a topic: a method, a request, and what is to be answered."""


def _sends(topic: str, **system: Any) -> SendMessageRequest:
    told = {"message_id": "odd"} | system
    return SendMessageRequest(
        messages=(message_of(topic, "odd", b"odd", SystemProperties(**told)),)
    )


def _receives(topic: str, **told: Any) -> ReceiveMessageRequest:
    usual: dict[str, Any] = {
        "group": Resource(name="strangers"),
        "message_queue": MessageQueue(topic=Resource(name=topic)),
        "invisible_duration": duration(10_000),
        "long_polling_timeout": duration(0),
    }
    return ReceiveMessageRequest(**usual | told)


ODD: tuple[Odd, ...] = (
    lambda topic: ("GetOffset", QueryRouteRequest(topic=Resource(name=topic)), Code.UNSUPPORTED),
    lambda topic: ("PullMessage", _receives(topic), Code.UNSUPPORTED),
    lambda _: ("QueryRoute", QueryRouteRequest(), Code.ILLEGAL_TOPIC),
    lambda topic: ("SendMessage", _sends(topic, message_id=""), Code.ILLEGAL_MESSAGE_ID),
    lambda topic: ("SendMessage", _sends(topic, tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
    lambda topic: (
        "SendMessage",
        _sends(topic, message_type=MessageType.DELAY),
        Code.ILLEGAL_DELIVERY_TIME,
    ),
    lambda topic: ("SendMessage", _sends(topic, priority=1), Code.UNSUPPORTED),
    lambda topic: (
        "EndTransaction",
        EndTransactionRequest(topic=Resource(name=topic), message_id="odd", transaction_id="1"),
        Code.INVALID_TRANSACTION_ID,
    ),
    lambda topic: (
        "AckMessage",
        AckMessageRequest(
            group=Resource(name="strangers"),
            topic=Resource(name=topic),
            entries=(AckMessageEntry(message_id="odd", receipt_handle="odd"),),
        ),
        Code.INVALID_RECEIPT_HANDLE,
    ),
    lambda topic: (
        "ReceiveMessage",
        _receives(topic, invisible_duration=duration(1)),
        Code.ILLEGAL_INVISIBLE_TIME,
    ),
    lambda topic: (
        "ReceiveMessage",
        _receives(topic, filter_expression=FilterExpression(type=2, expression="a = ")),
        Code.ILLEGAL_FILTER_EXPRESSION,
    ),
    lambda _: (
        "Heartbeat",
        HeartbeatRequest(group=Resource(name="strangers"), client_type=ClientType.SIMPLE_CONSUMER),
        Code.UNRECOGNIZED_CLIENT_TYPE,
    ),
    lambda topic: (
        "RecallMessage",
        RecallMessageRequest(topic=Resource(name=topic), recall_handle="odd"),
        Code.BAD_REQUEST,
    ),
    lambda topic: (
        "NoSuchMethod",
        QueryRouteRequest(topic=Resource(name=topic)),
        GrpcStatus.UNIMPLEMENTED,
    ),
)


@dataclass(slots=True, kw_only=True)
class GrpcStranger(GrpcClient):
    """See the module."""

    topic: str
    wrong: list[str] = field(default_factory=list)
    answered: int = 0

    async def run(self) -> None:
        """Ask until the run is over."""
        while not self.world.is_over:
            try:
                await self._ask_oddly()
            except LinkFailed as error:
                self.failed(error)
                await pause(self.random)
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    async def _ask_oddly(self) -> None:
        method, request, wanted = self.random.choice(ODD)(self.topic)
        link = await self.link(self.any_address())
        try:
            first, *_ = await link.call(method, encode(request), self.name)
            status = decode(Answer, first).status
            code = 0 if status is None else status.code
        except CallEnded as ended:
            code = ended.status
        self.answered += 1
        if code != wanted and code not in _NOT_NOW and len(self.wrong) < FINDINGS_MAX:
            self.wrong.append(f"{method} that is wrong was answered with {code}, not {wanted}")
