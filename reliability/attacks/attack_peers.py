"""Attacks on the ports beside the Kafka port: those that peers dial, and that of metrics.

    PORT-churn      connections that come and go as fast as eight threads make them
    PORT-half       2,000 handshakes that are begun, and of which the proof never comes
    PORT-drip       1,000 handshakes that are written a byte a second
    PORT-lies       first frames that announce sizes up to 2^32 - 1, or are longer than they say
    PORT-largest    a peer that knows the secret: the largest legal messages of every purpose
    PORT-unended    such a peer: one frame of the largest size for each purpose, but its last byte
    PORT-unread     such a peer: questions, and nothing of what comes back is read
    metrics-churn, metrics-drip, metrics-deaf, metrics-lies
                    the metrics port: as above; deaf ones ask for the largest page, and do not read
    metrics-heads   requests whose head has 16 KiB, 64 of them one behind the other

PORT is `controller` (purposes raft and session) or `broker` (ha and call). All of them run on a
cluster, against the node that leads the good client's partition; those that are APART against a
controller in a process of its own.

Source: docs/formats/peer-links.md; KIP-595 has no such bounds, they are ours.
"""

import contextlib
import itertools
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from harness.bad_input import floods
from harness.bad_input.callers import Member
from harness.bad_input.frame import framed
from harness.bad_input.largest_peers import largest_messages, questions
from harness.bad_input.peers import STRANGER_ID
from penstock.coordinator.calls.asking import FRAME_BYTES_MAX as CALL_FRAME_BYTES_MAX
from penstock.net.peer_auth import NONCE_BYTES, DialerHandshake, Identity, PeerHello
from penstock.node.peers import CONTROLLER_FRAME_BYTES_MAX
from penstock.replication.wire import SLAVE_FRAME_BYTES_MAX
from reliability.attacks.attack_frames import ANSWER_SECONDS, RETRY_SECONDS, Address, Aim, Wait

CONTROLLER, BROKER, METRICS = "controller", "broker", "metrics"
PURPOSES: Mapping[str, tuple[bytes, ...]] = {
    CONTROLLER: (b"raft", b"session"),
    BROKER: (b"ha", b"call"),
}
THREADS = 8
HALF, DRIPS = 2_000, 1_000
PAGE = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"
HEAD_BYTES = 16_000
READ_BYTES = 1 << 20


class Port(NamedTuple):
    """One port that is attacked, and what a peer needs to get in."""

    name: str
    address: Address
    secret: bytes


OnPort = Callable[[Port], contextlib.AbstractContextManager[object]]


def _hello() -> bytes:
    own = PeerHello(b"session", "", STRANGER_ID, 1)
    return framed(
        DialerHandshake(Identity(own, 1 << 20), b"k" * 32, os.urandom(NONCE_BYTES)).start()
    )


@contextlib.contextmanager
def _each_in_turn(address: Address, firsts: list[bytes]) -> Iterator[None]:
    """Connect, send the next of `firsts`, wait for an answer or the end, and begin anew."""
    turn = itertools.cycle(firsts)

    def once(wait: Wait) -> None:
        try:
            with socket.create_connection(address, ANSWER_SECONDS) as connection:
                connection.settimeout(1.0)
                if first := next(turn):
                    connection.sendall(first)
                    connection.recv(1 << 16)
        except OSError:
            wait(floods.PAUSE_SECONDS)

    with contextlib.ExitStack() as stack:
        for _ in range(THREADS):
            stack.enter_context(floods.repeating(once))
        yield


@contextlib.contextmanager
def _held(
    address: Address, count: int, first: bytes, rest: bytes, seconds: float
) -> Iterator[None]:
    """Hold so many connections, each with `first` and then a byte of `rest` in so many seconds.

    What the port ends is opened again.
    """
    held: list[tuple[socket.socket, Iterator[int]]] = []

    def once(wait: Wait) -> None:
        try:
            if len(held) < count:
                opened = socket.create_connection(address, ANSWER_SECONDS)
                held.append((opened, iter(rest)))
                opened.sendall(first)
            else:
                wait(seconds / count)
                connection, left = held.pop(0)
                connection.setblocking(False)
                connection.send(bytes((next(left, 0),)))
                held.append((connection, left))
        except BlockingIOError:
            held.append((connection, left))
        except OSError:
            wait(floods.PAUSE_SECONDS)

    try:
        with floods.repeating(once):
            yield
    finally:
        for connection, _ in held:
            connection.close()


def _churn(port: Port) -> contextlib.AbstractContextManager[object]:
    return _each_in_turn(port.address, [b"", _hello()])


def _half(port: Port) -> contextlib.AbstractContextManager[object]:
    return _held(port.address, HALF, _hello(), b"", 5.0)


def _drip(port: Port) -> contextlib.AbstractContextManager[object]:
    return _held(port.address, DRIPS, b"", _hello() * 8, 1.0)


def _lies(port: Port) -> contextlib.AbstractContextManager[object]:
    sizes = (513, CONTROLLER_FRAME_BYTES_MAX, 2**31 - 1, 2**31, 2**32 - 1)
    announced = [struct.pack(">I", size) + _hello()[4:] for size in sizes]
    short = [struct.pack(">I", size) + _hello()[4:] for size in (0, 1, 5, 6, 20)]
    return _each_in_turn(port.address, [*announced, *short, _hello() * 100, bytes(1 << 20)])


# --- peers that know the secret ------------------------------------------------------------------


def _largest_frame(purpose: bytes) -> int:
    """Return the largest body that the port of a purpose takes."""
    if purpose in PURPOSES[CONTROLLER]:
        return CONTROLLER_FRAME_BYTES_MAX
    return max(SLAVE_FRAME_BYTES_MAX, CALL_FRAME_BYTES_MAX)


