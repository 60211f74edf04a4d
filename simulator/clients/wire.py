"""A Kafka connection on the event loop: the protocol of `penstock.client` without blocking.

    link = await BrokerLink.open(host, port)
    answer = await link.call(ApiKey.METADATA, 9, fields)
    link.send(...), await link.receive()        several requests under way, answered in order

Any error raises LinkFailed, and the link can not be used afterwards. A client without a quota that
is told to wait ends with ToldToWait, which is a finding.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import WireError
from penstock.protocol.header import parse_response_header, request_header
from penstock.protocol.messages import decode_response, encode_request

CONNECT_SECONDS = 0.5
ANSWER_SECONDS = 1.5
ANSWER_BYTES_MAX = 16 << 20

Buffer = bytes | bytearray | memoryview

CLIENT_ID = "sim"
"""Of all clients that never have a quota."""

_SIZE = struct.Struct(">i")


class LinkFailed(Exception):
    """The connection is gone, too slow, or answers nonsense."""


class ToldToWait(Exception):
    """A client that has no quota was told a delay."""


class BrokerLink:
    """One connection to one broker."""

    def __init__(
        self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.host = host
        self.client_id = CLIENT_ID
        self._reader = reader
        self._writer = writer
        self._pending: deque[tuple[ApiKey, int, int]] = deque()
        self._next_id = 0

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Connect. Raises LinkFailed."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return cls(host, *await asyncio.open_connection(host, port))
        except (OSError, TimeoutError) as error:
            raise LinkFailed(f"{host}:{port}: {error!r}") from error

    @property
    def in_flight(self) -> int:
        """Requests without an answer so far."""
        return len(self._pending)

    def send(self, key: ApiKey, version: int, *body: Buffer) -> int:
        """Write one request; return its bytes on the wire."""
        self._next_id += 1
        head = request_header(key, version, correlation_id=self._next_id, client_id=self.client_id)
        size = len(head) + sum(map(len, body))
        self._writer.write(b"".join((_SIZE.pack(size), head, *body)))
        self._pending.append((key, version, self._next_id))
        return _SIZE.size + size

    async def receive(self, wait_s: float = ANSWER_SECONDS) -> tuple[memoryview, int]:
        """Return the next answer as (frame, position of its body). Raises LinkFailed."""
        key, version, expected = self._pending.popleft()
        frame = await self._frame(wait_s, least=_SIZE.size)
        correlation_id, at = parse_response_header(frame, key, version)
        if correlation_id != expected:
            raise self.broken(f"an answer to {correlation_id}, not to {expected}")
        return frame, at

    async def call(
        self,
        key: ApiKey,
        version: int,
        fields: Mapping[str, Any],
        *,
        wait_s: float = ANSWER_SECONDS,
    ) -> Any:
        """Send a request and return the decoded answer. Raises LinkFailed."""
        self.send(key, version, encode_request(key, version, fields))
        frame, at = await self.receive(wait_s)
        try:
            answer = decode_response(key, version, frame, at)
        except WireError as error:
            raise self.broken(str(error)) from error
        if self.client_id == CLIENT_ID and getattr(answer, "throttle_time", None):
            raise ToldToWait(f"{self.host} to {key.name}: {answer.throttle_time}")
        return answer

    async def exchange(self, token: bytes) -> bytes:
        """Send a bare frame, and return the one that answers it. Raises LinkFailed."""
        assert not self._pending, "bare frames have no number to tell them by"
        self._writer.write(_SIZE.pack(len(token)) + token)
        return bytes(await self._frame(ANSWER_SECONDS, least=0))

    async def _frame(self, wait_s: float, *, least: int) -> memoryview:
        try:
            async with asyncio.timeout(wait_s):
                (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
                if not least <= size <= ANSWER_BYTES_MAX:
                    raise self.broken(f"an answer of {size} bytes")
                return memoryview(await self._reader.readexactly(size))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise self.broken(repr(error)) from error

    def broken(self, reason: str) -> LinkFailed:
        """Close, and return the error to raise."""
        self.close()
        return LinkFailed(reason)

    def close(self) -> None:
        """Close; again: no effect."""
        self._writer.close()
