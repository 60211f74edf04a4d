"""A gRPC consumer, simple or push: it receives, and acknowledges, or does something else, or hangs.

    ack        at once, or too late; alone, or all of an answer
    change     more or less time under a new receipt, which is acknowledged, or not; or none
    forward    it is a dead letter
    forget     the message comes to somebody else when its time is over
    end        it says that it ends, or vanishes, with all that it has

A push consumer asks for its queues, and has its messages renewed; a simple one says for how long.
One of a group that keeps the order asks some answers again, under their attempt ids: at once, and
after it has said what becomes of them, when they must not come any more.

It receives nothing from a node that has not told it the settings of its group.

Source: RocketMQ 5 `SimpleConsumerImpl`, `PushConsumerImpl`, `ProcessQueueImpl`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import NamedTuple

from penstock.grpc.proto.messages import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    Answer,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    FilterExpression,
    ForwardMessageToDeadLetterQueueRequest,
    HeartbeatRequest,
    MessageQueue,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    ReceiveMessageRequest,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
    TelemetryCommand,
)
from penstock.grpc.statuses import ClientType, Code
from penstock.protobuf.codec import decode, encode
from simulator.clients.grpc.client import GrpcClient, address_of, checked, duration, name_of
from simulator.clients.grpc.link import GrpcLink
from simulator.clients.grpc.messages import Delivered, DeliveredProperties, Received
from simulator.clients.grpc.transactor import first_of
from simulator.clients.wire import ANSWER_SECONDS, LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.history.shares import Handed, Kind, Place, Settled, ShareNotes

IDLE_SECONDS = (0.005, 0.12)
INVISIBLE_MS = 10_000
"""The least that may be asked for."""
CHANGED_MS = (100, 2_500)
POLL_MS = (0, 600)
MESSAGES_MAX = (1, 32)
WAYS = ("ack", "together", "late", "more", "release", "forward", "forget")
WEIGHTS = (10, 12, 1, 4, 2, 1, 1)
VANISHES_SHARE, ENDS_SHARE, LOST_TIME_SHARE, AGAIN_SHARE = 0.01, 0.02, 0.3, 0.15
BEATS_SHARE, ASSIGNED_SHARE, CANCELLED_SHARE, DEADLINE_SHARE = 0.1, 0.2, 0.05, 0.2
ANY = FilterExpression(type=1, expression="*")
LATE_SECONDS = (0.3, 5.0)
_NOTHING = frozenset({Code.MESSAGE_NOT_FOUND, Code.TOO_MANY_REQUESTS})


class Had(NamedTuple):
    """A message in the hands of this client."""

    place: Place
    value: str
    message_id: str
    handle: str


@dataclass(slots=True, kw_only=True)
class GrpcConsumer(GrpcClient):
    """See the module."""

    topic: str
    group: str
    deliveries_max: int
    """What is set for the group."""
    notes: ShareNotes
    is_push: bool = False
    is_ordered: bool = False
    repeated: int = 0
    """Answers that came again under their attempt ids."""
    _attempts: int = 0
    _last: ReceiveMessageRequest | None = None
    """What was asked before this."""

    async def run(self) -> None:
        """Receive until the run is over; once nothing is written any more, acknowledge all."""
        while not self.world.is_over:
            try:
                await self._turn()
            except LinkFailed as error:
                self.failed(error)
                await pause(self.random)
            if not self.world.is_stopping and self.random.random() < VANISHES_SHARE:
                self.hang_up()
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    async def greet(self, link: GrpcLink) -> None:
        """Tell the group, and hear how it works. Raises LinkFailed where that is not known yet."""
        told: asyncio.Future[TelemetryCommand] = asyncio.get_running_loop().create_future()

        def heard(message: bytes) -> None:
            if not told.done():
                told.set_result(decode(TelemetryCommand, message))

        stream = link.stream("Telemetry", self.name, heard)
        wanted = SubscriptionEntry(topic=Resource(name=self.topic), expression=ANY)
        subscription = Subscription(group=self._group, subscriptions=(wanted,))
        settings = Settings(client_type=self._kind, subscription=subscription)
        stream.say(encode(TelemetryCommand(settings=settings)))
        command = await first_of(link, told)
        got = command.settings or Settings()
        fifo = 0 if got.subscription is None else got.subscription.fifo
        attempts = 0 if got.backoff_policy is None else got.backoff_policy.max_attempts
        if bool(fifo) is not self.is_ordered or attempts != self.deliveries_max:
            raise LinkFailed(f"{link.address} does not know yet how {self.group} works")

    @property
    def _group(self) -> Resource:
        return Resource(name=self.group)

    @property
    def _kind(self) -> ClientType:
        return ClientType.PUSH_CONSUMER if self.is_push else ClientType.SIMPLE_CONSUMER

    async def _turn(self) -> None:
        address = await self._where()
        if self.random.random() < BEATS_SHARE:
            await self._beat()
        had = await self._receive(address)
        if not self.world.is_stopping and self.random.random() < ENDS_SHARE:
            await self._say_end()
            return
        together: list[Had] = []
        for one in had:
            (way,) = self.random.choices(WAYS, WEIGHTS)
            if way == "together" or self.world.is_stopping:
                together.append(one)
            else:
                await self._one(way, one)
        if together:
            await self._ack(await self.led_at(self.topic, together[0].place[0]), together)

    async def _where(self) -> str:
        """Return who is to be asked. Raises LinkFailed."""
        if not self.is_push or self.random.random() >= ASSIGNED_SHARE:
            return (await self.any_queue(self.topic)).address
        request = QueryAssignmentRequest(topic=Resource(name=self.topic), group=self._group)
        told = await self.ask(
            self.any_address(), "QueryAssignment", request, QueryAssignmentResponse
        )
        checked(told.status)
        return address_of(self.random.choice(told.assignments).message_queue or MessageQueue())

    async def _beat(self) -> None:
        request = HeartbeatRequest(group=self._group, client_type=self._kind)
        for address in [*self._links]:
            told = await self.ask(address, "Heartbeat", request, Answer)
            checked(told.status)

    async def _say_end(self) -> None:
        """Say that it ends, which gives back what it has; then begin anew."""
        request = HeartbeatRequest(group=self._group)
        for address in [*self._links]:
            told = await self.ask(address, "NotifyClientTermination", request, Answer)
            checked(told.status)
        self.hang_up()

    # --- receiving -----------------------------------------------------------------------------

    async def _receive(self, address: str) -> list[Had]:
        """Return what was received. Raises LinkFailed."""
        self._attempts += 1
        poll_ms = self.random.randint(*POLL_MS)
        self._last, last = None, self._last
        if self.is_ordered and last is not None and self.random.random() < AGAIN_SHARE:
            return await self._answer(address, last, poll_ms)
        request = self._last = ReceiveMessageRequest(
            group=self._group,
            message_queue=MessageQueue(topic=Resource(name=self.topic)),
            filter_expression=ANY,
            batch_size=self.random.randint(*MESSAGES_MAX),
            invisible_duration=None if self.is_push else duration(INVISIBLE_MS),
            auto_renew=int(self.is_push),
            long_polling_timeout=duration(poll_ms),
            attempt_id=f"{self.name}-{self._attempts}" if self.is_ordered else None,
        )
        if not self.world.is_stopping and self.random.random() < CANCELLED_SHARE:
            await self._cancel(address, request)
            return []
        had = await self._answer(address, request, poll_ms)
        if self.is_ordered and had and self.random.random() < AGAIN_SHARE:
            again = await self._answer(address, request, poll_ms)
            self.repeated += [one.handle for one in again] == [one.handle for one in had]
            return again or had
        return had

    async def _cancel(self, address: str, request: ReceiveMessageRequest) -> None:
        """Go away while a node waits for messages. Raises LinkFailed."""
        stream = (await self.link(address)).stream("ReceiveMessage", self.name, None)
        stream.say(encode(request), is_end=True)
        await pause(self.random)
        stream.cancel()

    async def _answer(
        self, address: str, request: ReceiveMessageRequest, poll_ms: int
    ) -> list[Had]:
        link, asked_ns = await self.link(address), now_ns()
        deadline_ms = None
        if self.random.random() < DEADLINE_SHARE:
            deadline_ms = poll_ms + 700
        messages = await link.call(
            "ReceiveMessage",
            encode(request),
            self.name,
            wait_s=ANSWER_SECONDS + poll_ms / 1_000,
            deadline_ms=deadline_ms,
        )
        parts = [decode(Received, one) for one in messages]
        if not parts or parts[0].status is None:
            raise LinkFailed("an answer without a status")
        if parts[0].status.code in _NOTHING:
            return []
        checked(parts[0].status)
        if len(parts) <= len(("status", "time")) or parts[-1].delivery_timestamp is None:
            self.world.refuse(f"an answer to {self.name} of {len(parts)} parts is not whole")
        return [
            self._handed(one.message or Delivered(), asked_ns, link.host) for one in parts[1:-1]
        ]

    def _handed(self, message: Delivered, asked_ns: int, told_by: str) -> Had:
        system = message.system_properties or DeliveredProperties()
        place, value = (system.queue_id, system.queue_offset), message.body.decode()
        digest = md5(message.body, usedforsecurity=False).hexdigest().upper()
        if system.body_digest is None or system.body_digest.checksum != digest:
            self.world.refuse(f"{value} has another digest")
        if system.delivery_attempt < 1:
            self.world.refuse(f"{value} comes for the {system.delivery_attempt}. time")
        count, told_ns = system.delivery_attempt, now_ns()
        handed = Handed(self.name, place, value, count, asked_ns, told_ns, told_by)
        self.notes.handed.append(handed)
        return Had(place, value, system.message_id, system.receipt_handle)

    # --- what becomes of it --------------------------------------------------------------------

    async def _one(self, way: str, one: Had) -> None:
        address = await self.led_at(self.topic, one.place[0])
        if way == "late":
            await self.idle(LATE_SECONDS)
        if way in {"ack", "late"}:
            await self._ack(address, [one])
        elif way == "release":
            await self._change(address, one, 0)
        elif way == "forward":
            await self._forward(address, one)
        elif way == "more":
            changed = await self._change(address, one, self.random.randint(*CHANGED_MS))
            if changed is not None and self.random.random() >= LOST_TIME_SHARE:
                await self._ack(address, [changed])

    async def _ack(self, address: str, had: Sequence[Had]) -> None:
        at = self._begin(had, Kind.ACCEPT)
        entries = [
            AckMessageEntry(message_id=one.message_id, receipt_handle=one.handle) for one in had
        ]
        request = AckMessageRequest(
            group=self._group, topic=Resource(name=self.topic), entries=entries
        )
        told = await self.ask(address, "AckMessage", request, AckMessageResponse)
        if len(told.entries) != len(had):
            raise LinkFailed(f"acknowledgement: {name_of(told.status)}")
        for number, (one, entry) in enumerate(zip(had, told.entries, strict=True)):
            if entry.receipt_handle != one.handle:
                self.world.refuse(f"an outcome of another message than {one.value}")
            self._told(at + number, entry.status.code if entry.status is not None else 0)

    async def _forward(self, address: str, one: Had) -> None:
        at = self._begin([one], Kind.REJECT)
        request = ForwardMessageToDeadLetterQueueRequest(
            group=self._group,
            topic=Resource(name=self.topic),
            receipt_handle=one.handle,
            message_id=one.message_id,
        )
        told = await self.ask(address, "ForwardMessageToDeadLetterQueue", request, Answer)
        self._told(at, told.status.code if told.status is not None else 0)

    def _begin(self, had: Sequence[Had], kind: Kind) -> int:
        at, asked_ns = len(self.notes.settled), now_ns()
        self.notes.settled += [Settled(self.name, one.place, kind, asked_ns, None) for one in had]
        return at

    def _told(self, at: int, code: int) -> None:
        """Note an answer; what says neither yes nor no may have counted."""
        if code in {Code.OK, Code.INVALID_RECEIPT_HANDLE}:
            settled = self.notes.settled[at]
            is_taken = code == Code.OK
            self.notes.settled[at] = settled._replace(told_ns=now_ns(), is_taken=is_taken)
        else:
            self._routes.clear()  # it may have been the wrong node

    async def _change(self, address: str, one: Had, invisible_ms: int) -> Had | None:
        request = ChangeInvisibleDurationRequest(
            group=self._group,
            topic=Resource(name=self.topic),
            receipt_handle=one.handle,
            invisible_duration=duration(invisible_ms),
            message_id=one.message_id,
        )
        told = await self.ask(
            address, "ChangeInvisibleDuration", request, ChangeInvisibleDurationResponse
        )
        if told.status is None or told.status.code != Code.OK:
            return None
        return one._replace(handle=told.receipt_handle)
