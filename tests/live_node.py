"""A whole node inside the test process, on a free port, and raw requests to it.

For tests of single answers: error codes, versions, sessions. Tests of what survives a crash start
real processes instead (tests/integration).
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from harness.ports import free_port
from harness.waiting import wait_until
from penstock.base.ids import ReplicaSetId
from penstock.broker.broker import Broker
from penstock.kafka.front import KafkaFront
from penstock.node.identity import open_data_directories
from penstock.node.machine import real_machine
from penstock.node.node import Node
from penstock.node.settings.settings import NodeSettings, load_settings
from penstock.protocol.header import parse_response_header, request_header
from penstock.protocol.messages import decode_response, encode_request

ANSWER_SECONDS = 120.0
UNTIL_SECONDS = 120.0
"""Limits for what hangs, far above what a machine takes that does something else beside."""
T = TypeVar("T")


class RawClient:
    """One connection; requests as plain fields, answers as kio entities."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        self._correlation_id = 0

    def send(self, key: int, version: int, fields: Mapping[str, Any]) -> None:
        self.send_body(key, version, encode_request(key, version, fields))

    def send_body(self, key: int, version: int, body: bytes) -> None:
        self._correlation_id += 1
        head = request_header(
            key, version, correlation_id=self._correlation_id, client_id="raw-client"
        )
        self.send_bytes(struct.pack(">i", len(head) + len(body)) + head + body)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> memoryview:
        """Return the next answer without its size; an empty one when the node has closed."""
        size = self._read(4)
        if len(size) < 4:
            return memoryview(b"")
        return memoryview(self._read(struct.unpack(">i", size)[0]))

    def receive(self, key: int, version: int) -> Any:
        frame = self.receive_frame()
        assert frame, "the node closed the connection"
        _, at = parse_response_header(frame, key, version)
        return decode_response(key, version, frame, at)

    def ask(self, key: int, version: int, fields: Mapping[str, Any]) -> Any:
        self.send(key, version, fields)
        return self.receive(key, version)

    def is_closed_by_node(self) -> bool:
        return len(self.receive_frame()) == 0

    def close(self) -> None:
        self.socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                break
            data += part
        return bytes(data)


class LiveNode:
    """A running node; `broker` may be looked at from `call`, which runs on its loop."""

    def __init__(self, directory: Path, overrides: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        self.failures: list[str] = []
        self._settings = _settings(directory, self.port, overrides)
        self.loop = uvloop.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-node")
        self._stop: asyncio.Event
        self._error: BaseException | None = None
        self.node: Node

    @property
    def broker(self) -> Broker:
        return self.node._broker

    @property
    def front(self) -> KafkaFront:
        return self.node._front

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(ANSWER_SECONDS)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self.join()

    def join(self) -> None:
        """Wait until the thread has ended: by itself where the start failed."""
        self._thread.join(ANSWER_SECONDS)
        assert not self._thread.is_alive()

    def connect(self) -> RawClient:
        return RawClient(self.port)

    def submit(self, command: Any) -> Any:
        """Run a metadata command."""
        work = self.broker.controller.submit(command)
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(ANSWER_SECONDS)

    def call(self, action: Callable[[], T]) -> T:
        """Run `action` on the node's loop and return what it returns."""

        async def run() -> T:
            return action()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(ANSWER_SECONDS)

    def until(self, holds: Callable[[], object]) -> bool:
        """Look on the node's loop until `holds` returns something true; False after a while."""
        return wait_until(lambda: self.call(holds), UNTIL_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        finally:
            # As a node's process does: what is cancelled ends on the loop, and not in a collection.
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        directories = []
        try:
            paths = [Path(path) for path in self._settings.node.data_directories]
            directories = open_data_directories(paths, broker_id=1)
            self.node = Node(
                self._settings, directories, self.failures.append, real_machine(self.loop)
            )
            await self.node.start()
            await asyncio.wait_for(self._settle(), ANSWER_SECONDS)
            self._ready.set()
            await self._stop.wait()
            await self.node.stop()
        except BaseException as error:  # noqa: BLE001  told to the test
            self._error = error
            with suppress(AttributeError):  # it was not made
                await self.node.stop()
            self._ready.set()
        finally:
            for directory in directories:
                directory.close()

    async def _settle(self) -> None:
        """Wait until the node leads its sets and has loaded its groups: clients would ask again."""
        while not await self._is_settled():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.002)

    async def _is_settled(self) -> bool:
        sets, members = self.broker.metadata.replica_sets, self.broker.members
        epochs = {key: one.leader_epoch for key, one in members.items() if one.is_master}
        if not sets or any(
            epochs.get(key) != sets[ReplicaSetId(key)].leader_epoch for key in members
        ):
            return False
        return await self.front.internal_topic.ensure() and not self.broker.groups.is_loading


def _settings(directory: Path, port: int, overrides: tuple[str, ...]) -> NodeSettings:
    small = (
        f"node.data_directories={directory}",
        f"node.port={port}",
        "node.metrics_port=0",
        "log.segment_bytes=4194304",
        "log.reserve_bytes=0",
        "broker.housekeeping_interval_ms=3600000",
        "net.connection_rate_per_address_max=0",
        "groups.partition_count=4",
    )
    return load_settings(None, environment={}, overrides=(*small, *overrides))


@contextmanager
def running_node(directory: Path, *overrides: str) -> Iterator[LiveNode]:
    """A node for the length of a `with`; it must not have wished to stop by itself."""
    node = LiveNode(directory, overrides)
    node.start()
    try:
        yield node
    finally:
        node.stop()
    assert not node.failures, node.failures
