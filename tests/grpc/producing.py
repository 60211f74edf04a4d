"""A producer of transactions, by grpcio."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from tests.grpc.receiving import metadata, named
from tests.grpc.served import Caller, message
from tests.live_node import ANSWER_SECONDS

OK = definition.OK
COMMIT, ROLLBACK = definition.COMMIT, definition.ROLLBACK
UNKNOWN = definition.TRANSACTION_RESOLUTION_UNSPECIFIED


class Half:
    """A half message, as its sender knows it."""

    def __init__(self, topic: str, message_id: str, transaction_id: str) -> None:
        self.topic = topic
        self.message_id = message_id
        self.transaction_id = transaction_id


class Asked:
    """The stream of a producer's settings, and what it is asked."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._told: queue.Queue[Any] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def next(self) -> Any:
        """The next command."""
        return self._told.get(timeout=ANSWER_SECONDS)

    def is_quiet(self) -> bool:
        return self._told.empty()

    def join(self) -> None:
        self._reading.join(ANSWER_SECONDS)

    def _read(self) -> None:
        try:
            for command in self._stream:
                self._told.put(command)
        except Exception as error:  # noqa: BLE001  its stream is cancelled
            self._told.put(error)


class Payer:
    """A client that sends transactional messages."""

    def __init__(self, caller: Caller, client_id: str = "payer@1") -> None:
        self.caller = caller
        self.client_id = client_id

    def _call(self, method: str, request: Any) -> Any:
        return self.caller.call(method, request, metadata=metadata(self.client_id))

    def send(self, topic: str, body: str = "half", **system: Any) -> Any:
        told = {"message_type": definition.TRANSACTION, "message_id": f"ID-{body}"} | system
        request = service.SendMessageRequest(messages=[message(topic, body.encode(), **told)])
        return self._call("SendMessage", request)

    def half(self, topic: str, body: str = "half", **system: Any) -> Half:
        answer = self.send(topic, body, **system)
        assert answer.status.code == OK, answer.status
        (entry,) = answer.entries
        assert entry.message_id == f"ID-{body}"
        return Half(topic, entry.message_id, entry.transaction_id)

    def end(self, half: Half, resolution: int = COMMIT, **fields: Any) -> int:
        told: dict[str, Any] = {
            "topic": named(half.topic),
            "message_id": half.message_id,
            "transaction_id": half.transaction_id,
            "resolution": resolution,
            "source": definition.SOURCE_CLIENT,
        }
        request = service.EndTransactionRequest(**told | fields)
        return int(self._call("EndTransaction", request).status.code)

    def beat(self) -> Any:
        request = service.HeartbeatRequest(client_type=definition.PRODUCER)
        return self._call("Heartbeat", request)

    @contextmanager
    def settled(self, *topics: str) -> Iterator[Asked]:
        """The stream of its settings, open."""
        over = threading.Event()
        told = service.TelemetryCommand()
        told.settings.client_type = definition.PRODUCER
        told.settings.publishing.topics.extend(map(named, topics))

        def says() -> Iterator[service.TelemetryCommand]:
            yield told
            over.wait(ANSWER_SECONDS)

        stream = self.caller.stub.Telemetry(says(), metadata=metadata(self.client_id))
        asked = Asked(stream)
        try:
            first = asked.next()
            assert first.status.code == OK
            yield asked
        finally:
            over.set()
            stream.cancel()
            asked.join()
