"""A connection in the test's hand: its client is h2, or bytes that no client would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import h2.config
import h2.connection
import h2.events

from penstock.base.ports import Buffer
from penstock.http2.codes import PREFACE, FrameType
from penstock.http2.connection import ServerConnection
from penstock.http2.frames import frame, settings_frame
from penstock.http2.hpack import Header, encode_headers
from penstock.http2.limits import Http2Limits
from penstock.http2.stream import Stream

REQUEST: list[Header] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a"),
    (b":authority", b"x"),
]
OK = encode_headers([(b":status", b"200")])
TRAILERS = encode_headers([(b"grpc-status", b"0")])
HELLO = PREFACE + settings_frame(())


def always() -> bool:
    return True


class Recorder:
    """Events as they come; `consumes` returns what has come at once."""

    def __init__(self) -> None:
        self.headers: dict[int, list[Header]] = {}
        self.bodies: dict[int, bytearray] = {}
        self.ended: list[int] = []
        self.gone: list[int] = []
        self.streams: dict[int, Stream] = {}

    def on_request(self, stream: Stream, headers: list[Header]) -> None:
        self.headers[stream.stream_id] = headers
        self.bodies[stream.stream_id] = bytearray()
        self.streams[stream.stream_id] = stream

    def on_data(self, stream: Stream, data: Buffer) -> None:
        self.bodies[stream.stream_id] += data

    def on_end(self, stream: Stream) -> None:
        self.ended.append(stream.stream_id)

    def on_gone(self, stream: Stream) -> None:
        self.gone.append(stream.stream_id)


class Served:
    """The server's side, with time that the test sets."""

    def __init__(self, limits: Http2Limits | None = None) -> None:
        self.now_ms = 1_000_000
        self.events = Recorder()
        self.core = ServerConnection(self.events, limits or Http2Limits(), lambda: self.now_ms)

    def take(self, data: bytes) -> bytes:
        """Feed bytes; return what is to be written."""
        self.core.feed(data)
        assert not self.core.handle(always)
        return self.core.take_output()

    def answer(self, stream_id: int, body: bytes) -> None:
        stream = self.events.streams[stream_id]
        self.core.answer(stream, OK)
        self.core.send(stream, body)
        self.core.end(stream, TRAILERS)

    def fault(self) -> str | None:
        """The code of the fault by which the connection has ended."""
        return None if self.core.fault is None else self.core.fault.code.name


class Client:
    """h2 as the client of a Served: what it says and hears goes through `exchange`."""

    def __init__(self, served: Served) -> None:
        self.served = served
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.events: list[Any] = []
        self.exchange()

    def exchange(self) -> list[Any]:
        """Let both sides say what they have to say, until neither has more."""
        while True:
            said = self.h2.data_to_send()
            heard = self.served.take(said)
            if not heard and not said:
                return self.events
            self.events += self.h2.receive_data(heard)

    def request(
        self, stream_id: int, body: bytes = b"", headers: Sequence[Header] = REQUEST
    ) -> None:
        """Send a whole request, as windows permit."""
        self.h2.send_headers(stream_id, headers, end_stream=not body)
        self.exchange()
        while body:
            size = min(
                len(body),
                self.h2.local_flow_control_window(stream_id),
                self.h2.max_outbound_frame_size,
            )
            assert size, "the window does not open"
            self.h2.send_data(stream_id, body[:size], end_stream=size == len(body))
            body = body[size:]
            self.exchange()

    def data(self, stream_id: int) -> bytes:
        """What has come of an answer."""
        return b"".join(
            one.data
            for one in self.events
            if isinstance(one, h2.events.DataReceived) and one.stream_id == stream_id
        )

    def has_ended(self, stream_id: int) -> bool:
        return any(
            isinstance(one, h2.events.StreamEnded) and one.stream_id == stream_id
            for one in self.events
        )


def headers_frame(stream_id: int, flags: int, headers: list[Header] | None = None) -> bytes:
    block = encode_headers(REQUEST if headers is None else headers)
    return frame(FrameType.HEADERS, flags, stream_id, block)
