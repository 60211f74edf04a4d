"""What does a message cost the node that a RocketMQ client receives?

    python -m benchmarks received

Kafka's client sends messages of 1 KiB with three headers, so many a batch. They are received by
gRPC, 32 a call, and acknowledged, or pulled by a remoting client, 32 a request. A figure is the
node's CPU for each message, the least of the rounds; the clients' is in another process.
"""

import itertools
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from confluent_kafka import Producer

import grpc
from benchmarks import RESULTS
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node
from benchmarks.parts.topics import temporary_topic
from harness.node import NodeProcess
from harness.ports import free_port
from harness.results import publish
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import decode_frame, encode_frame
from penstock.remoting.wire.message import decode_messages

with (  # the package makes a directory for its logs in HOME as soon as it is imported
    tempfile.TemporaryDirectory(prefix="penstock-bench-") as _home,
    patch.dict(os.environ, {"HOME": _home}),
):
    from rocketmq.grpc_protocol import definition_pb2 as definition
    from rocketmq.grpc_protocol import service_pb2 as service
    from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

GOAL = "<= 12 us by gRPC in batches of 32"
MESSAGES: Final = 9_600
"""A group begins at the first one where there are 10,000 at most."""
VALUE: Final = b"x" * 1_024
HEADERS: Final[list[tuple[str, str | bytes | None]]] = [
    ("rmq.tag", b"tag"),
    ("rmq.keys", b"key-1"),
    ("colour", b"red"),
]
AT_ONCE: Final = 32
PER_BATCH: Final = (32, 800)
_groups = itertools.count()


class Place(NamedTuple):
    """A node with both ports."""

    node: NodeProcess
    remoting: int
    grpc: int


Reads = Callable[[Place, str], int]
"""Reads all messages of a topic, and returns how many."""


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    rounds = 2 if quick else 5
    rows: list[dict[str, object]] = []
    with _place() as place:
        for codec, per_batch in itertools.product(("none", "lz4"), PER_BATCH):
            with temporary_topic(place.node.bootstrap) as topic:
                _send(place, topic, codec, per_batch)
                for name, reads in READS.items():
                    costs = [_cost(place, topic, reads) for _ in range(rounds)]
                    rows.append(
                        {
                            "received by": name,
                            "messages a batch": per_batch,
                            "codec": codec,
                            "us of CPU a message": min(costs),
                            "most": max(costs),
                        }
                    )
    publish(RESULTS, "received", rows, goal=GOAL)


@contextmanager
def _place() -> Iterator[Place]:
    remoting, grpc = free_port(), free_port()
    settings = {**PAGE_CACHE, "remoting": {"port": remoting}, "grpc": {"port": grpc}}
    with temporary_node(settings) as node:
        yield Place(node, remoting, grpc)


def _send(place: Place, topic: str, codec: str, per_batch: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": place.node.bootstrap,
            "linger.ms": 5_000,
            "batch.num.messages": per_batch,
            "compression.type": codec,
        }
    )
    for _ in range(MESSAGES):
        producer.produce(topic, VALUE, headers=HEADERS)
    assert producer.flush(60) == 0, "all is sent"


def _cost(place: Place, topic: str, reads: Reads) -> float:
    before = place.node.cpu_seconds()
    count = reads(place, topic)
    assert count == MESSAGES, f"{count} messages of {MESSAGES}"
    return (place.node.cpu_seconds() - before) / count * 1e6


# --- by gRPC ------------------------------------------------------------------------------------


def _by_grpc(place: Place, topic: str) -> int:
    group = definition.Resource(name=f"received-{next(_groups)}")
    named = definition.Resource(name=topic)
    request = service.ReceiveMessageRequest(
        group=group,
        message_queue=definition.MessageQueue(topic=named),
        filter_expression=definition.FilterExpression(type=definition.TAG, expression="*"),
        batch_size=AT_ONCE,
    )
    request.invisible_duration.seconds = 600
    request.long_polling_timeout.seconds = 10
    metadata, count = (("x-mq-client-id", "c@1"),), 0
    with grpc.insecure_channel(f"127.0.0.1:{place.grpc}") as channel:
        stub = MessagingServiceStub(channel)
        while count < MESSAGES:
            answers: list[Any] = list(stub.ReceiveMessage(request, metadata=metadata, timeout=30))
            entries = [
                service.AckMessageEntry(receipt_handle=one.message.system_properties.receipt_handle)
                for one in answers
                if one.HasField("message")
            ]
            assert entries, answers
            done = service.AckMessageRequest(group=group, topic=named, entries=entries)
            assert stub.AckMessage(done, metadata=metadata).status.code == definition.OK
            count += len(entries)
    return count


# --- by remoting --------------------------------------------------------------------------------


class _Remote:
    """One connection of a remoting client."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._file = self._socket.makefile("rb")

    def ask(self, code: int, fields: dict[str, object]) -> Command:
        """Return the answer to a request."""
        texts = {name: str(value) for name, value in fields.items()}
        self._socket.sendall(encode_frame(Command(code=code, fields=texts)))
        return decode_frame(memoryview(self._file.read(int.from_bytes(self._file.read(4)))))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _by_pull(place: Place, topic: str) -> int:
    at = count = 0
    fields: dict[str, object] = {"consumerGroup": "pulled", "topic": topic, "queueId": 0}
    fields |= {"maxMsgNums": AT_ONCE, "sysFlag": 4, "subscription": "*", "bname": "set-1"}
    with closing(_Remote(place.remoting)) as remote:
        while count < MESSAGES:
            answer = remote.ask(RequestCode.PULL_MESSAGE, fields | {"queueOffset": at})
            assert answer.code == 0, answer.remark
            count += len(decode_messages(memoryview(answer.body)))
            at = int(answer.fields["nextBeginOffset"])
    return count


READS: Final[dict[str, Reads]] = {"gRPC": _by_grpc, "remoting pull": _by_pull}
