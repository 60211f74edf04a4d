"""Bad requests for the port of gRPC clients: each is the bytes of one connection, preface included.

    start       no HTTP/2, or a preface that is cut or wrong
    frame       a length, a kind, a stream or flags that can not be; padding; half a frame
    settings    values that are not permitted, windows that overflow or widen by nothing
    block       header blocks that are cut, refer to nothing, have numbers without end, grow
    headers     names, order, paths, methods, encodings and deadlines that no call has
    message     the five bytes before a message lie, or gzip does
    body        bytes of protobuf that are cut, flipped, nested, endless, or have a million fields
    call        good ones, some at a time, so that the rest of the path is met

Behind most of them the sender asks with a PING whether the connection lives (grpc_sender.py).

Source: RFC 9113, RFC 7541, gRPC over HTTP/2, the encoding page of Protocol Buffers.
"""

import gzip
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from harness.bad_input.frame import BadFrame, random_of
from penstock.grpc.methods.table import METHODS
from penstock.grpc.proto import messages
from penstock.http2.codes import PREFACE, FrameType
from penstock.http2.frames import settings_frame
from penstock.http2.hpack import Header, encode_headers
from penstock.protobuf.codec import _FIELDS, Declared, Kind, encode

SERVICE = b"/apache.rocketmq.v2.MessagingService/"
ROOTS = {
    "SendMessage": messages.SendMessageRequest,
    "QueryRoute": messages.QueryRouteRequest,
    "Heartbeat": messages.HeartbeatRequest,
    "Telemetry": messages.TelemetryCommand,
}
TOPIC = "bad-grpc"
_KINDS = tuple(FrameType)
_DATA, _HEADERS = FrameType.DATA, FrameType.HEADERS
_END_STREAM, _END_HEADERS = 1, 4
_BOMBS = tuple(gzip.compress(bytes(size)) for size in (1 << 20, 8 << 20))
_ZEROS = gzip.compress(bytes(9_000))
_WRONG_NUMBERS = (0, 1, 2**16, 2**24 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_TEXTS = ("", "t", TOPIC, "%RETRY%g", "__consumer_offsets", "a/b", "\u00fc" * 40, "\0", "x" * 300)


def grpc_frame(seed: int, number: int) -> BadFrame:
    """Return what to send over one connection."""
    rng = random_of(seed, number)
    kind = rng.choice(sorted(_ALL))
    data = _ALL[kind](rng)
    return BadFrame(f"grpc {kind}", "grpc", data, rng.randrange(200) == 0, seed, number)


def grpc_frames(seed: int, count: int, first: int = 0) -> Iterator[BadFrame]:
    """Yield frames `first` to `first + count` of a seed."""
    return (grpc_frame(seed, number) for number in range(first, first + count))


# --- parts ---------------------------------------------------------------------------------------


def raw_frame(kind: int, flags: int, stream_id: int, payload: bytes, length: int = -1) -> bytes:
    """Return a frame whose head may lie."""
    size = len(payload) if length < 0 else length
    head = struct.pack(">HBBBI", size >> 8 & 0xFFFF, size & 255, kind, flags, stream_id)
    return head + payload


def _begun(*frames: bytes) -> bytes:
    return PREFACE + settings_frame(()) + b"".join(frames)


def _heads(path: bytes = SERVICE + b"Heartbeat", **more: bytes) -> list[Header]:
    heads = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x")]
    heads += [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
    heads += [(name.replace("_", "-").encode(), value) for name, value in more.items()]
    return [*heads, (b"x-mq-client-id", b"bad")]


def _request(stream_id: int, block: bytes, body: bytes) -> bytes:
    frames = raw_frame(_HEADERS, _END_HEADERS, stream_id, block)
    for at in range(0, len(body), 16_384):
        frames += raw_frame(_DATA, 0, stream_id, body[at : at + 16_384])
    return frames + raw_frame(_DATA, _END_STREAM, stream_id, b"")


def prefixed(message: bytes, flag: int = 0, size: int = -1) -> bytes:
    """Return a message with the five bytes before it, which may lie."""
    told = len(message) if size < 0 else size
    return struct.pack(">BI", flag, told) + message


def made(kind: type[Any], rng: random.Random, depth: int = 0) -> Any:
    """Return any message of a kind."""
    values = {}
    for declared in _FIELDS[kind].values():
        if rng.random() < (0.6 if depth else 0.9):
            count = rng.choice((0, 1, 1, 3)) if declared.is_repeated else 1
            several = tuple(_value(declared, rng, depth) for _ in range(count))
            values[declared.name] = several if declared.is_repeated else several[0]
    return kind(**values)


def _value(declared: Declared, rng: random.Random, depth: int) -> Any:
    if declared.kind is Kind.INT:
        return rng.choice((0, 1, 2, 3, -1, 99, 2**31 - 1, 2**62))
    if declared.kind is Kind.FLOAT:
        return rng.choice((0.0, 1.5, -1.0))
    if declared.kind is Kind.TEXT:
        return rng.choice(_TEXTS)
    if declared.kind is Kind.BYTES:
        return rng.choice((b"", b"body", rng.randbytes(400), _ZEROS))
    assert declared.of is not None
    return made(declared.of, rng, depth + 1)


def _valid_send(rng: random.Random) -> bytes:
    system = messages.SystemProperties(message_id=f"id{rng.randrange(9)}", message_type=1)
    one = messages.Message(
        topic=messages.Resource(name=TOPIC), system_properties=system, body=rng.randbytes(40)
    )
    return encode(messages.SendMessageRequest(messages=(one,) * rng.choice((1, 1, 5))))


def _call(rng: random.Random, stream_id: int = 1) -> bytes:
    """A call that is whole, whatever its fields say."""
    name = rng.choice(sorted(ROOTS))
    body = _valid_send(rng) if rng.randrange(3) == 0 else encode(made(ROOTS[name], rng))
    path = SERVICE + (b"SendMessage" if rng.randrange(3) == 0 else name.encode())
    return _request(stream_id, encode_headers(_heads(path)), prefixed(body))


def varint(value: int) -> bytes:
    """Return a number of protobuf."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, data: bytes) -> bytes:
    """Return a field of protobuf with a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


# --- what is wrong -------------------------------------------------------------------------------


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 9))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _wrong_frame(rng: random.Random) -> bytes:
    kind = rng.choice((*_KINDS, 10, 255))
    payload = rng.randbytes(rng.choice((0, 1, 4, 5, 6, 8, 9, 40)))
    stream_id = rng.choice((0, 1, 2, 3, 7, 2**31 - 1, 2**31 + 1))
    before = _call(rng) if rng.randrange(2) else b""
    return _begun(before, raw_frame(kind, rng.randrange(256), stream_id, payload))


