"""One connection to a node: requests go out, answers come in any order.

    ask ─► wait for room ─► sign ─► frame ─► answer with the same number ─► done
                                         ─► no answer in time, or the end ─► NodeLost

At most PENDING_MAX requests wait at a time, and no more is written while the node does not read.
Requests that nodes send to clients are dropped: what they tell belongs to other kinds of consumers.

Source: RocketMQ `NettyRemotingClient`, `AclClientRPCHook`; access/signatures.py.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from penstock.access.signatures import SIGNATURE_FIELD, USER_FIELD, signature_of
from penstock.base.ports import Buffer
from penstock.http.upstream.errors import NodeBusy, NodeLost
from penstock.remoting.errors import RemotingError
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import decode_frame, encode_frame

PENDING_MAX: Final = 1_000
"""Requests that wait for one node. A node lets one connection have 2,000 that wait."""
FRAME_BYTES_MAX: Final = 32 << 20
"""A pop has 32 messages; the largest message that a topic may have is smaller."""
CONNECT_S: Final = 5.0
_LENGTH_BYTES: Final = 4
_OPAQUE_MASK: Final = 0x7FFFFFFF


class Credentials(NamedTuple):
    """An access key of a node, with which requests are signed."""

    access_key: str
    secret: str


class NodeConnection(asyncio.Protocol):
    """See the module."""

    def __init__(self, address: str, credentials: Credentials | None) -> None:
        """`open_connection` connects it."""
        self.address = address
        self._credentials = credentials
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._pending: dict[int, asyncio.Future[Command]] = {}
        self._opaque = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.is_lost = False

    @property
    def pending(self) -> int:
        """How many requests wait for their answer."""
        return len(self._pending)

    async def ask(
        self, code: int, fields: Mapping[str, str], body: Buffer = b"", *, timeout_s: float
    ) -> Command:
        """Return the answer, whatever its code. Raises NodeLost, NodeBusy."""
        if len(self._pending) >= PENDING_MAX:
            raise NodeBusy(self.address)
        is_sent = False
        self._opaque = (self._opaque + 1) & _OPAQUE_MASK
        opaque = self._opaque
        answer = self._pending[opaque] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_room.wait()
                if self.is_lost or self._transport is None:
                    raise NodeLost(self.address, "the connection is closed", is_unsent=True)
                self._transport.write(self._frame(code, fields, body, opaque))
                is_sent = True
                return cast("Command", await answer)
        except TimeoutError:
            reason = f"no answer in {timeout_s:g} s"
            raise NodeLost(self.address, reason, is_unsent=not is_sent) from None
        finally:
            self._pending.pop(opaque, None)

    def _frame(self, code: int, fields: Mapping[str, str], body: Buffer, opaque: int) -> bytes:
        if self._credentials is not None:
            named = {**fields, USER_FIELD: self._credentials.access_key}
            signature = signature_of(named, body, self._credentials.secret.encode())
            fields = {**named, SIGNATURE_FIELD: signature.decode()}
        return encode_frame(Command(code=code, fields=fields, body=body, opaque=opaque))

    def close(self) -> None:
        """End the connection; what waits fails."""
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _LENGTH_BYTES:
            size = int.from_bytes(self._received[:_LENGTH_BYTES])
            if size > FRAME_BYTES_MAX:
                self._fail(f"a frame of {size} bytes")
                return
            end = _LENGTH_BYTES + size
            if len(self._received) < end:
                return
            frame = bytes(self._received[_LENGTH_BYTES:end])
            del self._received[:end]
            try:
                self._on_command(decode_frame(memoryview(frame)))
            except RemotingError as error:
                self._fail(str(error))
                return

    def _on_command(self, command: Command) -> None:
        waiting = self._pending.get(command.opaque) if command.is_answer else None
        if waiting is not None and not waiting.done():
            waiting.set_result(command)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc) if exc else "it closed the connection")

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def _fail(self, reason: str) -> None:
        self.is_lost = True
        self._has_room.set()
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(NodeLost(self.address, reason))
        self.close()


async def open_connection(
    address: str, credentials: Credentials | None, tls: ssl.SSLContext | None
) -> NodeConnection:
    """Connect to `host:port`. Raises NodeLost."""
    host, _, port = address.rpartition(":")
    connection = NodeConnection(address, credentials)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            await loop.create_connection(lambda: connection, host.strip("[]"), int(port), ssl=tls)
    except TimeoutError:
        raise NodeLost(address, "it can not be reached", is_unsent=True) from None
    except (OSError, ValueError) as error:
        raise NodeLost(address, str(error), is_unsent=True) from error
    return connection
