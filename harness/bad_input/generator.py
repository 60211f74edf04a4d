"""A seeded stream of bad frames: valid requests of every key and version with one thing wrong.

    cut                 the body ends anywhere
    length, count       a length is one of `WRONG_LENGTHS`, or one more or less than it should be
    varint              a length is a varint of too many bytes, or not in its shortest form
    text                a string is not UTF-8
    tags                unknown, repeated, too many, too long tagged fields
    trailing            bytes behind the last field
    batch ...           a record batch is wrong (batches.py), bombs among them
    key, version        out of range
    answer as request   the bytes of an answer
    same correlation    requests that go by one correlation id
    tls, http, noise    other protocols and random bytes
    size                the frame's own size field is wrong
    half                the frame never ends
    pipelined           good requests with a bad one behind them
    valid               nothing is wrong

One in two hundred is sent byte by byte. sweeps.py has what should rather be tried without gaps.

Source: the bad-input programme of our reliability notes; table 5.4 there.
"""

import random
import struct
from collections.abc import Iterator

from harness.advertised import ADVERTISED, EVERY_VERSION
from harness.bad_input.batches import wrong_batch
from harness.bad_input.frame import BadFrame, framed, random_of
from harness.bad_input.grammar import Mark, MarkedRequest, MarkKind, marked_request
from harness.plain import plain_fields
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_response
from penstock.protocol.schema import response_schema
from penstock.protocol.varint import uvarint

WRONG_LENGTHS = (-2, -1, 0, 1, 2**15 - 1, 2**15, 2**31 - 1)
SLOW_BYTES_MAX = 400
_SLOW_ONE_IN = 200
_LONG_PIPELINE = 10_000
_LONG_PIPELINE_ONE_IN = 2_000
"""Of the pipelined ones."""


def bad_frames(seed: int, count: int, first: int = 0) -> Iterator[BadFrame]:
    """Yield frames `first` to `first + count` of a seed."""
    for number in range(first, first + count):
        yield bad_frame(seed, number)


def bad_frame(seed: int, number: int) -> BadFrame:
    """Return one frame; the same seed and number give the same.

    Keys and versions take turns, so that a few hundred frames touch them all.
    """
    rng = random_of(seed, number)
    key, version = EVERY_VERSION[number % len(EVERY_VERSION)]
    make = rng.choice(_MAKERS)
    if make is _batch:
        key, version = ApiKey.PRODUCE, rng.choice(ADVERTISED[ApiKey.PRODUCE])
    kind, data = make(key, version, rng)
    is_slow = len(data) <= SLOW_BYTES_MAX and rng.randrange(_SLOW_ONE_IN) == 0
    return BadFrame(kind, f"{key.name} v{version}", data, is_slow, seed, number)


Made = tuple[str, bytes]


def valid_frame(key: ApiKey, version: int, rng: random.Random) -> bytes:
    """A frame with nothing wrong."""
    return framed(marked_request(key, version, rng).frame)


def _valid(key: ApiKey, version: int, rng: random.Random) -> Made:
    return "valid", valid_frame(key, version, rng)


def _cut(key: ApiKey, version: int, rng: random.Random) -> Made:
    frame = marked_request(key, version, rng).frame
    return "cut", framed(frame[: rng.randrange(len(frame))])


def _length(key: ApiKey, version: int, rng: random.Random) -> Made:
    request = marked_request(key, version, rng)
    marks = request.of(MarkKind.LENGTH)
    if not marks:
        return _cut(key, version, rng)
    mark = rng.choice(marks)
    return "length", framed(with_length(request, mark, rng.choice(wrong_lengths(request, mark))))


def wrong_lengths(request: MarkedRequest, mark: Mark) -> list[int]:
    """Return what a length at `mark` may wrongly be."""
    left = len(request.frame) - mark.end
    return [*WRONG_LENGTHS, left, left + 1, left + 2]


def with_length(request: MarkedRequest, mark: Mark, value: int) -> bytes:
    """Return the frame with another length at `mark`."""
    return replace(request, mark, encoded_length(mark, value))


def encoded_length(mark: Mark, value: int) -> bytes:
    """Return a length as it is written at `mark`."""
    if mark.is_compact:
        return long_varint((value + 1) & 0xFFFFFFFF)
    size = mark.end - mark.start
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "big")


