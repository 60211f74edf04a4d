"""A node inside the test process that gRPC clients reach, and calls to it by grpcio."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

import grpc
from harness.ports import free_port
from tests.live_node import ANSWER_SECONDS, LiveNode, running_node

METADATA = (("x-mq-client-id", "test@1"), ("x-mq-language", "PYTHON"))


@contextmanager
def running_grpc_node(directory: Path, *overrides: str) -> Iterator[tuple[LiveNode, str]]:
    """A node with a port for gRPC clients, and the address of that."""
    port = free_port()
    with running_node(directory, f"grpc.port={port}", *overrides) as node:
        yield node, f"127.0.0.1:{port}"


class Caller:
    """One channel."""

    def __init__(
        self, address: str, credentials: grpc.ChannelCredentials | None = None, **options: Any
    ) -> None:
        """With `credentials` over TLS."""
        if credentials is None:
            self.channel = grpc.insecure_channel(address, **options)
        else:
            self.channel = grpc.secure_channel(address, credentials, **options)
        self.stub = MessagingServiceStub(self.channel)

    def proof(self) -> tuple[tuple[str, str], ...]:
        """Return what is told with each call of who asks."""
        return ()

    def call(self, method: str, request: Any, **options: Any) -> Any:
        """Call a unary method."""
        options = {"timeout": ANSWER_SECONDS, "metadata": METADATA + self.proof()} | options
        return getattr(self.stub, method)(request, **options)

    def send(self, *messages: definition.Message, **options: Any) -> Any:
        return self.call("SendMessage", service.SendMessageRequest(messages=messages), **options)

    def raw(self, path: str, data: bytes, **options: Any) -> bytes:
        """Call a method by its path, with bytes."""
        call = self.channel.unary_unary(path, lambda sent: sent, lambda got: got)
        return call(
            data, **{"timeout": ANSWER_SECONDS, "metadata": METADATA + self.proof()} | options
        )

    def close(self) -> None:
        self.channel.close()


def message(topic: str, body: bytes = b"body", **system: Any) -> definition.Message:
    """A message as clients send it; `properties` are those of users."""
    users = system.pop("properties", {})
    properties = {"message_id": "01" + "A" * 32, "message_type": definition.NORMAL} | system
    return definition.Message(
        topic=definition.Resource(name=topic),
        user_properties=users,
        system_properties=definition.SystemProperties(**properties),
        body=body,
    )


def records(node: LiveNode, topic: str, partitions: int, count: int) -> list[Any]:
    """What Kafka's client reads of a topic, from its beginning."""
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{node.port}", "group.id": "g", "enable.auto.commit": 0}
    )
    consumer.assign([TopicPartition(topic, one, 0) for one in range(partitions)])
    found: list[Any] = []
    try:
        while len(found) < count:
            read = consumer.consume(count - len(found), ANSWER_SECONDS)
            assert read, f"{len(found)} of {count} records are there"
            assert [one.error() for one in read] == [None] * len(read)
            found += read
    finally:
        consumer.close()
    return found