def _wrong_length(rng: random.Random) -> bytes:
    length = rng.choice((16_385, 2**20, 2**24 - 1))
    return _begun(raw_frame(rng.choice(_KINDS), 0, rng.choice((0, 1)), bytes(20), length))


def _padding(rng: random.Random) -> bytes:
    block = encode_headers(_heads())
    pad = rng.choice((0, 1, 200, 255))
    payload = bytes((pad,)) + block + bytes(rng.choice((0, 1, pad)))
    return _begun(raw_frame(rng.choice((_HEADERS, _DATA)), 8 | _END_HEADERS, 1, payload))


def _interleaved(rng: random.Random) -> bytes:
    """A header block that something else breaks, or that goes on for ever."""
    block = encode_headers(_heads())
    half = raw_frame(_HEADERS, 0, 1, block[:9])
    other = raw_frame(rng.choice(_KINDS), 0, rng.choice((0, 1, 3)), rng.randbytes(8))
    on = raw_frame(FrameType.CONTINUATION, 0, 1, rng.choice((b"", b"\0" * 90, block[9:])))
    return _begun(half, rng.choice((other, on * 40, on + other, on * 3 + on[:20])))


def _streams(rng: random.Random) -> bytes:
    """Streams that are closed, go back, are even, or are more than permitted."""
    ids = rng.choice(((3, 1), (2,), (1, 1), (2**31 - 1, 1), tuple(range(1, 700, 2))))
    block = encode_headers(_heads())
    frames = [raw_frame(_HEADERS, _END_HEADERS, one, block) for one in ids]
    resets = [raw_frame(FrameType.RST_STREAM, 0, one, bytes(4)) for one in ids]
    return _begun(*frames, *(resets if rng.randrange(2) else ()))


