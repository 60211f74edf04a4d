"""Attacks from the ports of RocketMQ's clients, remoting and gRPC.

remoting-batches    batches of bodies and properties that are much more than their frames
remoting-unpacking  pulls, pops and send-backs of few messages of a batch that unpacks to 60 MB
remoting-halves     half messages that nobody decides, on 8 connections
remoting-popped     messages that are popped for hours and never acknowledged, by group after group
remoting-parked     pulls, pops and notifications that wait, 1,000 on each of 100 connections
remoting-members    members of 1,000 groups, who join and hang up
remoting-delays     messages that wait for two hours
remoting-deaf       100 connections that pull, and read no answer
remoting-CODE       the largest legal requests of one code, four on their way on 2 connections
grpc-opened         100 connections with 200 streams of settings each that are left open
grpc-deaf           100 connections of 20 streams that tell their settings 200 times, and read none
                    of the answers
grpc-parked         256 calls on each of 40 connections that wait for messages
grpc-inflated       messages whose bodies are gzips of 4 MiB of nothing
"""

import contextlib
import gzip
import itertools
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from harness.bad_input import floods
from harness.bad_input.grpc_frames import TOPIC as GRPC_TOPIC
from harness.bad_input.remoting_schemas import (
    SCHEMAS,
    TOPIC,
    bombs,
    largest_request,
    legal_request,
)
from penstock.grpc.proto.messages import (
    Duration,
    Message,
    MessageQueue,
    ReceiveMessageRequest,
    Resource,
    SendMessageRequest,
    Settings,
    SystemProperties,
    TelemetryCommand,
)
from penstock.http2.codes import PREFACE, FrameType
from penstock.http2.hpack import encode_headers
from penstock.protobuf.codec import encode
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from penstock.record.compression import ZSTD
from penstock.remoting.ids import locator_of
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import encode_frame
from reliability.attacks.attack_frames import (
    ANSWER_SECONDS,
    RETRY_SECONDS,
    Address,
    Aim,
    Attack,
    Wait,
    asking,
    exchange,
    request,
)
from reliability.attacks.attack_kept import sending

C = RequestCode
PER_CODE = "remoting-"
FULL_RECORDS, FULL_BYTES, NOISE_BYTES = 60, 1_000_000, 2_000
HOURS_MS = 3 * 3_600_000
PIPELINED = 4
PARKED, PARKED_CONNECTIONS = 1_000, 100
DEAF_CONNECTIONS, DEAF_PULLS = 100, 400
MEMBERS = 40
STREAMS, STREAM_CONNECTIONS, CALL_CONNECTIONS = 200, 100, 40
DEAF_STREAMS, DEAF_TOLD = 20, 200
NO_HEADS: Mapping[bytes, bytes] = MappingProxyType({})
Context = contextlib.AbstractContextManager[object]
SEND_FIELDS = {name: values[0] for name, values in SCHEMAS[C.SEND_MESSAGE_V2].fields.items()}


def _frame(code: RequestCode, body: bytes = b"", **fields: object) -> bytes:
    """A legal request with these fields in place of its own."""
    command = legal_request(code, 7, Serialisation.JSON)
    told = dict(command.fields) | {name: str(value) for name, value in fields.items()}
    return encode_frame(command._replace(fields=told, body=body or command.body))


def _send(properties: str = "", body: bytes = b"body", **fields: object) -> bytes:
    told = SEND_FIELDS | {"i": properties} | {name: str(value) for name, value in fields.items()}
    return encode_frame(Command(C.SEND_MESSAGE_V2, told, body, opaque=7))


def _batches(aim: Aim) -> Context:
    properties = "".join(f"p{one}\1v\2" for one in range(4_000))
    many = encode_batch([BatchedMessage(0, b"x", properties)] * 60)
    split = encode_batch([BatchedMessage(0, b"x", "\2" * 32_000)] * 60)
    batched = [Command(C.SEND_BATCH_MESSAGE, SEND_FIELDS, body) for body in (many, split)]
    frames = [[one] for one in (*bombs(), *map(encode_frame, batched))]
    return asking(aim.remoting, frames, connections=4)