def _speaking(
    port: Port, purpose: bytes, frames: list[bytes], *, reads: bool
) -> Callable[[Wait], None]:
    """Return one peer's work: send the next frame, on a new link where the last one was ended."""
    turn = itertools.cycle(frames)
    held: list[socket.socket] = []

    def once(wait: Wait) -> None:
        try:
            if not held:
                held.append(Member(port.address, purpose, port.secret, STRANGER_ID).dial())
                held[0].settimeout(1.0)
            held[0].sendall(next(turn))
            if reads:
                take_what_is_there(held[0])
            wait(floods.PAUSE_SECONDS)
        except (OSError, EOFError) as error:
            if isinstance(error, TimeoutError) and not reads:
                return  # it takes no more, as it is not read: go on with this link
            while held:
                held.pop().close()
            wait(RETRY_SECONDS)

    return once


def take_what_is_there(connection: socket.socket) -> None:
    """Read what has come, and wait for nothing. Raises ConnectionResetError at its end."""
    seconds = connection.gettimeout()
    connection.setblocking(False)
    try:
        if not connection.recv(READ_BYTES):
            raise ConnectionResetError("closed by the node")
    except BlockingIOError:
        pass
    finally:
        connection.settimeout(seconds)


@contextlib.contextmanager
def _members(
    port: Port, frames_of: Callable[[bytes], list[bytes]], *, reads: bool
) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for purpose in PURPOSES[port.name]:
            work = _speaking(port, purpose, frames_of(purpose), reads=reads)
            stack.enter_context(floods.repeating(work))
        yield


def _largest(port: Port) -> contextlib.AbstractContextManager[object]:
    return _members(
        port, lambda purpose: [framed(body) for body in largest_messages(purpose)], reads=True
    )


@contextlib.contextmanager
def _unended(port: Port) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for purpose in PURPOSES[port.name]:
            size = _largest_frame(purpose)
            link = stack.enter_context(
                Member(port.address, purpose, port.secret, STRANGER_ID).dial()
            )
            link.sendall(struct.pack(">I", size) + bytes(size - 1))
        yield


def _unread(port: Port) -> contextlib.AbstractContextManager[object]:
    return _members(port, questions, reads=False)


# --- the metrics port ----------------------------------------------------------------------------


def _metrics_churn(port: Port) -> contextlib.AbstractContextManager[object]:
    return _each_in_turn(port.address, [b"", PAGE])


def _metrics_drip(port: Port) -> contextlib.AbstractContextManager[object]:
    return _held(port.address, DRIPS, b"", PAGE[:-2] + b"X: " + b"x" * 1_000, 1.0)


def _metrics_deaf(port: Port) -> contextlib.AbstractContextManager[object]:
    return _held(port.address, DRIPS, PAGE, b"", 1.0)


def _metrics_lies(port: Port) -> contextlib.AbstractContextManager[object]:
    long = b"GET /" + b"x" * (1 << 20)
    body = PAGE[:-2] + b"Content-Length: 9999999999999\r\n\r\n" + bytes(1 << 20)
    negative = PAGE[:-2] + b"Content-Length: -1\r\n\r\n"
    chunked = PAGE[:-2] + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + bytes(1 << 16)
    many = PAGE[:-2] + b"".join(b"h%d: x\r\n" % number for number in range(100_000))
    return _each_in_turn(port.address, [long, body, negative, chunked, many])


def _metrics_heads(port: Port) -> contextlib.AbstractContextManager[object]:
    """Heads of as many fields, and of as long a one, as there may be."""
    many, field = PAGE[:-2], b"h: x\r\n"
    many += field * ((HEAD_BYTES - len(many)) // len(field)) + b"\r\n"
    long = PAGE[:-2] + b"h: " + b"x" * (HEAD_BYTES - len(PAGE)) + b"\r\n\r\n"
    path = b"GET /" + b"x" * (HEAD_BYTES - 100) + b" HTTP/1.1\r\nHost: node\r\n\r\n"
    return _each_in_turn(port.address, [one * 64 for one in (many, long, path)])


_ON_PEER_PORTS: Mapping[str, OnPort] = {
    "churn": _churn,
    "half": _half,
    "drip": _drip,
    "lies": _lies,
    "largest": _largest,
    "unended": _unended,
    "unread": _unread,
}
_ON_METRICS: Mapping[str, OnPort] = {
    "churn": _metrics_churn,
    "drip": _metrics_drip,
    "deaf": _metrics_deaf,
    "lies": _metrics_lies,
    "heads": _metrics_heads,
}


def _at(name: str, attack: OnPort) -> Callable[[Aim], contextlib.AbstractContextManager[object]]:
    def aimed(aim: Aim) -> contextlib.AbstractContextManager[object]:
        addresses = {CONTROLLER: aim.controller, BROKER: aim.ha, METRICS: aim.metrics}
        return attack(Port(name, addresses[name], aim.secret))

    return aimed


PEERS = {
    f"{port}-{kind}": _at(port, attack)
    for port, attacks in (
        (CONTROLLER, _ON_PEER_PORTS),
        (BROKER, _ON_PEER_PORTS),
        (METRICS, _ON_METRICS),
    )
    for kind, attack in attacks.items()
}
"""By name; each is a context that lasts as long as its block."""

AT_A_CONTROLLER = tuple(name for name in PEERS if not name.startswith(BROKER))
"""What a controller in a process of its own can be attacked by: it has no other ports."""
KNOW_THE_SECRET = tuple(
    f"{port}-{kind}" for port in PURPOSES for kind in ("largest", "unended", "unread")
)
"""Whoever knows the secret may do anything: of these only a turn of the loop and memory have bounds
that are promised."""
