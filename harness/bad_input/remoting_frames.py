"""Bad frames of RocketMQ's remoting protocol: each is what one connection says first.

They are made from the requests that a node serves (remoting_schemas.py): legal but for one mistake,
in a field, the header, the body, or the bytes. So most of them come as far as a handler.
"""

import random
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from harness.bad_input.frame import BadFrame, random_of
from harness.bad_input.remoting_schemas import SCHEMAS, bombs, largest_request, legal_request
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import encode_frame

BINARY_MAX: Final = (1 << 15) - 1
"""The highest code that a binary header has room for."""
FIRST_OPAQUE: Final = 1_000
WRONG_VALUES: Final = (
    *("", " ", "-1", "0", "2147483648", "9223372036854775807", "9223372036854775808", "9" * 40),
    *("1e3", "0x10", "true", "null", "\0", "\1", "\2", "a\1b\2", "%RETRY%g", "TBW102", "*"),
    *("set-", "set-99999999999", "é" * 300, "x" * 300, "../..", "٣", "1_000"),
)
_WORDS: Final = (0, 1, 0xFF, 0xFFFF, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x02000010)
_HEADERS: Final = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b'{"code":"10"}',
    b'{"code":1e99}',
    b'{"code":99999999999}',
    b'{"code":10,"extFields":[]}',
    b'{"code":10,"extFields":{"a":{}}}',
    b'{"code":10,"flag":-1}',
    b'{"code":10,"opaque":1,"opaque":2}',
    b'{"code":10,"remark":"\xff\xfe"}',
    b"[" * 60_000,
    b'{"code":10,"extFields":{"a":"' + b"x" * 200_000 + b'"}}',
    b'{"code":10,"extFields":{' + b",".join(b'"%d":""' % one for one in range(129)) + b"}}",
)
_BODIES: Final = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"\0" * 100,
    b"\xff" * 100,
    b"[" * 100_000,
    b'{"clientID":"c","consumerDataSet":[{"groupName":"' + b"g" * 300 + b'"}]}',
    b'{"clientID":"c","consumerDataSet":[' + b'{"groupName":"g"},' * 2_000 + b"null]}",
    b'{"brokerName":"set-1","acks":[{"c":"g","t":"t","q":-1,"so":-5,"rq":99999999999,"b":"?"}]}',
    b'{"topic":"\\ud800","consumerGroup":"g","clientId":"c"}',
    b"x" * 2_000_000,
)


def remoting_frame(seed: int, number: int) -> BadFrame:
    """Return what to send over one connection."""
    rng = random_of(seed, number)
    code = rng.choice(sorted(SCHEMAS))
    name = rng.choice(sorted(_MISTAKES))
    data = _MISTAKES[name](code, rng)
    return BadFrame(f"remoting {name}", code.name, data, rng.randrange(100) == 0, seed, number)


def remoting_frames(seed: int, count: int, first: int = 0) -> Iterator[BadFrame]:
    """Yield frames `first` to `first + count` of a seed."""
    for number in range(first, first + count):
        yield remoting_frame(seed, number)


def _legal(code: RequestCode, rng: random.Random) -> Command:
    kinds = [Serialisation.JSON, Serialisation.BINARY][: 1 + (code <= BINARY_MAX)]
    return legal_request(code, FIRST_OPAQUE + rng.randrange(1_000), rng.choice(kinds))


def _wrong_field(code: RequestCode, rng: random.Random) -> bytes:
    command = _legal(code, rng)
    fields = dict(command.fields)
    for name in rng.sample(sorted(fields), min(len(fields), rng.randrange(1, 4))):
        fields[name] = rng.choice(WRONG_VALUES)
    return encode_frame(command._replace(fields=fields))


def _missing_field(code: RequestCode, rng: random.Random) -> bytes:
    command = _legal(code, rng)
    fields = dict(command.fields)
    for name in rng.sample(sorted(fields), min(len(fields), rng.randrange(1, 4))):
        del fields[name]
    return encode_frame(command._replace(fields=fields))


def _other_fields(code: RequestCode, rng: random.Random) -> bytes:
    """A request with the fields of another one."""
    other = SCHEMAS[rng.choice(sorted(SCHEMAS))]
    fields = {name: rng.choice(values) for name, values in other.fields.items()}
    return encode_frame(_legal(code, rng)._replace(fields=fields))


def _wrong_body(code: RequestCode, rng: random.Random) -> bytes:
    return encode_frame(_legal(code, rng)._replace(body=rng.choice(_BODIES)))


