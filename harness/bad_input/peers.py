"""Bad frames for the ports that peers dial: from strangers, and from a peer that knows the secret.

A stranger's frame is all the bytes of one connection that never becomes a link. A member's frame is
sent on an open link of one purpose (raft, session, ha, call):

    cut, flip, noise, empty     bytes that are no message
    type                        a message or version that nobody knows
    fields                      a field is missing, is of another type, is null, or stands twice
    numbers                     a number is negative, or does not fit
    claims                      a length or count that the frame does not have, up to 2^32 - 1
    deep                        a hundred thousand arrays in each other
    text                        a string is not UTF-8
    command                     (session) a command that can not be read
    half, size                  the frame's own size is wrong

Raft messages that could be believed are not among them: who knows the secret may lead, and a forged
leader is not what a malformed frame is about. So they come from a peer that is no member, in term
0, or in another's name.

Source: docs/formats/peer-links.md, ha-link.md, raft-log.md.
"""

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from harness.bad_input.frame import BadFrame, framed, random_of
from harness.bad_input.plain_messages import (
    CALL_MESSAGES,
    COMMANDS,
    HA_MESSAGES,
    RAFT_MESSAGES,
    SESSION_MESSAGES,
    encoded_command,
    encoded_ha,
    plain_message,
)
from penstock.controller.session import Submit
from penstock.net.peer_auth import MAGIC, NONCE_BYTES, DialerHandshake, Identity, PeerHello
from penstock.runtime.calls.messages import CALL_CODEC
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.session.messages import SESSION_CODEC

PURPOSES = (b"raft", b"session", b"ha", b"call")
STRANGER_ID = 900
"""The first of the peer ids that no process of a test has."""
_ANOTHER = 1

_WRONG_NUMBERS = (-(2**63), -(2**31), -2, -1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_CLAIMS = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xdc\xff\xff",
    b"\xde\xff\xff",
)
"""Array, map, text, bytes, extension, and short forms of the first two: larger than the frame."""


def stranger_frame(seed: int, number: int) -> BadFrame:
    """Return all bytes of one connection to a port of peers."""
    rng = random_of(seed, number)
    kind = rng.choice(sorted(_STRANGERS))
    is_slow = rng.randrange(50) == 0
    return BadFrame(f"stranger {kind}", "peer port", _STRANGERS[kind](rng), is_slow, seed, number)


def member_frame(seed: int, number: int, peer_id: int = STRANGER_ID) -> tuple[bytes, BadFrame]:
    """Return a purpose, and a frame to send on a link of that purpose as that peer."""
    rng = random_of(seed, number)
    purpose = rng.choice(PURPOSES)
    kind, data = _member(purpose, rng, peer_id)
    target = purpose.decode()
    return purpose, BadFrame(f"{target} {kind}", target, data, False, seed, number)


def stranger_frames(seed: int, count: int, first: int = 0) -> Iterator[BadFrame]:
    """Yield frames `first` to `first + count` of a seed."""
    return (stranger_frame(seed, number) for number in range(first, first + count))


def _hello(rng: random.Random) -> bytes:
    own = PeerHello(rng.choice((*PURPOSES, b"tea")), "", STRANGER_ID, rng.getrandbits(62))
    return DialerHandshake(Identity(own, 1 << 20), b"k" * 32, rng.randbytes(NONCE_BYTES)).start()


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 4))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _proof(rng: random.Random) -> bytes:
    return framed(struct.pack(">4sBB", MAGIC, 1, 3) + rng.randbytes(rng.choice((0, 31, 32, 64))))


_STRANGERS: dict[str, Callable[[random.Random], bytes]] = {
    "noise": lambda rng: rng.randbytes(rng.choice((1, 4, 40, 3_000))),
    "framed noise": lambda rng: framed(rng.randbytes(rng.choice((0, 10, 500)))),
    "hello": lambda rng: framed(_hello(rng)),
    "hello cut": lambda rng: framed(hello := _hello(rng))[: rng.randrange(1, 4 + len(hello))],
    "hello short": lambda rng: framed((hello := _hello(rng))[: rng.randrange(len(hello))]),
    "hello flipped": lambda rng: framed(_flipped(_hello(rng), rng)),
    "hello twice": lambda rng: framed(_hello(rng)) * 2,
    "hello, wrong proof": lambda rng: framed(_hello(rng)) + _proof(rng),
    "proof first": _proof,
    "version": lambda rng: framed(MAGIC + bytes((rng.choice((0, 2, 255)), 1)) + rng.randbytes(60)),
    "kind": lambda rng: framed(MAGIC + bytes((1, rng.choice((0, 2, 4, 5, 6, 255)))) + bytes(40)),
    "size": lambda rng: struct.pack(">I", rng.choice((513, 2**24, 2**31, 2**32 - 1))) + _hello(rng),
    "message before the handshake": lambda rng: _member(rng.choice(PURPOSES), rng)[1],
    "tls": lambda rng: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500),
    "http": lambda _: b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "kafka": lambda _: struct.pack(">ihhih", 10, 18, 0, 1, -1),
}


def _type(rng: random.Random) -> bytes:
    number, version = rng.choice(((0, 1), (11, 1), (255, 1), (1, 0), (1, 2), (65, 255)))
    return framed(bytes((number, version)) + rng.randbytes(20))


_ANY_KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "half": lambda rng: (
        struct.pack(">I", rng.choice((5_000, 60 << 20))) + rng.randbytes(rng.randrange(100))
    ),
    "size": lambda rng: struct.pack(">I", rng.choice((2**28, 2**31, 2**32 - 1))) + bytes(8),
    "noise": lambda rng: framed(rng.randbytes(rng.choice((1, 2, 12, 60, 3_000)))),
    "empty": lambda _: framed(b""),
    "type": _type,
}