@contextlib.contextmanager
def _unpacking(aim: Aim) -> Iterator[None]:
    """Fill a queue by Kafka's protocol, and read a little of it again and again."""
    # Some noise in each: what unpacks to more than a thousand times its size is refused.
    values = [os.urandom(NOISE_BYTES).ljust(FULL_BYTES, b"\0") for _ in range(FULL_RECORDS)]
    few = [Record(None, value) for value in values]
    many = [Record(None, b"v")] * 50_000
    for batch in (build_batch(few, codec=ZSTD), build_batch(many, codec=ZSTD)):
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
        fields = {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": data}
        with socket.create_connection(aim.kafka, ANSWER_SECONDS) as connection:
            exchange(connection, [request(ApiKey.PRODUCE, 7, fields)])
    last = FULL_RECORDS + 49_990
    frames = [
        [_frame(C.PULL_MESSAGE, queueOffset=at, sysFlag=4)] * 8 for at in (0, 50, last, last - 9)
    ]
    frames.append([_frame(C.POP_MESSAGE, pollTime=0, consumerGroup="u", maxMsgNums=1)] * 2)
    frames.append([_frame(C.CONSUMER_SEND_MSG_BACK, offset=locator_of(0, last))] * 2)
    with asking(aim.remoting, frames, connections=8):
        yield


def _halves(aim: Aim) -> Context:
    half = _send("TRAN_MSG\1true\2PGROUP\1p\2UNIQ_KEY\1x\2", bytes(100), f=4)
    return asking(aim.remoting, [[half] * 100], connections=8)


def _popped(aim: Aim) -> Context:
    numbers = itertools.count()

    def pops() -> list[bytes]:
        group = f"pops-{next(numbers) // 100}"
        pop = _frame(C.POP_MESSAGE, consumerGroup=group, invisibleTime=HOURS_MS, maxMsgNums=32)
        return [_send(body=bytes(10))] * 20 + [pop] * 5

    return sending(aim.remoting, pops, connections=4)


def _parked(aim: Aim) -> Context:
    waits: dict[str, Any] = {"pollTime": 30_000, "bornTime": 0}
    pull = _frame(C.PULL_MESSAGE, queueOffset=0, sysFlag=6, suspendTimeoutMillis=30_000, queueId=3)
    pop, look = (_frame(code, queueId=2, **waits) for code in (C.POP_MESSAGE, C.NOTIFICATION))
    frames = (pull * 2 + pop + look) * (PARKED // 4)
    return _written(aim.remoting, frames, PARKED_CONNECTIONS)


@contextlib.contextmanager
def _written(address: Address, data: bytes, connections: int) -> Iterator[None]:
    """Write on so many connections, as far as they are read, and read nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            with contextlib.suppress(OSError):
                made = socket.create_connection(address, ANSWER_SECONDS)
                connection = stack.enter_context(made)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(0.5)
                connection.sendall(data)
        yield


@contextlib.contextmanager
def _members(aim: Aim) -> Iterator[None]:
    frame = largest_request(C.HEART_BEAT)

    def worker(number: int) -> Callable[[Wait], None]:
        mine = frame.replace(b"10.0.0.1@7", b"10.0.0.%d@7" % (number % 9))

        def once(wait: Wait) -> None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(aim.remoting, ANSWER_SECONDS) as connection,
            ):
                exchange(connection, [mine])
            wait(RETRY_SECONDS)

        return once

    with contextlib.ExitStack() as stack:
        for number in range(MEMBERS):
            stack.enter_context(floods.repeating(worker(number)))
        yield


def _delays(aim: Aim) -> Context:
    return asking(aim.remoting, [[_send("DELAY\x0118\2")] * 100], connections=8)


@contextlib.contextmanager
def _deaf(aim: Aim) -> Iterator[None]:
    with socket.create_connection(aim.remoting, ANSWER_SECONDS) as connection:
        exchange(connection, [_send(body=bytes(250_000))] * 4)
    pulls = _frame(C.PULL_MESSAGE, queueOffset=0, maxMsgNums=32, sysFlag=4) * DEAF_PULLS
    with _written(aim.remoting, pulls, DEAF_CONNECTIONS):
        yield


def _largest(code: RequestCode) -> Attack:
    def attack(aim: Aim) -> Context:
        return asking(aim.remoting, [[largest_request(code)] * PIPELINED], connections=2)

    return attack


# gRPC


def http2_frame(kind: FrameType, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes((kind, flags))
        + struct.pack(">I", stream)
        + payload
    )


def http2_call(
    stream: int,
    method: str,
    message: bytes,
    *,
    is_end: bool,
    more: Mapping[bytes, bytes] = NO_HEADS,
) -> bytes:
    """Return the frames of a call; `more` are heads beside the usual ones."""
    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/apache.rocketmq.v2.MessagingService/" + method.encode(),
        b"content-type": b"application/grpc",
        b"te": b"trailers",
        b"x-mq-client-id": b"client-%d" % stream,
        b"x-mq-language": b"PYTHON",
        **more,
    }
    block = encode_headers([*fields.items()])
    body = struct.pack(">BI", 0, len(message)) + message
    head = http2_frame(FrameType.HEADERS, 4, stream, block)
    return head + http2_frame(FrameType.DATA, int(is_end), stream, body)


def _calls(method: str, message: bytes, count: int, *, is_end: bool) -> bytes:
    begin = PREFACE + http2_frame(FrameType.SETTINGS, 0, 0, b"")
    calls = (http2_call(2 * one + 1, method, message, is_end=is_end) for one in range(count))
    return begin + b"".join(calls)


def _opened(aim: Aim) -> Context:
    told = encode(TelemetryCommand(settings=Settings(client_type=1)))
    return _written(aim.grpc, _calls("Telemetry", told, STREAMS, is_end=False), STREAM_CONNECTIONS)


def _deaf_streams(aim: Aim) -> Context:
    told = encode(TelemetryCommand(settings=Settings(client_type=1)))
    again = struct.pack(">BI", 0, len(told)) + told
    calls = _calls("Telemetry", told, DEAF_STREAMS, is_end=False)
    more = b"".join(
        http2_frame(FrameType.DATA, 0, 2 * one + 1, again)
        for _ in range(DEAF_TOLD)
        for one in range(DEAF_STREAMS)
    )
    return _written(aim.grpc, calls + more, STREAM_CONNECTIONS)


def _waiting(aim: Aim) -> Context:
    asked = ReceiveMessageRequest(
        group=Resource(name="waiting"),
        message_queue=MessageQueue(topic=Resource(name=GRPC_TOPIC)),
        batch_size=32,
        invisible_duration=Duration(seconds=600),
        long_polling_timeout=Duration(seconds=20),
    )
    calls = _calls("ReceiveMessage", encode(asked), 256, is_end=True)
    return _written(aim.grpc, calls, CALL_CONNECTIONS)


@contextlib.contextmanager
def _inflated(aim: Aim) -> Iterator[None]:
    system = SystemProperties(message_id="x" * 34, body_encoding=2, message_type=1)
    body = gzip.compress(bytes(4 << 20))
    message = Message(topic=Resource(name=GRPC_TOPIC), system_properties=system, body=body)
    calls = _calls("SendMessage", encode(SendMessageRequest(messages=[message])), 100, is_end=True)

    def once(wait: Wait) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(aim.grpc, ANSWER_SECONDS) as connection,
        ):
            connection.settimeout(1.0)
            connection.sendall(calls)
            while connection.recv(1 << 16):
                pass
        wait(RETRY_SECONDS)

    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(floods.repeating(once))
        yield


REMOTING: dict[str, Attack] = {
    "remoting-batches": _batches,
    "remoting-unpacking": _unpacking,
    "remoting-halves": _halves,
    "remoting-popped": _popped,
    "remoting-parked": _parked,
    "remoting-members": _members,
    "remoting-delays": _delays,
    "remoting-deaf": _deaf,
    "grpc-opened": _opened,
    "grpc-deaf": _deaf_streams,
    "grpc-parked": _waiting,
    "grpc-inflated": _inflated,
}
BY_CODE: dict[str, Attack] = {f"{PER_CODE}{code.name}": _largest(code) for code in SCHEMAS}
MESSAGES_STAY = frozenset({"remoting-halves", "remoting-popped"})
"""What these make is meant to stay within its bound, until it is decided or its time is over."""