def _flipped_body(code: RequestCode, rng: random.Random) -> bytes:
    command = _legal(code, rng)
    body = bytearray(command.body or b"{}")
    for _ in range(rng.randrange(1, 4)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    return encode_frame(command._replace(body=bytes(body)))


def _flipped(code: RequestCode, rng: random.Random) -> bytes:
    data = bytearray(encode_frame(_legal(code, rng)))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(4, len(data))] = rng.randrange(256)
    return bytes(data)


def _wrong_word(code: RequestCode, rng: random.Random) -> bytes:
    """A header of another length, or written in no known way."""
    data = bytearray(encode_frame(_legal(code, rng)))
    struct.pack_into(">I", data, 4, rng.choice(_WORDS))
    return bytes(data)


def _wrong_size(code: RequestCode, rng: random.Random) -> bytes:
    data = bytearray(encode_frame(_legal(code, rng)))
    struct.pack_into(">I", data, 0, rng.choice((*_WORDS, len(data), 17 << 20)))
    return bytes(data)


def _wrong_header(code: RequestCode, rng: random.Random) -> bytes:
    header = rng.choice(_HEADERS)
    word = struct.pack(">I", len(header) & 0xFFFFFF)
    return struct.pack(">I", 4 + len(header)) + word + header


def _wrong_binary(code: RequestCode, rng: random.Random) -> bytes:
    """A binary header whose lengths lie."""
    command = _legal(RequestCode.SEND_MESSAGE_V2, rng)
    data = bytearray(encode_frame(command._replace(serialisation=Serialisation.BINARY)))
    at = rng.randrange(8, len(data) - 4)
    struct.pack_into(">I", data, at, rng.choice(_WORDS))
    return bytes(data)


def _lying_batch(code: RequestCode, rng: random.Random) -> bytes:
    messages = [BatchedMessage(0, b"body", "TAGS\1a\2\2\2\1")] * rng.randrange(1, 20)
    body = bytearray(encode_batch(messages))
    at = rng.choice((0, 4, 8, 12, 16, 24, rng.randrange(len(body) - 4)))
    struct.pack_into(">I", body, at, rng.choice((*_WORDS, 1, 40, len(body))))
    command = _legal(RequestCode.SEND_BATCH_MESSAGE, rng)
    return encode_frame(command._replace(body=bytes(body)))


def _wrong_compression(code: RequestCode, rng: random.Random) -> bytes:
    command = _legal(RequestCode.SEND_MESSAGE_V2, rng)
    flag = rng.choice((1, 0x101, 0x201, 0x301, 0x401, 0x701, -1, 0x7FFFFFFF))
    body = rng.randbytes(rng.choice((1, 100, 100_000)))
    return encode_frame(command._replace(fields={**command.fields, "f": str(flag)}, body=body))


def _bomb(code: RequestCode, rng: random.Random) -> bytes:
    return rng.choice(_bombs())


def _largest(code: RequestCode, rng: random.Random) -> bytes:
    return largest_request(code, FIRST_OPAQUE)


def _unknown_code(code: RequestCode, rng: random.Random) -> bytes:
    command = _legal(code, rng)._replace(serialisation=Serialisation.JSON)
    wrong = rng.choice((-1, 0, 9, 12, 316, 1_000_000, (1 << 31) - 1))
    return encode_frame(command._replace(code=wrong))


def _pipelined(code: RequestCode, rng: random.Random) -> bytes:
    return encode_frame(_legal(code, rng)) * rng.randrange(2, 50)


def _half(code: RequestCode, rng: random.Random) -> bytes:
    data = encode_frame(_legal(code, rng))
    return data[: rng.randrange(1, len(data))]


def _noise(code: RequestCode, rng: random.Random) -> bytes:
    return rng.choice(
        (
            rng.randbytes(rng.randrange(1, 3_000)),
            b"GET / HTTP/1.1\r\nHost: node\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500),
            b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff",
        )
    )


_made: list[bytes] = []


def _bombs() -> list[bytes]:
    if not _made:
        _made.extend(bombs())
    return _made


_MISTAKES: Mapping[str, Callable[[RequestCode, random.Random], bytes]] = {
    "field": _wrong_field,
    "missing field": _missing_field,
    "other fields": _other_fields,
    "body": _wrong_body,
    "flipped body": _flipped_body,
    "flipped": _flipped,
    "header length": _wrong_word,
    "size": _wrong_size,
    "header": _wrong_header,
    "binary lengths": _wrong_binary,
    "lying batch": _lying_batch,
    "compression": _wrong_compression,
    "bomb": _bomb,
    "largest": _largest,
    "code": _unknown_code,
    "pipelined": _pipelined,
    "half": _half,
    "noise": _noise,
}
