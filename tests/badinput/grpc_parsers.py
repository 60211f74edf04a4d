"""What reads the bytes of gRPC's clients, for the fuzzer: connections, header blocks, messages.

A connection is read by the core and by what a call does with its headers and its message; nothing
is answered. A fault that ends it counts as a refusal, as it does for its client.
"""

import random
from collections.abc import Iterator
from typing import Any

from harness.bad_input.grpc_frames import ROOTS, grpc_frame, made, wrong_body
from penstock.base.ports import Buffer
from penstock.grpc import answers
from penstock.grpc.call import MESSAGE_BYTES_MAX
from penstock.grpc.inflating import NotGzip, TooLarge, inflate
from penstock.grpc.metadata import is_grpc, read_head
from penstock.http2.connection import ServerConnection
from penstock.http2.hpack import Header, HeaderDecoder, encode_headers
from penstock.http2.limits import Http2Limits
from penstock.http2.stream import Stream
from penstock.protobuf.codec import decode, encode
from penstock.protobuf.errors import MalformedMessage

_KINDS = tuple(ROOTS.values())


class _Calls:
    """Takes requests, and reads what they say."""

    def __init__(self) -> None:
        self.core: ServerConnection | None = None
        self._bodies: dict[int, tuple[str, bytearray]] = {}

    def on_request(self, stream: Stream, headers: list[Header]) -> None:
        if is_grpc(headers):
            self._bodies[stream.stream_id] = (read_head(headers).method, bytearray())

    def on_data(self, stream: Stream, data: Buffer) -> None:
        assert self.core is not None
        self.core.consume(stream, len(data))
        if stream.stream_id in self._bodies:
            self._bodies[stream.stream_id][1].extend(data)

    def on_end(self, stream: Stream) -> None:
        method, body = self._bodies.pop(stream.stream_id, ("", bytearray()))
        if len(body) < answers.PREFIX_BYTES or method not in ROOTS:
            return
        flag, size = answers.read_prefix(body)
        message = bytes(body[answers.PREFIX_BYTES :][:size])
        try:
            decode(ROOTS[method], inflate(message, MESSAGE_BYTES_MAX) if flag else message)
        except (NotGzip, TooLarge) as error:
            raise MalformedMessage(str(error)) from error

    def on_gone(self, stream: Stream) -> None:
        self._bodies.pop(stream.stream_id, None)


def connection(data: bytes) -> None:
    """Feed a connection, as much at a time as it may be fed. Raises PlatformError."""
    calls = _Calls()
    core = calls.core = ServerConnection(calls, Http2Limits(), lambda: 1_000)
    for at in range(0, len(data), 1_000):
        core.feed(data[at : at + 1_000])
        while core.handle(lambda: False):
            pass
        core.take_output()
        assert core.held_bytes <= 64 << 20
    if core.fault is not None:
        raise core.fault


def connections(rng: random.Random) -> Iterator[bytes]:
    """Yield the bytes of some connections, good ones among them."""
    for number in range(60):
        data = grpc_frame(rng.randrange(1 << 20), number).data
        if len(data) < 4_096:
            yield data


def header_block(data: bytes) -> None:
    """Read two blocks, so that the second one has a table; what was read is written and read."""
    decoder = HeaderDecoder(16_384)
    half = data[0] * len(data) // 256 if data else 0
    for block in (data[1 : 1 + half], data[1 + half :]):
        headers = decoder.decode(block)
        assert HeaderDecoder(16_384).decode(encode_headers(headers)) == headers


def header_blocks(rng: random.Random) -> Iterator[bytes]:
    """Yield pairs of blocks, with where the first ends."""
    for _ in range(20):
        headers = [(b":path", b"/a"), (b"te", rng.randbytes(4)), (b"n", b"v" * rng.randrange(90))]
        block = encode_headers(headers)
        yield b"\x80" + b"\x40" + block[1:] + block
        yield b"\0" + block


def protobuf(data: bytes) -> None:
    """The first byte says which message; what was read is written, and read as the same."""
    kind = _KINDS[data[0] % len(_KINDS)] if data else _KINDS[0]
    read: Any = decode(kind, data[1:])
    assert encode(decode(kind, encode(read))) == encode(read)  # NaN is not equal to itself


def protobufs(rng: random.Random) -> Iterator[bytes]:
    """Yield messages of each kind, and what is none."""
    for which, kind in enumerate(_KINDS):
        for _ in range(12):
            yield bytes((which,)) + encode(made(kind, rng))
            body = wrong_body(rng)
            if len(body) < 2_000:
                yield bytes((which,)) + body
