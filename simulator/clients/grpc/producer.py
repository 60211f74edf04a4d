"""A gRPC producer: normal messages, those of message groups, delayed ones. Each value is sent once.

    normal     alone or together, at times gzip, with a tag, keys, or the queue named
    grouped    one after the other, as one producer of a message group does
    delayed    every second one is recalled after a while, at any node: before its time, or too late

Whatever has no answer, or one that refuses, may be there or not.

Source: RocketMQ 5 `ProducerImpl`.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.grpc.proto.messages import (
    Message,
    Property,
    RecallMessageRequest,
    RecallMessageResponse,
    Resource,
    SendMessageRequest,
    SendMessageResponse,
    SystemProperties,
)
from penstock.grpc.statuses import Code, Encoding, MessageType
from simulator.clients.grpc.client import GrpcClient, checked, duration
from simulator.clients.wire import LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.history.remoting.events import Sent
from simulator.history.remoting.order import Grouped
from simulator.history.remoting.sends import ORIGIN
from simulator.run.topology import WALL_START_MS

IDLE_SECONDS = (0.04, 0.3)
KINDS = ("normal", "together", "grouped", "delayed")
WEIGHTS = (6, 2, 8, 4)
TOGETHER_MAX = 4
GROUPS = 2
"""Message groups of each producer; nobody else sends into them."""
DELAYS_MS = (-100, 6_000)
"""What is over by then is sent at once."""
RECALL_SECONDS = (0.05, 3.0)
RECALLED_SHARE, ZIPPED_SHARE, NAMED_SHARE, QUEUE_SHARE, DEADLINE_SHARE = 0.5, 0.15, 0.3, 0.3, 0.1
DEADLINE_MS = (20, 1_200)


@dataclass(slots=True, kw_only=True)
class GrpcProducer(GrpcClient):
    """See the module."""

    topic: str
    sends: list[Sent] = field(default_factory=list)
    grouped: list[Grouped] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    """What answers say of where a value is, in whatever partition."""
    _count: int = 0

    async def run(self) -> None:
        """Send until asked to stop."""
        while not self.world.is_stopping and not self.world.is_over:
            (kind,) = self.random.choices(KINDS, WEIGHTS)
            try:
                await (self._delayed() if kind == "delayed" else self._normal(kind))
            except LinkFailed as error:
                self.failed(error)
                await pause(self.random)
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    def _next(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    async def _normal(self, kind: str) -> None:
        count = self.random.randint(2, TOGETHER_MAX) if kind == "together" else 1
        values = [self._next() for _ in range(count)]
        group = f"{self.name}/{self.random.randrange(GROUPS)}" if kind == "grouped" else None
        queue = await self.any_queue(self.topic)
        messages = [self._message(value, queue.queue_id, group) for value in values]
        at, asked_ns = len(self.sends), now_ns()
        self.sends += [Sent(value, asked_ns) for value in values]
        if group is not None:
            self.grouped.append(Grouped(values[0], group, asked_ns))
        told = await self._send(queue.address, messages)
        for number, entry in enumerate(told.entries):
            value = self._taken(at + number, entry.message_id)
            self.offsets[value] = entry.offset
        if group is not None:
            self.grouped[-1] = self.grouped[-1]._replace(told_ns=now_ns())

    def _message(self, value: str, queue_id: int, group: str | None) -> Message:
        body, encoding = value.encode(), Encoding.IDENTITY
        if self.random.random() < ZIPPED_SHARE:
            body, encoding = gzip.compress(body, mtime=0), Encoding.GZIP
        is_named = self.random.random() < NAMED_SHARE
        names_queue = group is None and self.random.random() < QUEUE_SHARE
        system = SystemProperties(
            tag="a" if is_named else None,
            keys=(value, self.name) if is_named else (),
            message_id=f"ID-{value}",
            body_encoding=encoding,
            message_type=MessageType.NORMAL if group is None else MessageType.FIFO,
            born_timestamp=duration(_wall_ms()) if is_named else None,
            queue_id=queue_id if names_queue else 0,
            message_group=group,
            trace_context="traced" if is_named else None,
        )
        return message_of(self.topic, value, body, system)

    async def _send(self, address: str, messages: Sequence[Message]) -> SendMessageResponse:
        deadline_ms = None
        if self.random.random() < DEADLINE_SHARE:
            deadline_ms = self.random.randint(*DEADLINE_MS)
        request = SendMessageRequest(messages=messages)
        told = await self.ask(
            address, "SendMessage", request, SendMessageResponse, deadline_ms=deadline_ms
        )
        checked(told.status)
        if len(told.entries) != len(messages):
            raise LinkFailed(f"{len(told.entries)} answers for {len(messages)} messages")
        for entry in told.entries:
            checked(entry.status)
        return told

    def _taken(self, at: int, message_id: str) -> str:
        """Note that a message is acknowledged; return its value."""
        sent = self.sends[at]
        if message_id != f"ID-{sent.value}":
            self.world.refuse(f"{message_id} is acknowledged in place of {sent.value}")
        self.sends[at] = sent._replace(is_taken=True)
        return sent.value

    async def _delayed(self) -> None:
        value, delay_ms = self._next(), self.random.randint(*DELAYS_MS)
        queue = await self.any_queue(self.topic)
        asked_ns = now_ns()
        system = SystemProperties(
            message_id=f"ID-{value}",
            message_type=MessageType.DELAY,
            delivery_timestamp=duration(_wall_ms() + delay_ms),
        )
        at = len(self.sends)
        self.sends.append(Sent(value, asked_ns, max(delay_ms, 0)))
        told = await self._send(
            queue.address, [message_of(self.topic, value, value.encode(), system)]
        )
        (entry,) = told.entries
        self._taken(at, entry.message_id)
        if entry.recall_handle and self.random.random() < RECALLED_SHARE:
            await self._recall(at, entry.recall_handle)

    async def _recall(self, at: int, handle: str) -> None:
        await self.idle(RECALL_SECONDS)
        self.sends[at] = self.sends[at]._replace(may_be_recalled=True)
        request = RecallMessageRequest(topic=Resource(name=self.topic), recall_handle=handle)
        told = await self.ask(self.any_address(), "RecallMessage", request, RecallMessageResponse)
        code = told.status.code if told.status is not None else 0
        if code == Code.OK:
            self.sends[at] = self.sends[at]._replace(is_recalled=True)
        elif code == Code.MESSAGE_NOT_FOUND:
            self.sends[at] = self.sends[at]._replace(may_be_recalled=False)


def _wall_ms() -> int:
    return WALL_START_MS + now_ns() // 1_000_000


def message_of(topic: str, value: str, body: bytes, system: SystemProperties) -> Message:
    """Return a message with a value, which is a property of it, too."""
    return Message(
        topic=Resource(name=topic),
        user_properties=(Property(key=ORIGIN, value=value),),
        system_properties=system,
        body=body,
    )