def _windows(rng: random.Random) -> bytes:
    size = struct.pack(">I", rng.choice(_WRONG_NUMBERS) & 0xFFFFFFFF)
    window = raw_frame(FrameType.WINDOW_UPDATE, 0, rng.choice((0, 1, 9)), size)
    return _begun(_call(rng), window * rng.choice((1, 2, 50)))


def _settings(rng: random.Random) -> bytes:
    pairs = [
        struct.pack(">HI", rng.choice((0, 1, 2, 3, 4, 5, 6, 99)), rng.choice(_WRONG_NUMBERS))
        for _ in range(rng.choice((1, 2, 30)))
    ]
    payload = b"".join(pairs) + bytes(rng.choice((0, 0, 0, 1)))
    return PREFACE + raw_frame(FrameType.SETTINGS, rng.choice((0, 0, 1)), 0, payload) + _call(rng)


def _block(rng: random.Random) -> bytes:
    large = b"\x40" + b"\x01a" + b"\x7f\x80\x1f" + bytes(4_000)
    blocks: tuple[bytes, ...] = (
        rng.randbytes(rng.choice((1, 8, 60, 900))),
        _cut(encode_headers(_heads()), rng),
        _flipped(encode_headers(_heads()), rng),
        bytes((0x80 | rng.choice((0, 62, 100, 126)),)),
        b"\xff" * rng.choice((2, 6, 300)),
        b"\x3f\xe1\xff\xff\x07" + encode_headers(_heads()),
        b"\x20" * 5 + encode_headers(_heads()),
        large + b"\xbe" * 3_000,
        b"\x00\x81\xff\x00",
        encode_headers([*_heads(), *[(b"n%d" % one, b"v" * 60) for one in range(300)]]),
    )
    return _begun(raw_frame(_HEADERS, _END_HEADERS | _END_STREAM, 1, rng.choice(blocks)))


def _headers(rng: random.Random) -> bytes:
    heads = _heads(
        rng.choice((SERVICE, SERVICE + b"Nothing", b"/", b"*", b"", b"/x.Y/Z", SERVICE + b"\xff"))
        if rng.randrange(2)
        else SERVICE + rng.choice(METHODS).name.encode(),
        grpc_timeout=rng.choice((b"1S", b"0n", b"", b"99999999H", b"-1S", b"123456789m", b"1x")),
        grpc_encoding=rng.choice((b"gzip", b"identity", b"br", b"", b"\xff")),
    )
    wrong = (
        (b"Upper", b"x"),
        (b":path", b"/twice"),
        (b":unknown", b"x"),
        (b"connection", b"close"),
        (b"te", b"gzip"),
        (b"", b"x"),
        (b"a b", b"x"),
        (b"line", b"a\r\nb"),
        (b"x-mq-client-id", b"\xff" * 300),
    )
    for _ in range(rng.choice((0, 1, 2))):
        heads.insert(rng.randrange(len(heads) + 1), rng.choice(wrong))
    for _ in range(rng.choice((0, 0, 1))):
        del heads[rng.randrange(len(heads))]
    return _begun(_request(1, encode_headers(heads), prefixed(_valid_send(rng))))


def _message(rng: random.Random) -> bytes:
    good = _valid_send(rng)
    bomb = rng.choice(_BOMBS)
    encoding = rng.choice((b"gzip", b"identity"))
    body = rng.choice(
        (
            prefixed(good, rng.choice((0, 1, 2, 255))),
            prefixed(good, 0, rng.choice((0, 1, 2**20, 2**31, 2**32 - 1))),
            prefixed(good) * rng.choice((2, 30)),
            prefixed(bomb, 1),
            prefixed(_flipped(gzip.compress(good), rng), 1),
            prefixed(gzip.compress(good) * 2, 1),
            prefixed(b"", 0) * rng.choice((1, 3_000)),
            prefixed(good)[: rng.randrange(5)],
            b"",
        )
    )
    path = SERVICE + rng.choice((b"SendMessage", b"Telemetry", b"Heartbeat"))
    return _begun(_request(1, encode_headers(_heads(path, grpc_encoding=encoding)), body))


