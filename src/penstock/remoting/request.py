"""A request of a remoting client, and its reply.

Answers may overtake each other: a pull that waits for messages must not hold what its client asks
behind it on the same connection. So a reply takes its place in the connection's order when it is
sent, and not before; what is unanswered is counted here and in held.py.

Source: RocketMQ `NettyRemotingAbstract`, which matches answers by `opaque`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.base.ports import Buffer
from penstock.broker.access import ANONYMOUS
from penstock.remoting.error_map import code_of
from penstock.remoting.held import REQUEST_BYTES
from penstock.remoting.wire.codes import ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import encode_head

if TYPE_CHECKING:
    from penstock.broker.metering import RequestMeter
    from penstock.broker.partitions import HostedPartition
    from penstock.net.connection import Connection
    from penstock.quotas.table import ClientBuckets
    from penstock.remoting.front import RemotingFront

_NO_FIELDS: Final[Mapping[str, str]] = {}
_NO_FAILURES: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.POLLING_FULL,
        ResponseCode.POLLING_TIMEOUT,
    }
)
"""Codes of requests that were served, whether or not there was something."""


class RemotingContext:
    """A connection's client, as the authoriser and handlers know it."""

    __slots__ = (
        "_client_id",
        "broker",
        "buckets",
        "connection",
        "front",
        "host",
        "language",
        "meter",
        "principal",
        "software",
        "unanswered",
        "version",
    )

    def __init__(self, front: RemotingFront, connection: Connection) -> None:
        self.front = front
        self.broker = front.broker
        self.connection = connection
        self.host = connection.client_host
        self.principal = connection.principal or ANONYMOUS
        self.unanswered = 0
        self.software = ("", "")
        """Language and version, as its last request told them."""
        self.language, self.version = "OTHER", 0
        """As its last heartbeat told them."""
        self._client_id = ""
        self.buckets: ClientBuckets | None = None
        self.meter: RequestMeter | None = None
        """Of the request that is being handled; None where nothing is counted."""

    @property
    def user(self) -> str:
        """The principal, where clients say who they are; else empty: they are not one user."""
        return "" if self.principal == ANONYMOUS else self.principal

    @property
    def client_id(self) -> str:
        """The client's id, as its heartbeats tell it; empty before the first."""
        return self._client_id

    @client_id.setter
    def client_id(self, client_id: str) -> None:
        if client_id != self._client_id:
            self._client_id = client_id
            self.buckets = None

    def mute(self, delay_ms: int | None) -> None:
        """Take no more requests for this time; with None until there is a time."""
        self.connection.mute(delay_ms)


class Reply:
    """The answer to one request: sent once, now or later, from the loop; none if it is one-way."""

    __slots__ = ("_context", "_held", "_is_sent", "_meter", "_request", "_size")

    def __init__(self, context: RemotingContext, request: Command, size: int = 0) -> None:
        """`size` is that of the request's frame."""
        self._context = context
        # What is kept until the answer has neither the body, which is in the receive buffer, nor
        # fields, which may have 256 KiB.
        self._request = request._replace(body=b"", fields=_NO_FIELDS, remark=None)
        self._is_sent = False
        self._meter = context.meter
        self._held = 0
        self._size = REQUEST_BYTES + size
        self.begin()

    def __call__(
        self,
        fields: Mapping[str, str] = _NO_FIELDS,
        *,
        code: int = ResponseCode.SUCCESS,
        body: Buffer = b"",
        remark: str | None = None,
        records: int = 0,
        payload: int = 0,
    ) -> None:
        """Send the answer; it is about so many messages, of `payload` bytes together."""
        assert not self._is_sent, "a request is answered once"
        self._is_sent = True
        self.end()
        connection = self._context.connection
        if body:
            self._context.front.delivered += records
        if self._request.is_one_way or connection.is_closed:
            self._count(0, code, records, payload)
            return
        answer = self._request.answer(code, fields, body=body, remark=remark)
        head = encode_head(answer)
        connection.reserve().send(head, body)
        self._count(len(head) + len(body), code, records, payload)

    def about(self, hosted: HostedPartition) -> None:
        """Note which partition the answer is about, where that was not known before."""
        if self._meter is not None:
            self._meter.about(hosted.topic.name, hosted.partition)

    def _count(self, size: int, code: int, records: int, payload: int) -> None:
        if self._meter is not None:
            is_failed = code not in _NO_FAILURES
            self._meter.answered(size, records=records, payload=payload, failed=is_failed)

    def fail(self, error: PlatformError) -> None:
        """Answer with an error."""
        self(code=code_of(error), remark=str(error) or type(error).__name__)

    def begin(self) -> None:
        """Count the request: it has come, or goes on after a part of its work has ended it."""
        if not self._held:
            self._held = self._size
            self._context.unanswered += 1
            self._context.front.held.add(self._context.connection, self._held)

    def end(self) -> None:
        """Count the request no more: it is answered, or its client has gone."""
        if self._held:
            held, self._held = self._held, 0
            self._context.unanswered -= 1
            self._context.front.held.end(self._context.connection, held)
