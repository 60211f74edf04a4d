"""A connection of a gRPC client on the event loop: many calls under way, and streams of both sides.

    link = await GrpcLink.open("host:port")
    answers = await link.call("QueryRoute", message, client_id)
    stream = link.stream("Telemetry", client_id, on_message)
    stream.say(message)

HTTP/2 is h2's. Whatever is wrong with the connection raises LinkFailed, and it can not be used
afterwards; a call that ends with a status of gRPC other than OK raises CallEnded, and the rest of
the connection goes on. A connection whose node says that it goes away is left at once.
"""

import asyncio
import gzip
from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from simulator.clients.wire import ANSWER_BYTES_MAX, ANSWER_SECONDS, CONNECT_SECONDS, LinkFailed

SERVICE = "/apache.rocketmq.v2.MessagingService/"
READ_BYTES = 64 << 10
NOTHING: Mapping[str, str] = MappingProxyType({})
_PREFIX = Struct(">BI")
_CANCEL = 8
_OK = 0
_WINDOW = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE

OnMessage = Callable[[bytes], None]


class CallEnded(LinkFailed):
    """A call has ended with a status of gRPC, or was reset."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"a call ended with {status}: {text}")
        self.status = status


class GrpcStream:
    """A call that has not ended."""

    def __init__(self, link: "GrpcLink", stream_id: int, on_message: OnMessage | None) -> None:
        self.stream_id = stream_id
        self.messages: list[bytes] = []
        """Those that have come, where nobody takes each as it comes."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended.add_done_callback(_look_at)
        self._link = link
        self._on_message = on_message
        self._part = bytearray()
        self._status, self._text = -1, ""

    def say(self, message: bytes, *, is_end: bool = False, is_packed: bool = False) -> None:
        """Send a message. Raises LinkFailed."""
        body = gzip.compress(message, mtime=0) if is_packed else message
        self._link.send(self.stream_id, _PREFIX.pack(is_packed, len(body)) + body, is_end=is_end)

    def cancel(self) -> None:
        """Want nothing more of it."""
        if not self.ended.done():
            self._link.cancel(self.stream_id)
            self.over(CallEnded(1, "cancelled here"))

    def head(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Take headers, or what stands behind the messages."""
        named = dict(headers)
        if named.get(b":status", b"200") != b"200":
            self._text = f"HTTP {named[b':status'].decode()}"
        self._status = int(named.get(b"grpc-status", self._status))
        self._text = named.get(b"grpc-message", self._text.encode()).decode()

    def data(self, data: bytes) -> None:
        """Take a part of the body. Raises LinkFailed."""
        self._part += data
        while len(self._part) >= _PREFIX.size:
            _, size = _PREFIX.unpack_from(self._part)
            if size > ANSWER_BYTES_MAX:
                raise LinkFailed(f"a message of {size} bytes")
            end = _PREFIX.size + size
            if len(self._part) < end:
                return
            message = bytes(self._part[_PREFIX.size : end])
            del self._part[:end]
            if self._on_message is not None:
                self._on_message(message)
            else:
                self.messages.append(message)

    def end(self) -> None:
        """The other side has sent all."""
        self.over(None if self._status == _OK else CallEnded(self._status, self._text))

    def over(self, error: LinkFailed | None) -> None:
        """It has ended, however that went."""
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


class GrpcLink:
    """See the module."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.address = address
        self._reader, self._writer = reader, writer
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self._h2 = h2.connection.H2Connection(config)
        self._streams: dict[int, GrpcStream] = {}
        self._why = ""
        """Why it is of no use any more."""
        self._h2.initiate_connection()
        self._flush()
        self._pump = asyncio.get_running_loop().create_task(self._read(), name="grpc link")

    @classmethod
    async def open(cls, address: str) -> Self:
        """Connect. Raises LinkFailed."""
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return cls(address, *await asyncio.open_connection(host, int(port)))
        except (OSError, TimeoutError) as error:
            raise LinkFailed(f"{address}: {error!r}") from error

    @property
    def host(self) -> str:
        """Whom it leads to."""
        return self.address.rpartition(":")[0]

    @property
    def is_closed(self) -> bool:
        """Whether it is of no use any more."""
        return bool(self._why)

    async def call(
        self,
        method: str,
        message: bytes,
        client_id: str,
        *,
        wait_s: float = ANSWER_SECONDS,
        deadline_ms: int | None = None,
        is_packed: bool = False,
    ) -> list[bytes]:
        """Call, and return the messages of the answer. Raises LinkFailed, CallEnded.

        `deadline_ms` is told to the node; this side has its own.
        """
        more = {} if deadline_ms is None else {"grpc-timeout": f"{deadline_ms}m"}
        more |= {"grpc-encoding": "gzip"} if is_packed else {}
        stream = self.stream(method, client_id, None, more)
        stream.say(message, is_end=True, is_packed=is_packed)
        try:
            async with asyncio.timeout(wait_s):
                await asyncio.shield(stream.ended)
        except TimeoutError as error:
            raise self.broken(f"no answer to {method}") from error
        return stream.messages

    def stream(
        self,
        method: str,
        client_id: str,
        on_message: OnMessage | None,
        more: Mapping[str, str] = NOTHING,
    ) -> GrpcStream:
        """Begin a call, with more headers, or others. Raises LinkFailed."""
        if self._why:
            raise LinkFailed(self._why)
        headers = {":method": "POST", ":scheme": "http", ":path": SERVICE + method}
        headers |= {":authority": self.address, "content-type": "application/grpc"}
        headers |= {"te": "trailers", "x-mq-language": "PYTHON", "x-mq-client-version": "5.0.0"}
        headers |= {"x-mq-client-id": client_id} if client_id else {}
        headers |= more
        try:
            stream_id = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream_id, list(headers.items()))
        except h2.exceptions.H2Error as error:
            raise self.broken(f"{method}: {error!r}") from error
        stream = self._streams[stream_id] = GrpcStream(self, stream_id, on_message)
        self._flush()
        return stream

    def send(self, stream_id: int, data: bytes, *, is_end: bool) -> None:
        """Send a part of the body of a call. Raises LinkFailed."""
        if self._why:
            raise LinkFailed(self._why)
        try:
            self._h2.send_data(stream_id, data, end_stream=is_end)
        except h2.exceptions.H2Error as error:
            raise self.broken(f"{error!r}") from error
        self._flush()

    def narrow(self, window: int) -> None:
        """Take so many bytes of each answer at a time, from here on."""
        self._h2.update_settings({_WINDOW: window})
        self._flush()

    def cancel(self, stream_id: int) -> None:
        """Reset a call."""
        self._streams.pop(stream_id, None)
        if not self._why:
            self._h2.reset_stream(stream_id, _CANCEL)
            self._flush()

    def broken(self, reason: str) -> LinkFailed:
        """Close, and return the error to raise."""
        self._end(reason)
        self._pump.cancel()
        return LinkFailed(f"{self.address}: {reason}")

    def close(self) -> None:
        """Close; again: no effect."""
        self.broken("closed here")

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data:
            self._writer.write(data)

    async def _read(self) -> None:
        try:
            while True:
                data = await self._reader.read(READ_BYTES)
                if not data:
                    raise LinkFailed("the other side has closed")  # noqa: TRY301
                for event in self._h2.receive_data(data):
                    self._heard(event)
                self._flush()
        except (OSError, h2.exceptions.H2Error, LinkFailed) as error:
            self._end(repr(error))

    def _heard(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            raise LinkFailed(f"the node goes away: {event.error_code}")
        if isinstance(event, h2.events.DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(getattr(event, "stream_id", None) or 0)
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            stream.head(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            stream.data(event.data)
        elif isinstance(event, h2.events.StreamEnded):
            del self._streams[stream.stream_id]
            stream.end()
        elif isinstance(event, h2.events.StreamReset):
            del self._streams[stream.stream_id]
            stream.over(CallEnded(-1, f"reset: {event.error_code}"))

    def _end(self, reason: str) -> None:
        if self._why:
            return
        self._why = reason
        self._writer.close()
        for stream in self._streams.values():
            stream.over(LinkFailed(f"{self.address}: {reason}"))
        self._streams.clear()


def _look_at(ended: asyncio.Future[None]) -> None:
    """Take note of how a stream ended: nobody may wait for one that stays open."""
    if not ended.cancelled():
        ended.exception()
