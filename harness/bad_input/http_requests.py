"""Bad requests for the HTTP port: each is one connection's bytes."""

import random
from collections.abc import Iterator

from harness.bad_input.frame import BadFrame, random_of

_GOOD = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"
_CHUNKED = b"POST / HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n"
_HEAD = b"GET /health HTTP/1.1\r\nHost: node\r\n"

_FIXED: dict[str, bytes] = {
    "no such path": b"GET /nothing HTTP/1.1\r\nHost: node\r\n\r\n",
    "path upwards": b"GET /../../etc/passwd HTTP/1.1\r\nHost: node\r\n\r\n",
    "absolute target": b"GET http://elsewhere/metrics HTTP/1.1\r\nHost: node\r\n\r\n",
    "target of bytes": b"GET /\x80\xff\x00 HTTP/1.1\r\nHost: node\r\n\r\n",
    "no host": b"GET /metrics HTTP/1.1\r\n\r\n",
    "method": b"DELETE /metrics HTTP/1.1\r\nHost: node\r\n\r\n",
    "method of letters": b"x" * 5_000 + b" /metrics HTTP/1.1\r\n\r\n",
    "version 9": b"GET /metrics HTTP/9.9\r\nHost: node\r\n\r\n",
    "http 0.9": b"GET /metrics\r\n\r\n",
    "http 2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "long header": _HEAD + b"X-Long: " + b"a" * 20_000 + b"\r\n\r\n",
    "many headers": _HEAD + b"X-Many: 1\r\n" * 5_000 + b"\r\n",
    "header without end": _HEAD + b"X-Half: a",
    "header without colon": _HEAD + b"nothing\r\n\r\n",
    "header of bytes": _HEAD + b"X-\x00\xff: \x00\r\n\r\n",
    "folded header": _HEAD + b"X-Folded: a\r\n b\r\n c\r\n\r\n",
    "two lengths": _HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length below zero": _HEAD + b"Content-Length: -1\r\n\r\n",
    "length beyond all": _HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
    "length and chunks": _HEAD
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk beyond all": _CHUNKED + b"FFFFFFFFF\r\n",
    "chunk of words": _CHUNKED + b"xyz\r\n",
    "expects": _HEAD + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    "upgrade": _HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "pipelined": _GOOD * 50,
    "behind the end": _GOOD + b"\x00\xff" * 2_000,
    "line feeds": b"\n" * 20_000,
    "kafka request": b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
}
_NAMES = sorted(_FIXED)


def http_frame(seed: int, number: int) -> BadFrame:
    """Return what to send over one connection."""
    rng = random_of(seed, number)
    name = rng.choice((*_NAMES, "noise", "cut", "flipped"))
    data = _FIXED.get(name) or _mutated(name, rng)
    return BadFrame(f"http {name}", "http", data, rng.randrange(100) == 0, seed, number)


def http_frames(seed: int, count: int, first: int = 0) -> Iterator[BadFrame]:
    """Yield frames `first` to `first + count` of a seed."""
    for number in range(first, first + count):
        yield http_frame(seed, number)


def _mutated(name: str, rng: random.Random) -> bytes:
    if name == "noise":
        return rng.randbytes(rng.choice((1, 40, 3_000, 30_000)))
    data = bytearray(_FIXED[rng.choice(_NAMES)])
    if name == "cut":
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.choice((1, 3, 9))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)
