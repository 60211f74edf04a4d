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
    from penstock.net.connection import Connection
    from penstock.remoting.front import RemotingFront

_NO_FIELDS: Final[Mapping[str, str]] = {}


class RemotingContext:
    """A connection's client, as the authoriser and handlers know it."""

    __slots__ = ("broker", "connection", "front", "host", "principal", "unanswered")

    def __init__(self, front: RemotingFront, connection: Connection) -> None:
        self.front = front
        self.broker = front.broker
        self.connection = connection
        self.host = connection.client_host
        self.principal = connection.principal or ANONYMOUS
        self.unanswered = 0


class Reply:
    """The answer to one request: sent once, now or later, from the loop; none if it is one-way."""

    __slots__ = ("_context", "_held", "_is_sent", "_request", "_size")

    def __init__(self, context: RemotingContext, request: Command, size: int = 0) -> None:
        """`size` is that of the request's frame."""
        self._context = context
        # What is kept until the answer has neither the body, which is in the receive buffer, nor
        # fields, which may have 256 KiB.
        self._request = request._replace(body=b"", fields=_NO_FIELDS, remark=None)
        self._is_sent = False
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
    ) -> None:
        """Send the answer."""
        assert not self._is_sent, "a request is answered once"
        self._is_sent = True
        self.end()
        connection = self._context.connection
        if self._request.is_one_way or connection.is_closed:
            return
        answer = self._request.answer(code, fields, body=body, remark=remark)
        connection.reserve().send(encode_head(answer), body)

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