def wrong_body(rng: random.Random) -> bytes:
    """Return bytes that are no message of protobuf, or a strange one."""
    good = rng.choice((_valid_send(rng), encode(made(ROOTS[rng.choice(sorted(ROOTS))], rng))))
    nested = b""
    for _ in range(rng.choice((2, 60))):
        nested = field(1, nested)
    packed = field(5, _BOMBS[0]) + field(3, field(9, b"id") + bytes((0x50, 1)))
    return rng.choice(
        (
            _cut(good or b"\0", rng),
            _flipped(good or b"\0", rng),
            rng.randbytes(rng.choice((1, 9, 200))),
            nested,
            field(1, b"\x78\x01" * 2_000) * rng.choice((1, 40)),
            field(1, field(2, b"") * 1_000) * 30,
            field(1, packed) * rng.choice((1, 100)),
            b"\x0a" + b"\xff" * 12,
            b"\x0b\x0c" * 3,
            field(1, field(1, field(2, b"\xff\xfe"))),
            good + varint((1 << 29) << 3),
            good * 200,
        )
    )


def _body(rng: random.Random) -> bytes:
    path = SERVICE + rng.choice(METHODS).name.encode()
    return _begun(_request(1, encode_headers(_heads(path)), prefixed(wrong_body(rng))))


def _unended(rng: random.Random) -> bytes:
    """Calls that never end: half a block, half a body, a stream that stays open."""
    block = encode_headers(_heads(SERVICE + rng.choice((b"Telemetry", b"SendMessage"))))
    half = prefixed(_valid_send(rng))[: rng.choice((0, 3, 5, 9))]
    opened = [
        raw_frame(_HEADERS, _END_HEADERS, stream_id, block) + raw_frame(_DATA, 0, stream_id, half)
        for stream_id in range(1, rng.choice((3, 100)), 2)
    ]
    return _begun(*opened)


def _floods(rng: random.Random) -> bytes:
    each = rng.choice(
        (
            raw_frame(FrameType.PING, 0, 0, bytes(8)),
            settings_frame(()),
            raw_frame(FrameType.PRIORITY, 0, 1, bytes(5)),
            raw_frame(_DATA, 0, 1, b""),
            raw_frame(FrameType.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
            raw_frame(77, 0, 0, b"x"),
        )
    )
    return _begun(_call(rng), each * rng.choice((10, 3_000)))


_ALL: dict[str, Callable[[random.Random], bytes]] = {
    "start noise": lambda rng: rng.randbytes(rng.choice((1, 24, 400))),
    "start cut": lambda rng: PREFACE[: rng.randrange(len(PREFACE))],
    "start flipped": lambda rng: _flipped(PREFACE, rng) + settings_frame(()),
    "start http": lambda _: b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n",
    "start tls": lambda rng: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500),
    "start kafka": lambda _: struct.pack(">ihhih", 10, 18, 0, 1, -1),
    "start without settings": lambda rng: PREFACE + _call(rng),
    "frame": _wrong_frame,
    "frame length": _wrong_length,
    "frame padding": _padding,
    "frame half": lambda rng: _cut(_begun(_call(rng)), rng),
    "frame flipped": lambda rng: _begun(_flipped(_call(rng), rng)),
    "frame interleaved": _interleaved,
    "frame streams": _streams,
    "frame windows": _windows,
    "frame floods": _floods,
    "settings": _settings,
    "block": _block,
    "headers": _headers,
    "message": _message,
    "body": _body,
    "call": lambda rng: _begun(*(_call(rng, one) for one in range(1, rng.choice((3, 9)), 2))),
    "call unended": _unended,
}
