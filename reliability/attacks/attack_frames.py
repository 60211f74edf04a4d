"""What attacks have in common: where they aim, the frames they send, and how they go on asking."""

import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from harness.bad_input import floods
from harness.bad_input.frame import framed
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_request

Address = tuple[str, int]
Wait = Callable[[float], bool]

ANSWER_SECONDS = 30.0
RETRY_SECONDS = 0.05
READ_BYTES = 1 << 20
NOWHERE = ("", 0)


class Aim(NamedTuple):
    """What is attacked, and how large its topics of many partitions are."""

    kafka: Address
    metrics: Address
    wide_partitions: int
    controller: Address = NOWHERE
    ha: Address = NOWHERE
    secret: bytes = b""
    """Of a cluster: where its peers dial, and what they know."""
    remoting: Address = NOWHERE
    grpc: Address = NOWHERE
    """The ports for RocketMQ's clients, where they are attacked."""
    http: Address = NOWHERE
    """Of a `penstock http` beside the node, where that is attacked."""


Attack = Callable[[Aim], contextlib.AbstractContextManager[object]]


def request(key: ApiKey, version: int, fields: dict[str, Any]) -> bytes:
    head = request_header(key, version, correlation_id=7, client_id="attack")
    return framed(head + encode_request(key, version, fields))


def exchange(connection: socket.socket, frames: list[bytes]) -> None:
    """Send all, then read as many answers."""
    for frame in frames:
        connection.sendall(frame)
    for _ in frames:
        left = int.from_bytes(exactly(connection, 4), "big")
        while left:
            left -= len(some(connection, min(left, READ_BYTES)))


def exactly(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes, also from behind TLS, where MSG_WAITALL is not taken."""
    taken = bytearray()
    while len(taken) < size:
        taken += some(connection, size - len(taken))
    return bytes(taken)


def some(connection: socket.socket, size: int) -> bytes:
    taken = connection.recv(size)
    if not taken:
        raise ConnectionResetError("closed by the node")
    return taken


def plain(address: Address) -> socket.socket:
    """Connect without TLS."""
    return socket.create_connection(address, ANSWER_SECONDS)


@contextlib.contextmanager
def asking(address: Address, batches: list[list[bytes]], connections: int) -> Iterator[None]:
    """Exchange one batch of frames after the other, on so many connections at once."""

    def made() -> Callable[[], list[bytes]]:
        return itertools.cycle(batches).__next__

    with exchanging(lambda: plain(address), made, connections):
        yield


@contextlib.contextmanager
def exchanging(
    connect: Callable[[], socket.socket],
    made: Callable[[], Callable[[], list[bytes]]],
    connections: int = 1,
) -> Iterator[None]:
    """Exchange frames again and again, on so many connections at once.

    `made` returns for each of them what makes its frames. A connection that fails is made anew.
    """

    def worker() -> Callable[[Wait], None]:
        make = made()
        held: list[socket.socket] = []

        def once(wait: Wait) -> None:
            try:
                if not held:
                    held.append(connect())
                exchange(held[0], make())
            except OSError:
                while held:
                    held.pop().close()
                wait(RETRY_SECONDS)

        return once

    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(floods.repeating(worker()))
        yield
