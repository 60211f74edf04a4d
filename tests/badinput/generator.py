"""A seeded stream of bad frames: valid requests of every key and version with one thing wrong.

    cut                 the body ends anywhere
    length              a length or count is -2, -1, 0, 1, one too many, 2^15 - 1, 2^31 - 1
    varint              a length is a varint of too many bytes, or not in its shortest form
    text                a string is not UTF-8
    tags                unknown, repeated, too many, too long tagged fields
    batch ...           a record batch is wrong (batches.py), bombs among them
    key, version        out of range
    answer as request   the bytes of an answer
    tls, http, noise    other protocols and random bytes
    size                the frame's own size field is wrong
    half                the frame never ends
    pipelined           good requests with a bad one behind them
    valid               nothing is wrong, and perhaps sent byte by byte

Source: the bad-input programme of our reliability notes; table 5.4 there.
"""

import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_response
from penstock.protocol.schema import response_schema
from penstock.protocol.varint import uvarint
from tests.badinput.batches import wrong_batch
from tests.badinput.grammar import Mark, MarkedRequest, MarkKind, marked_request
from tests.protocol.advertised import ADVERTISED, EVERY_VERSION
from tests.protocol.plain import plain_fields


class BadFrame(NamedTuple):
    """Bytes to send over one connection; `is_slow` asks for one byte at a time."""

    name: str
    data: bytes
    is_slow: bool = False


def bad_frames(seed: int, count: int) -> Iterator[BadFrame]:
    """Yield `count` frames; the same seed gives the same frames.

    Keys and versions take turns, so that a few hundred frames touch them all.
    """
    rng = random.Random(seed)
    kinds = sorted(_KINDS)
    for number in range(count):
        key, version = EVERY_VERSION[number % len(EVERY_VERSION)]
        kind = rng.choice(kinds)
        if kind.startswith("batch"):
            key, version = ApiKey.PRODUCE, rng.choice(ADVERTISED[ApiKey.PRODUCE])
        name, data, is_slow = _KINDS[kind](key, version, rng)
        yield BadFrame(f"{name}: {key.name} v{version}", data, is_slow)


Made = tuple[str, bytes, bool]


def framed(frame: bytes | bytearray) -> bytes:
    """The frame with its right size before it."""
    return struct.pack(">i", len(frame)) + frame


def valid_frame(key: ApiKey, version: int, rng: random.Random) -> bytes:
    """A frame with nothing wrong."""
    return framed(marked_request(key, version, rng).frame)


def _valid(key: ApiKey, version: int, rng: random.Random) -> Made:
    return "valid", valid_frame(key, version, rng), rng.random() < 0.2


def _cut(key: ApiKey, version: int, rng: random.Random) -> Made:
    frame = marked_request(key, version, rng).frame
    return "cut", framed(frame[: rng.randrange(len(frame))]), False


def _length(key: ApiKey, version: int, rng: random.Random) -> Made:
    request = marked_request(key, version, rng)
    marks = request.of(MarkKind.LENGTH)
    if not marks:
        return _cut(key, version, rng)
    mark = rng.choice(marks)
    left = len(request.frame) - mark.end
    value = rng.choice((-2, -1, 0, 1, left, left + 1, left + 2, 2**15 - 1, 2**15, 2**31 - 1))
    return "length", framed(_replace(request, mark, _encoded_length(mark, value))), False


def _encoded_length(mark: Mark, value: int) -> bytes:
    if mark.is_compact:
        return _long_varint((value + 1) & 0xFFFFFFFF)
    size = mark.end - mark.start
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "big")


