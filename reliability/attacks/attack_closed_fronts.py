"""Attacks on the ports of RocketMQ's clients of a closed node, by strangers; behind TLS.

closed-remoting-silent   connections that shake hands and say nothing more
closed-remoting-parts    connections with 63 KiB of a frame of 4 MiB, and no more
closed-remoting-unsigned requests of 50 fields that nobody has signed
closed-remoting-wrong    requests of 60 KiB with a signature that is not the user's
closed-grpc-silent       connections that shake hands and say nothing more
closed-grpc-opened       100 connections with 200 calls each whose message does not end
closed-grpc-heads        connections with the heads of a call, 15 KiB, that have no end
closed-grpc-unsigned     calls that nobody has signed, 100 on each of 4 connections
closed-grpc-wrong        the same with a signature that is not the user's
"""

import contextlib
import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial

from harness.bad_input.remoting_schemas import legal_request
from penstock.access.signatures import SIGNATURE_FIELD, USER_FIELD
from penstock.grpc.proto.messages import QueryRouteRequest, Resource
from penstock.http2.codes import PREFACE, FrameType
from penstock.http2.hpack import encode_headers
from penstock.protobuf.codec import encode
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Serialisation
from penstock.remoting.wire.frame import encode_frame
from reliability.attacks.attack_closed import CROWD, WORKERS, again, crowd, shaken
from reliability.attacks.attack_frames import Address, Attack, exchanging
from reliability.attacks.attack_remoting import NO_HEADS, http2_call, http2_frame

FIELDS, SIGNED_BYTES = 50, 60 << 10
FRAME_BYTES, PART_BYTES = 4 << 20, 63 << 10
STREAMS, OPEN_CONNECTIONS, CALLS = 200, 100, 100
HEAD_BYTES = 15 << 10
SIGNED_HEADS = {
    b"authorization": b"MQv2-HMAC-SHA1 Credential=writer//RocketMQ, SignedHeaders=x-mq-date-time,"
    b" Signature=" + b"0" * 40,
    b"x-mq-date-time": b"20260101T000000Z",
}
Context = contextlib.AbstractContextManager[object]


def _shaken_http2(address: Address) -> socket.socket:
    return shaken(address, "h2")


def _with_part(address: Address) -> socket.socket:
    connection = shaken(address)
    connection.sendall(struct.pack(">ii", FRAME_BYTES, FRAME_BYTES // 2).ljust(PART_BYTES, b"x"))
    return connection


def _with_calls(address: Address) -> socket.socket:
    asked = _asked_route()
    connection = _shaken_http2(address)
    calls = (http2_call(2 * one + 1, "QueryRoute", asked, is_end=False) for one in range(STREAMS))
    connection.sendall(_BEGIN + b"".join(calls))
    return connection


def _with_heads(address: Address) -> socket.socket:
    connection = _shaken_http2(address)
    block = encode_headers([(b"a", b"x" * HEAD_BYTES)])
    connection.sendall(_BEGIN + http2_frame(FrameType.HEADERS, 0, 1, block))
    return connection


_BEGIN = PREFACE + http2_frame(FrameType.SETTINGS, 0, 0, b"")


def _asked_route() -> bytes:
    return encode(QueryRouteRequest(topic=Resource(name="secret")))


def _unsigned() -> list[bytes]:
    command = legal_request(RequestCode.SEND_MESSAGE_V2, 7, Serialisation.JSON)
    more = {f"field-{number}": "x" * 200 for number in range(FIELDS)}
    return [encode_frame(command._replace(fields=dict(command.fields) | more))]


def _wrong() -> list[bytes]:
    command = legal_request(RequestCode.SEND_MESSAGE_V2, 7, Serialisation.JSON)
    proof = {USER_FIELD: "writer", SIGNATURE_FIELD: "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}
    signed = command._replace(fields=dict(command.fields) | proof, body=bytes(SIGNED_BYTES))
    return [encode_frame(signed)]


def _asking(address: Address, frames: list[bytes]) -> Context:
    return exchanging(partial(shaken, address), lambda: lambda: frames, WORKERS)


def _calls(address: Address, heads: Mapping[bytes, bytes] = NO_HEADS) -> Context:
    asked = _asked_route()
    calls = (
        http2_call(2 * one + 1, "QueryRoute", asked, is_end=True, more=heads)
        for one in range(CALLS)
    )
    return _answered(address, _BEGIN + b"".join(calls))


def _answered(address: Address, data: bytes) -> Context:
    """Send it on a connection of its own, read for a second, and so again."""

    def once(address: Address) -> None:
        with _shaken_http2(address) as connection:
            connection.settimeout(1.0)
            connection.sendall(data)
            while connection.recv(1 << 16):
                pass

    return again(address, once)


def _crowded(begin: Callable[[Address], socket.socket], count: int, port: str) -> Attack:
    return lambda aim: crowd(getattr(aim, port), begin, count)


CLOSED_FRONTS: dict[str, Attack] = {
    "closed-remoting-silent": _crowded(shaken, CROWD, "remoting"),
    "closed-remoting-parts": _crowded(_with_part, CROWD, "remoting"),
    "closed-remoting-unsigned": lambda aim: _asking(aim.remoting, _unsigned()),
    "closed-remoting-wrong": lambda aim: _asking(aim.remoting, _wrong()),
    "closed-grpc-silent": _crowded(_shaken_http2, CROWD, "grpc"),
    "closed-grpc-opened": _crowded(_with_calls, OPEN_CONNECTIONS, "grpc"),
    "closed-grpc-heads": _crowded(_with_heads, CROWD, "grpc"),
    "closed-grpc-unsigned": lambda aim: _calls(aim.grpc),
    "closed-grpc-wrong": lambda aim: _calls(aim.grpc, SIGNED_HEADS),
}
