"""One call: its messages as they come, its deadline, and its answer.

    headers ─► CallHead ─► the method's handler
    data    ─► five bytes and a message, plain or gzip ─► handler
    answer  ◄─ once: messages and trailers, or a status alone

A unary call has one message, which is handled when its client has sent all; one that stays open
hands over each message as it is whole. After its end, by deadline or by the client, an answer that
comes later goes nowhere.

Source: gRPC over HTTP/2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ports import Buffer
from penstock.broker.metering import Kind, meter_of
from penstock.grpc import answers
from penstock.grpc.config import LISTENER_NAME
from penstock.grpc.error_map import status_of
from penstock.grpc.errors import CallFault
from penstock.grpc.inflating import NotGzip, TooLarge, inflate
from penstock.grpc.metadata import GZIP, CallHead
from penstock.grpc.proto.messages import Answer
from penstock.grpc.statuses import GrpcStatus
from penstock.protobuf.codec import encode

if TYPE_CHECKING:
    from penstock.base.ports import Cancellable
    from penstock.broker.metering import RequestMeter
    from penstock.broker.partitions import HostedPartition
    from penstock.grpc.client import GrpcClient
    from penstock.http2.connection import ServerConnection
    from penstock.http2.stream import Stream

MESSAGE_BYTES_MAX: Final = (4 << 20) + (48 << 10)
"""Of one message as it is sent and as it is read: a body of 4 MiB, its properties of 32 KiB, and
what is told beside."""
MESSAGES_AT_ONCE: Final = 16
"""Of a call that stays open, in one frame, which has room for thousands."""


class Wire(NamedTuple):
    """The connection of a call."""

    core: ServerConnection
    write_soon: Callable[[], None]
    """To be called once something is to be written."""


class Call:
    """See the module."""

    __slots__ = (
        "_has_head",
        "_is_failed",
        "_messages",
        "_meter",
        "_part",
        "_payload",
        "_records",
        "_said",
        "_timer",
        "_wire",
        "client",
        "head",
        "is_over",
        "method",
        "stream",
    )

    def __init__(
        self,
        wire: Wire,
        stream: Stream,
        head: CallHead,
        method: Method,
        client: GrpcClient,
    ) -> None:
        self._wire = wire
        self.stream = stream
        self.head = head
        self.method = method
        self.client = client
        self.is_over = False
        """Whether it has its answer, or nobody waits for one."""
        self._part = bytearray()
        self._messages = 0
        self._has_head = False
        self._meter: RequestMeter | None = None
        self._records = self._payload = self._said = 0
        self._is_failed = False
        self._timer: Cancellable | None = None

    @property
    def member(self) -> str:
        """Who calls, among all clients of the node: a client id is its user's own."""
        return f"{self.client.principal}\0{self.head.client_id}"

    # --- what comes ----------------------------------------------------------------------------

    def take(self, data: Buffer) -> None:
        """Take a part of its body. Raises what its client is told."""
        self._part += data
        if self.method.stays_open:
            handled = 0
            while not self.is_over and self._handle_one():
                handled += 1
                if handled > MESSAGES_AT_ONCE:
                    told = f"more than {MESSAGES_AT_ONCE} messages at once"
                    raise CallFault(GrpcStatus.RESOURCE_EXHAUSTED, told)
            if not self.is_over:
                self._wire.core.expect(self.stream, is_begun=bool(self._part))
        else:
            self._size()

    def take_end(self) -> None:
        """Handle the end of its body. Raises what its client is told."""
        if self.method.stays_open:
            self.end()
        elif not self._handle_one() or (self._part and not self.is_over):
            raise CallFault(GrpcStatus.INTERNAL, "a call has one whole message")

    def limit(self) -> None:
        """Begin to count its time, if it has no answer yet and has a deadline."""
        if self.head.timeout_ms is not None and not self.is_over:
            scheduler = self.client.broker.scheduler
            self._timer = scheduler.call_later(self.head.timeout_ms, self._expire)

    def over(self) -> None:
        """Forget it: nobody waits for its answer."""
        self.is_over = True
        self._part = bytearray()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.method.on_over(self)
        meter, self._meter = self._meter, None
        if meter is not None:
            told = {"records": self._records, "payload": self._payload}
            meter.answered(self._said, failed=self._is_failed, **told)

    def _size(self) -> int:
        """Return how many bytes its message has with what is before it; 0 while that is open."""
        if len(self._part) < answers.PREFIX_BYTES:
            return 0
        flag, size = answers.read_prefix(self._part)
        if flag > 1 or (flag and self.head.encoding != GZIP):
            raise CallFault(GrpcStatus.INTERNAL, "a message that is compressed in no known way")
        if size > MESSAGE_BYTES_MAX:
            told = f"a message of {size} bytes: {MESSAGE_BYTES_MAX} are taken"
            raise CallFault(GrpcStatus.RESOURCE_EXHAUSTED, told)
        return answers.PREFIX_BYTES + size

    def _handle_one(self) -> bool:
        """Whether a message was whole, and is handled."""
        size = self._size()
        if not size or len(self._part) < size:
            return False
        flag = self._part[0]
        message = bytes(memoryview(self._part)[answers.PREFIX_BYTES : size])
        del self._part[:size]
        if flag:
            message = _inflated(message)
        if self.method.stays_open:
            self._wire.core.consume(self.stream, size)
        elif self._part:
            return True  # the caller refuses it: two messages where one is to be
        else:
            self._begin_to_count(size)
        broker = self.client.broker
        begun_us = broker.clock.monotonic_us()
        try:
            self.method.handle(self, message)
        finally:
            turns = broker.stats.turns_of(LISTENER_NAME, self.method.name)
            turns.note(broker.clock.monotonic_us() - begun_us)
            if self._meter is not None:
                self._meter.handled()
        return True

    def _begin_to_count(self, size: int) -> None:
        head, client = self.head, self.client
        client.client_id = head.client_id
        client.software = f"rocketmq-grpc-{head.language.lower()}", head.version
        name = self.method.name
        self._meter = meter_of(client.broker, client, name.lower(), self.method.kind, size)

    def about(self, hosted: HostedPartition, *, records: int, payload: int) -> None:
        """Note which partition gets so many messages, of `payload` bytes together."""
        if self._meter is not None:
            self._records, self._payload = records, payload
            self._meter.about(hosted.topic.name, hosted.partition)

    # --- its answer ----------------------------------------------------------------------------

    def say(self, message: Any) -> None:
        """Send a message of the answer; others may follow."""
        self.say_bytes(encode(message))

    def say_bytes(self, message: bytes) -> None:
        """Send a message that is encoded already."""
        self.say_all((message,))

    def say_all(self, messages: Sequence[bytes]) -> None:
        """Send messages that are encoded already."""
        if self.is_over:
            return
        if not self._has_head:
            self._has_head = True
            self._wire.core.answer(self.stream, answers.HEAD)
        body = b"".join(map(answers.prefixed, messages))
        self._said += len(body)
        self._wire.core.send(self.stream, body)
        self._wire.write_soon()

    def end(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """End the answer behind what was said."""
        if self.is_over:
            return
        self._is_failed |= status is not GrpcStatus.OK
        core = self._wire.core
        if not self._has_head:
            core.answer(self.stream, answers.status_alone(status, text), is_end=True)
        else:
            core.end(self.stream, answers.trailers(status, text) if status or text else answers.OK)
        self.over()
        self._wire.write_soon()

    def reply(self, message: Any) -> None:
        """Answer a unary call."""
        self.say(message)
        self.end()

    def fail(self, error: PlatformError) -> None:
        """Answer with what an error is to the client."""
        if isinstance(error, CallFault):
            self.end(error.status, error.reason)
        elif not self.is_over:
            status = status_of(error)
            self._is_failed = True
            self.client.front.refusals[status.code] += 1
            self.reply(Answer(status=status))

    def _expire(self) -> None:
        self._timer = None
        self.end(GrpcStatus.DEADLINE_EXCEEDED, "not done by the deadline of the call")


def _inflated(message: bytes) -> bytes:
    try:
        return inflate(message, MESSAGE_BYTES_MAX)
    except NotGzip as error:
        raise CallFault(GrpcStatus.INTERNAL, "a message that is no gzip") from error
    except TooLarge as error:
        told = f"a message that unpacks to more than {MESSAGE_BYTES_MAX} bytes"
        raise CallFault(GrpcStatus.RESOURCE_EXHAUSTED, told) from error


def _nothing(call: Call) -> None:
    """Nothing is kept of a call."""


class Method(NamedTuple):
    """A method of the service."""

    name: str
    handle: Callable[[Call, bytes], None]
    """Answers a message, now or later. Raises PlatformError, which is told to the client."""
    kind: Kind = Kind.OTHER
    """Whether its bytes count against a quota."""
    stays_open: bool = False
    """Whether the client may send several messages, each of which is handled as it comes."""
    on_over: Callable[[Call], None] = _nothing
    """Called once, as the call is over."""