def long_varint(value: int) -> bytes:
    """Like `uvarint`, also above 2^31."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def replace(request: MarkedRequest, mark: Mark, data: bytes) -> bytes:
    """Return the frame with other bytes at `mark`."""
    return bytes(request.frame[: mark.start]) + data + bytes(request.frame[mark.end :])


def _count(key: ApiKey, version: int, rng: random.Random) -> Made:
    """A length is nearly right: what follows is read as something else."""
    request = marked_request(key, version, rng)
    marks = request.of(MarkKind.LENGTH)
    if not marks:
        return _cut(key, version, rng)
    mark = rng.choice(marks)
    return "count", framed(with_length(request, mark, mark.value + rng.choice((-1, 1))))


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
    return "varint", framed(replace(request, mark, wrong))


def _text(key: ApiKey, version: int, rng: random.Random) -> Made:
    for _ in range(5):
        request = marked_request(key, version, rng)
        marks = request.of(MarkKind.TEXT)
        if marks:
            mark = rng.choice(marks)
            bad = rng.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0"))
            wrong = (bad * (mark.end - mark.start))[: mark.end - mark.start]
            return "text", framed(replace(request, mark, wrong))
    return _noise(key, version, rng)


WRONG_TAGS = (
    b"\x01\x63\x03abc",
    b"\x02\x00\x01\x00\x00\x01\x00",
    b"\x02\x05\x00\x01\x00",
    uvarint(65) + b"\x63\x00" * 65,
    uvarint(10_000) + b"\x63\x00" * 10_000,
    b"\xff\xff\xff\xff\x07",
    b"\x01\x00" + uvarint(1 << 20),
    b"\x01\x00\x00",
    b"\x01\x01\x02\xff\xff",
)
"""Unknown; one twice; out of order; too many; far too many; a count without end; a length beyond
the frame; an empty known one; a known one that holds something else."""


def _tags(key: ApiKey, version: int, rng: random.Random) -> Made:
    request = marked_request(key, version, rng)
    marks = request.of(MarkKind.TAGS)
    if not marks:
        return _length(key, version, rng)
    return "tags", framed(replace(request, rng.choice(marks), rng.choice(WRONG_TAGS)))


def _trailing(key: ApiKey, version: int, rng: random.Random) -> Made:
    frame = marked_request(key, version, rng).frame
    more = rng.choice((b"\0", b"\xff", rng.randbytes(7), bytes(frame)))
    return "trailing", framed(frame + more)


def _batch(key: ApiKey, version: int, rng: random.Random) -> Made:
    for _ in range(20):
        request = marked_request(key, version, rng)
        marks = request.of(MarkKind.RECORDS)
        if marks:
            mark = marks[-1]
            name, batch = wrong_batch(rng)
            length = next(one for one in request.marks if one.end == mark.start)
            frame = bytearray(replace(request, mark, batch))
            frame[length.start : length.end] = encoded_length(length, len(batch))
            return name, framed(frame)
    return _length(key, version, rng)


def _range(key: ApiKey, version: int, rng: random.Random) -> Made:
    frame = marked_request(key, version, rng).frame
    wrong_key = rng.choice((int(key), -1, 4, 7, 17, 36, 52, 93, 999, 32_767, -32_768))
    wrong_version = rng.choice((-1, -32_768, 32_767, ADVERTISED[key].stop, 99))
    struct.pack_into(">hh", frame, 0, wrong_key, wrong_version)
    return "key or version", framed(frame)


def _answer(key: ApiKey, version: int, rng: random.Random) -> Made:
    body = encode_response(key, version, plain_fields(response_schema(key, version), rng))
    head = request_header(key, version, correlation_id=1, client_id="bad-input")
    start = rng.choice((head, struct.pack(">i", rng.randrange(1 << 31))))
    return "answer as request", framed(start + body)


def _same_correlation(key: ApiKey, version: int, rng: random.Random) -> Made:
    frames = [marked_request(key, version, rng).frame, _ask(ApiKey.API_VERSIONS)]
    frames.append(marked_request(*rng.choice(EVERY_VERSION), rng).frame)
    for frame in frames:
        struct.pack_into(">i", frame, 4, 5)
    return "same correlation", b"".join(map(framed, frames))


def _ask(key: ApiKey) -> bytearray:
    return bytearray(struct.pack(">hhih", key, 0, 5, -1))


def _other(key: ApiKey, version: int, rng: random.Random) -> Made:
    return rng.choice(
        (
            ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500)),
            ("http", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            ("http", b"POST /topics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"),
        )
    )


def _noise(key: ApiKey, version: int, rng: random.Random) -> Made:
    request = marked_request(key, version, rng)
    frame = request.frame
    if rng.random() < 0.3:
        return "noise", framed(rng.randbytes(rng.choice((10, 40, 3000))))
    for _ in range(rng.choice((1, 2, 8))):
        frame[rng.randrange(len(frame))] = rng.randrange(256)
    return "noise", framed(frame)


def _size(key: ApiKey, version: int, rng: random.Random) -> Made:
    frame = marked_request(key, version, rng).frame
    size = rng.choice((-(2**31), -1, 0, 1, 9, len(frame) - 1, 1 << 25, 2**31 - 1))
    return "size", struct.pack(">i", size) + frame


def _half(key: ApiKey, version: int, rng: random.Random) -> Made:
    data = valid_frame(key, version, rng)
    return "half", data[: rng.randrange(1, len(data))]


def _pipelined(key: ApiKey, version: int, rng: random.Random) -> Made:
    is_long = rng.randrange(_LONG_PIPELINE_ONE_IN) == 0
    count = _LONG_PIPELINE if is_long else rng.choice((1, 5, 50))
    name, bad = rng.choice((_cut, _length, _range, _size))(key, version, rng)
    return f"pipelined {name}", framed(_ask(ApiKey.API_VERSIONS)) * count + bad


_MAKERS = (
    _answer,
    _batch,
    _batch,
    _count,
    _cut,
    _half,
    _length,
    _length,
    _length,
    _noise,
    _other,
    _pipelined,
    _range,
    _same_correlation,
    _size,
    _tags,
    _text,
    _trailing,
    _valid,
    _varint,
)