def _member(purpose: bytes, rng: random.Random, peer_id: int = STRANGER_ID) -> tuple[str, bytes]:
    kinds = _HA_KINDS if purpose == b"ha" else _CODEC_KINDS
    own_kinds = ("command", "command") if purpose == b"session" else ()
    kind = rng.choice((*_ANY_KINDS, *kinds, *own_kinds))
    if kind == "command":
        return kind, framed(_wrong_command(rng))
    if kind in _ANY_KINDS:
        return kind, _ANY_KINDS[kind](rng)
    if purpose == b"ha":
        return kind, framed(_HA_KINDS[kind](rng))
    head, fields = _plain(purpose, rng, peer_id if kind in {"numbers", "fields"} else _ANOTHER)
    return kind, framed(head + _CODEC_KINDS[kind](fields, rng))


def _plain(purpose: bytes, rng: random.Random, sender: int) -> tuple[bytes, dict[str, Any]]:
    """Return the head of a valid message and its fields; nobody believes a Raft message.

    One that is changed at random is in another's name: it might else become a leader's.
    """
    if purpose == b"raft":
        cls = rng.choice(RAFT_MESSAGES)
        fields = plain_message(cls, rng)
        fields |= {"sender": sender, "term": 0}
        return RAFT_CODEC._heads[cls], fields
    if purpose == b"call":
        cls = rng.choice(CALL_MESSAGES)
        return CALL_CODEC._heads[cls], plain_message(cls, rng)
    cls = rng.choice(SESSION_MESSAGES)
    return SESSION_CODEC._heads[cls], plain_message(cls, rng)


def plain_bodies(purpose: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield bodies of valid messages of one purpose."""
    for _ in range(60):
        head, fields = _plain(purpose, rng, STRANGER_ID)
        yield head + _encode(fields)


_encode = msgspec.msgpack.Encoder().encode


def _any_field(fields: dict[str, Any], rng: random.Random) -> str:
    return rng.choice(sorted(fields))


def _wrong_fields(fields: dict[str, Any], rng: random.Random) -> bytes:
    name = _any_field(fields, rng)
    wrong = rng.choice(
        (None, "text", 1.5, [], {}, [[1]], True, b"\0", {"a": 1}, "missing", "twice")
    )
    if wrong == "missing":
        del fields[name]
    elif wrong == "twice":
        body = bytearray(_encode(fields))
        body[0] += 1
        return bytes(body) + _encode(name) + _encode(None)
    else:
        fields[name] = wrong
    return _encode(fields)


def _wrong_numbers(fields: dict[str, Any], rng: random.Random) -> bytes:
    numbers = [name for name, value in fields.items() if type(value) is int]
    for name in rng.sample(numbers, min(len(numbers), rng.choice((1, 1, 3)))):
        fields[name] = rng.choice(_WRONG_NUMBERS)
    if "term" in fields:
        fields["term"] = min(fields["term"], 0)
    return _encode(fields)


def _raw(fields: dict[str, Any], name: str, raw: bytes) -> bytes:
    fields[name] = msgspec.Raw(raw)
    return _encode(fields)


def _wrong_text(fields: dict[str, Any], rng: random.Random) -> bytes:
    return _raw(fields, _any_field(fields, rng), rng.choice((b"\xa1\xff", b"\xa3\xed\xa0\x80")))


def _wrong_command(rng: random.Random) -> bytes:
    """A good message whose command is wrong in itself."""
    command = encoded_command(rng.choice(COMMANDS), rng)
    deep = command[: rng.randrange(1, len(command))] + b"\x91" * 100_000
    cut = command[: rng.randrange(len(command))]
    wrong = rng.choice((cut, _flipped(command, rng), deep, b""))
    return SESSION_CODEC._heads[Submit] + _encode({"request_id": 7, "command": wrong})


_CODEC_KINDS: dict[str, Callable[[dict[str, Any], random.Random], bytes]] = {
    "cut": lambda fields, rng: (body := _encode(fields))[: rng.randrange(len(body))],
    "flip": lambda fields, rng: _flipped(_encode(fields), rng),
    "fields": _wrong_fields,
    "numbers": _wrong_numbers,
    "claims": lambda fields, rng: _raw(fields, _any_field(fields, rng), rng.choice(_CLAIMS)),
    "deep": lambda fields, rng: _raw(fields, _any_field(fields, rng), b"\x91" * 100_000 + b"\0"),
    "text": _wrong_text,
}


def _ha_numbers(rng: random.Random) -> bytes:
    """Eight bytes somewhere are a wrong number."""
    data = bytearray(encoded_ha(rng.choice(HA_MESSAGES), rng))
    at = rng.randrange(4, len(data))
    wrong = struct.pack(">Q", rng.choice(_WRONG_NUMBERS) & (2**64 - 1))
    data[at : at + 8] = wrong[: len(data) - at]
    return bytes(data)


_HA_KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "cut": lambda rng: (data := encoded_ha(rng.choice(HA_MESSAGES), rng))[
        : rng.randrange(len(data))
    ],
    "flip": lambda rng: _flipped(encoded_ha(rng.choice(HA_MESSAGES), rng), rng),
    "kind": lambda rng: struct.pack(">BBHii", 1, rng.choice((0, 13, 255)), 0, 0, 0) + bytes(40),
    "version": lambda rng: struct.pack(">BBHii", rng.choice((0, 2, 255)), 1, 0, 0, 0) + bytes(40),
    "numbers": _ha_numbers,
    "trailing": lambda rng: encoded_ha(rng.choice(HA_MESSAGES), rng) + rng.randbytes(9),
    "valid": lambda rng: encoded_ha(rng.choice(HA_MESSAGES), rng),
}
