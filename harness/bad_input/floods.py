"""Floods of connections against one port, each a context manager that lasts as long as its block.

idle            thousands of connections that have asked once and say nothing more
slow writers    each writes one byte of a large frame now and then, and never ends it
announced       connections that announce two gibibytes, again and again
churn           connect and go, properly or with a reset, some hundreds a second
half open       choose a mechanism of SASL and never prove anything, again as soon as it is ended
deaf            ask for large answers and never read them
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from harness.bad_input.frame import framed
from harness.waiting import UNTIL_SECONDS
from penstock.protocol.api_keys import ApiKey

Address = tuple[str, int]
CONNECT_SECONDS = UNTIL_SECONDS
PAUSE_SECONDS = 0.001
"""Between two connections: without it a flood on the same machine takes a whole processor."""
ASK = framed(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 1, -1))
_ANNOUNCED = struct.pack(">i", 2**31 - 1)
SASL_BEGUN = framed(struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 1, 1, -1) + b"\0\x05PLAIN")
"""A mechanism is chosen, and proof is to come."""
_SLOW_FRAME = struct.pack(">ihhih", 1 << 20, ApiKey.PRODUCE, 9, 1, -1)
_RESET = struct.pack("ii", 1, 0)


def connect(address: Address) -> socket.socket:
    """Connect and exchange one request, as a client does before it idles."""
    connection = socket.create_connection(address, CONNECT_SECONDS)
    try:
        connection.sendall(ASK)
        head = connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            raise ConnectionResetError("closed by the node")
        connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    except OSError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def idle(address: Address, count: int = 10_000) -> Iterator[list[socket.socket]]:
    """Hold so many connections; yields them."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(address)) for _ in range(count)]


@contextlib.contextmanager
def slow_writers(address: Address, count: int = 1_000) -> Iterator[list[socket.socket]]:
    """Hold so many connections that each write a byte a second of a frame of a mebibyte."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(address)) for _ in range(count)]
        for connection in held:
            connection.sendall(_SLOW_FRAME)
        stack.enter_context(repeating(lambda wait: _write_a_byte(held, wait)))
        yield held


def _write_a_byte(held: list[socket.socket], wait: Callable[[float], bool]) -> None:
    for connection in held:
        with contextlib.suppress(OSError):
            connection.send(b"\0")
        wait(1.0 / len(held))


def _connected(address: Address, source: str) -> socket.socket:
    return socket.create_connection(address, 5, source_address=(source, 0))


@contextlib.contextmanager
def announced(address: Address, source: str = "") -> Iterator[None]:
    """Announce two gibibytes on one connection after the other, from another address or not."""

    def once(wait: Callable[[float], bool]) -> None:
        with contextlib.suppress(OSError), _connected(address, source) as connection:
            connection.sendall(_ANNOUNCED + bytes(10_000))
            connection.recv(1)
        wait(PAUSE_SECONDS)

    with repeating(once):
        yield


@contextlib.contextmanager
def churn(address: Address, source: str = "") -> Iterator[None]:
    """Come and go: at once, after one request, or with a reset; from another address or not."""
    turn = 0

    def once(wait: Callable[[float], bool]) -> None:
        nonlocal turn
        turn += 1
        with contextlib.suppress(OSError), _connected(address, source) as connection:
            if turn % 3 == 0:
                connection.sendall(ASK)
            elif turn % 3 == 1:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        wait(PAUSE_SECONDS)

    with repeating(once):
        yield


@contextlib.contextmanager
def half_open(address: Address, count: int, source: str = "127.0.0.1") -> Iterator[None]:
    """Hold so many connections in the middle of SASL, each in place of one that was ended.

    The block begins when as many have been opened once.
    """
    held: list[socket.socket] = []

    def once(wait: Callable[[float], bool]) -> None:
        _stop_midway(address, source, held)
        if len(held) > count:
            held.pop(0).close()
        wait(PAUSE_SECONDS)

    try:
        for _ in range(count):
            _stop_midway(address, source, held)
        with repeating(once):
            yield
    finally:
        for connection in held:
            connection.close()


def _stop_midway(address: Address, source: str, held: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        connection = _connected(address, source)
        held.append(connection)
        connection.sendall(SASL_BEGUN)


@contextlib.contextmanager
def repeating(work: Callable[[Callable[[float], bool]], None]) -> Iterator[None]:
    """Do `work` again and again in a thread until the block ends; its wait ends early then."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.is_set():
            work(is_over.wait)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(30)
