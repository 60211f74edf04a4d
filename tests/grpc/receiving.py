"""A consumer, by grpcio."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.protobuf.duration_pb2 import Duration
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from tests.grpc.served import Caller, message
from tests.live_node import ANSWER_SECONDS

LONG_S = 600
OK = definition.OK


def metadata(client_id: str) -> tuple[tuple[str, str], ...]:
    return (("x-mq-client-id", client_id), ("x-mq-language", "PYTHON"))


def duration(seconds: float) -> Duration:
    return Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1_000_000_000))


def named(name: str) -> definition.Resource:
    return definition.Resource(name=name)


class Received:
    """An answer, taken apart in the order in which it came."""

    def __init__(self, responses: list[Any]) -> None:
        kinds = [one.WhichOneof("content") for one in responses]
        assert kinds[0] == "status", kinds
        self.status = responses[0].status
        self.code = self.status.code
        self.messages = [one.message for one in responses if one.HasField("message")]
        if self.messages:
            assert kinds == ["status", *["message"] * len(self.messages), "delivery_timestamp"]
        else:
            assert kinds == ["status"]

    @property
    def bodies(self) -> list[str]:
        return [one.body.decode() for one in self.messages]

    @property
    def handles(self) -> list[str]:
        return [one.system_properties.receipt_handle for one in self.messages]


class Member:
    """A client of a group."""

    def __init__(self, caller: Caller, client_id: str = "one@1", group: str = "g") -> None:
        self.caller = caller
        self.client_id = client_id
        self.group = group

    def _call(self, method: str, request: Any, **options: Any) -> Any:
        options = {"metadata": metadata(self.client_id) + self.caller.proof()} | options
        return self.caller.call(method, request, **options)

    def asked(self, topic: str, **fields: Any) -> service.ReceiveMessageRequest:
        usual: dict[str, Any] = {
            "group": named(self.group),
            "message_queue": definition.MessageQueue(topic=named(topic)),
            "filter_expression": definition.FilterExpression(type=definition.TAG, expression="*"),
            "batch_size": 32,
            "long_polling_timeout": duration(10),
        }
        if not fields.get("auto_renew"):
            usual["invisible_duration"] = duration(LONG_S)
        return service.ReceiveMessageRequest(**usual | fields)

    def receive(self, topic: str, wait: float = 10, **fields: Any) -> Received:
        fields = {"long_polling_timeout": duration(wait)} | fields
        return Received(list(self._call("ReceiveMessage", self.asked(topic, **fields))))

    def begin(self, topic: str, **fields: Any) -> Any:
        """Begin to receive; return the call."""
        return self._call("ReceiveMessage", self.asked(topic, **fields))

    def ack(self, topic: str, *handles: str) -> Any:
        entries = [
            service.AckMessageEntry(message_id=f"id-{place}", receipt_handle=handle)
            for place, handle in enumerate(handles)
        ]
        request = service.AckMessageRequest(
            group=named(self.group), topic=named(topic), entries=entries
        )
        return self._call("AckMessage", request)

    def change(self, topic: str, handle: str, seconds: float) -> Any:
        request = service.ChangeInvisibleDurationRequest(
            group=named(self.group),
            topic=named(topic),
            receipt_handle=handle,
            invisible_duration=duration(seconds),
        )
        return self._call("ChangeInvisibleDuration", request)

    def forward(self, topic: str, handle: str) -> Any:
        request = service.ForwardMessageToDeadLetterQueueRequest(
            group=named(self.group), topic=named(topic), receipt_handle=handle
        )
        return self._call("ForwardMessageToDeadLetterQueue", request)

    def beat(self, kind: int = definition.PUSH_CONSUMER) -> Any:
        request = service.HeartbeatRequest(group=named(self.group), client_type=kind)
        return self._call("Heartbeat", request)

    def end(self) -> Any:
        request = service.NotifyClientTerminationRequest(group=named(self.group))
        return self._call("NotifyClientTermination", request)

    def assignments(self, topic: str) -> Any:
        request = service.QueryAssignmentRequest(topic=named(topic), group=named(self.group))
        return self._call("QueryAssignment", request)

    @contextmanager
    def settled(self, kind: int = definition.PUSH_CONSUMER) -> Iterator[Any]:
        """The stream of its settings, open; gives what the server tells."""
        over = threading.Event()
        told = settings_of(self.group, kind)

        def says() -> Iterator[service.TelemetryCommand]:
            yield told
            over.wait(ANSWER_SECONDS)

        told_of = metadata(self.client_id) + self.caller.proof()
        stream = self.caller.stub.Telemetry(says(), metadata=told_of)
        try:
            yield next(iter(stream))
        finally:
            over.set()
            stream.cancel()


def settings_of(group: str, kind: int) -> service.TelemetryCommand:
    command = service.TelemetryCommand()
    command.settings.client_type = kind
    command.settings.subscription.group.name = group
    return command


def send(caller: Caller, topic: str, *bodies: str, queue: int | None = None, **system: Any) -> None:
    for body in bodies:
        more = {} if queue is None else {"queue_id": queue}
        answer = caller.send(message(topic, body.encode(), **more, **system))
        assert answer.status.code == OK, answer.status