def _long_varint(value: int) -> bytes:
    """Like `uvarint`, also above 2^31."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _replace(request: MarkedRequest, mark: Mark, data: bytes) -> bytes:
    return bytes(request.frame[: mark.start]) + data + bytes(request.frame[mark.end :])


def _varint(key: ApiKey, version: int, rng: random.Random) -> Made:
    request = marked_request(key, version, rng)
    marks = [mark for mark in request.marks if mark.is_compact]
    if not marks:
        return _length(key, version, rng)
    mark = rng.choice(marks)
    first = request.frame[mark.start]
    wrong = rng.choice(
        (b"\xff" * 10, b"\x80" * 9 + b"\x01", bytes((first | 0x80, 0x00)), b"\xff\xff\xff\xff\x7f")
    )
    return "varint", framed(_replace(request, mark, wrong)), False


def _text(key: ApiKey, version: int, rng: random.Random) -> Made:
    for _ in range(5):
        request = marked_request(key, version, rng)
        marks = request.of(MarkKind.TEXT)
        if marks:
            mark = rng.choice(marks)
            bad = rng.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0"))
            wrong = (bad * (mark.end - mark.start))[: mark.end - mark.start]
            return "text", framed(_replace(request, mark, wrong)), False
    return _noise(key, version, rng)


def _tags(key: ApiKey, version: int, rng: random.Random) -> Made:
    request = marked_request(key, version, rng)
    marks = request.of(MarkKind.TAGS)
    if not marks:
        return _length(key, version, rng)
    wrong = rng.choice(
        (
            b"\x01\x63\x03abc",
            b"\x02\x00\x01\x00\x00\x01\x00",
            uvarint(65) + b"\x63\x00" * 65,
            uvarint(10_000) + b"\x63\x00" * 10_000,
            b"\xff\xff\xff\xff\x07",
            b"\x01\x00" + uvarint(1 << 20),
            b"\x01\x00\x00",
            b"\x01\x01\x02\xff\xff",
        )
    )
    return "tags", framed(_replace(request, rng.choice(marks), wrong)), False


def _batch(key: ApiKey, version: int, rng: random.Random) -> Made:
    for _ in range(20):
        request = marked_request(key, version, rng)
        marks = request.of(MarkKind.RECORDS)
        if marks:
            mark = marks[-1]
            name, batch = wrong_batch(rng)
            length = next(one for one in request.marks if one.end == mark.start)
            frame = bytearray(_replace(request, mark, batch))
            frame[length.start : length.end] = _encoded_length(length, len(batch))
            return name, framed(frame), False
    return _length(key, version, rng)


def _range(key: ApiKey, version: int, rng: random.Random) -> Made:
    frame = marked_request(key, version, rng).frame
    wrong_key = rng.choice((int(key), -1, 4, 7, 52, 93, 999, 32_767, -32_768))
    wrong_version = rng.choice((-1, -32_768, 32_767, ADVERTISED[key].stop, 99))
    struct.pack_into(">hh", frame, 0, wrong_key, wrong_version)
    return "key or version", framed(frame), False


def _answer(key: ApiKey, version: int, rng: random.Random) -> Made:
    body = encode_response(key, version, plain_fields(response_schema(key, version), rng))
    head = request_header(key, version, correlation_id=1, client_id="bad-input")
    start = rng.choice((head, struct.pack(">i", rng.randrange(1 << 31))))
    return "answer as request", framed(start + body), False


def _other(key: ApiKey, version: int, rng: random.Random) -> Made:
    return rng.choice(
        (
            ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500), False),
            ("http", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", False),
            ("http", b"POST /topics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", False),
        )
    )


def _noise(key: ApiKey, version: int, rng: random.Random) -> Made:
    request = marked_request(key, version, rng)
    frame = request.frame
    if rng.random() < 0.3:
        return "noise", framed(rng.randbytes(rng.choice((10, 40, 3000)))), False
    for _ in range(rng.choice((1, 2, 8))):
        frame[rng.randrange(len(frame))] = rng.randrange(256)
    return "noise", framed(frame), False


def _size(key: ApiKey, version: int, rng: random.Random) -> Made:
    frame = marked_request(key, version, rng).frame
    size = rng.choice((-(2**31), -1, 0, 1, 9, len(frame) - 1, 1 << 25, 2**31 - 1))
    return "size", struct.pack(">i", size) + frame, False


def _half(key: ApiKey, version: int, rng: random.Random) -> Made:
    data = valid_frame(key, version, rng)
    return "half", data[: rng.randrange(1, len(data))], False


def _pipelined(key: ApiKey, version: int, rng: random.Random) -> Made:
    ask = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 5, -1)
    name, bad, _ = rng.choice((_cut, _length, _range, _size))(key, version, rng)
    return f"pipelined {name}", framed(ask) * rng.choice((1, 20, 200)) + bad, False


_KINDS = {
    "answer as request": _answer,
    "batch 1": _batch,
    "batch 2": _batch,
    "cut": _cut,
    "half": _half,
    "length 1": _length,
    "length 2": _length,
    "length 3": _length,
    "noise": _noise,
    "other": _other,
    "pipelined": _pipelined,
    "range": _range,
    "size": _size,
    "tags": _tags,
    "text": _text,
    "valid": _valid,
    "varint": _varint,
}
