"""A request on its way through the broker, and the reply that is owed for it."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any

from penstock.base.ports import Buffer, Clock
from penstock.broker.stats import ApiStats
from penstock.protocol.header import has_tagged_response_header
from penstock.protocol.messages import encode_response

if TYPE_CHECKING:
    from penstock.net.connection import Connection, ReplySlot

_HEADER = Struct(">ii")
_FLEXIBLE_HEADER = Struct(">iib")


class Request:
    """A decoded request of a rarely used API; Produce and Fetch are not decoded into one."""

    __slots__ = ("api_version", "body", "client_id", "connection")

    def __init__(
        self, api_version: int, client_id: str | None, body: Any, connection: Connection
    ) -> None:
        self.api_version = api_version
        self.client_id = client_id
        self.body = body
        self.connection = connection

    @property
    def client_host(self) -> str:
        """Address the client connected from."""
        return self.connection.client_host


class Reply:
    """The answer owed for one request: send it once, now or later, from the loop.

    The connection keeps answers in request order; a reply that is sent early waits there.
    """

    __slots__ = (
        "_api_key",
        "_api_version",
        "_clock",
        "_correlation_id",
        "_handled_us",
        "_slot",
        "_started_us",
        "_stats",
    )

    def __init__(
        self,
        slot: ReplySlot,
        request: tuple[int, int, int],
        clock: Clock,
        stats: ApiStats,
        started_us: int,
    ) -> None:
        """`request` is (api key, api version, correlation id)."""
        self._slot = slot
        self._api_key, self._api_version, self._correlation_id = request
        self._clock = clock
        self._stats = stats
        self._started_us = started_us
        self._handled_us = 0

    def __call__(self, fields: Mapping[str, object]) -> None:
        """Encode `fields` for the request's version and send them."""
        self.raw(encode_response(self._api_key, self._api_version, fields))

    def raw(self, *body: Buffer) -> None:
        """Send a body that is encoded already."""
        size = sum(map(len, body))
        if has_tagged_response_header(self._api_key, self._api_version):
            header = _FLEXIBLE_HEADER.pack(size + 5, self._correlation_id, 0)
        else:
            header = _HEADER.pack(size + 4, self._correlation_id)
        self._finish()
        self._slot.send(header, *body)

    def skip(self) -> None:
        """Answer nothing: the client asked for acks=0."""
        self._finish()
        self._slot.skip()

    def close(self, reason: str) -> None:
        """End the connection instead of answering."""
        self._finish()
        self._slot.connection.close(reason)

    def handled(self) -> None:
        """The handler has returned; what passes until the answer is waiting."""
        self._handled_us = self._clock.monotonic_us()
        self._stats.local.observe(self._handled_us - self._started_us)

    def _finish(self) -> None:
        if self._handled_us:
            self._stats.remote.observe(self._clock.monotonic_us() - self._handled_us)
