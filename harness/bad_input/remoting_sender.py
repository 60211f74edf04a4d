"""Sends bad frames to the port of RocketMQ's remoting clients, and knows what became of each.

Behind the bytes of a connection goes a small good request, whose answer says that they were dealt
with and the connection lives; else the node has ended it. What waits for more bytes, as half a
frame does, is waited for shortly.

What comes back is checked: it is whole frames, each an answer, or told without being asked for.
"""

import socket
from collections.abc import Iterable

from harness.bad_input.callers import CONNECT_SECONDS, Address
from harness.bad_input.frame import BadFrame
from harness.bad_input.sender import PROBLEMS_MAX, Tally
from penstock.remoting.errors import MalformedFrame
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import ONE_WAY, Command
from penstock.remoting.wire.frame import decode_frame, encode_frame

WAITS_SECONDS = 0.1
"""How long an answer is waited for that may be inside of what it follows."""
_MARKER = 0x7EAD0000
_SIZE_BYTES = 4


def call_remoting(address: Address, frames: Iterable[BadFrame], tally: Tally) -> None:
    """Send each on a connection of its own. Raises OSError when the port takes nobody."""
    for frame in frames:
        with socket.create_connection(address, CONNECT_SECONDS) as connection:
            connection.settimeout(WAITS_SECONDS)
            received = bytearray()
            try:
                _write(connection, frame)
                connection.sendall(_marker())
                _read(connection, received)
                tally.answered += 1
            except TimeoutError:
                tally.waited_for += 1
            except ConnectionError:
                tally.refused += 1
        tally.count(frame)
        problem = problem_of(bytes(received))
        if problem and len(tally.problems) < PROBLEMS_MAX:
            tally.problems.append(f"{problem}: {frame}")


def problem_of(received: bytes) -> str:
    """Return what is wrong with what a node has sent; nothing if it is whole answers."""
    for command in _commands(bytearray(received)):
        if isinstance(command, MalformedFrame):
            return f"an answer that is none: {command}"
        if not command.is_answer and not command.flag & ONE_WAY:
            return f"a request of the node that wants an answer: {command.code}"
    return ""


def _marker() -> bytes:
    fields = {"consumerGroup": "marker"}
    return encode_frame(Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields, opaque=_MARKER))


def _write(connection: socket.socket, frame: BadFrame) -> None:
    if frame.is_slow and len(frame.data) < 1_000:
        for byte in frame.data:
            connection.sendall(bytes((byte,)))
    else:
        connection.sendall(frame.data)


def _read(connection: socket.socket, received: bytearray) -> None:
    """Read until the marker is answered. Raises ConnectionError, TimeoutError."""
    while True:
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionResetError("closed by the node")
        received += more
        if any(
            isinstance(one, Command) and one.is_answer and one.opaque == _MARKER
            for one in _commands(bytearray(received))
        ):
            return


def _commands(received: bytearray) -> list[Command | MalformedFrame]:
    """Return the whole frames of what was received."""
    found: list[Command | MalformedFrame] = []
    at = 0
    while len(received) - at >= _SIZE_BYTES:
        end = at + _SIZE_BYTES + int.from_bytes(received[at : at + _SIZE_BYTES])
        if end > len(received):
            break
        try:
            found.append(decode_frame(memoryview(bytes(received[at + _SIZE_BYTES : end]))))
        except MalformedFrame as error:
            found.append(error)
        at = end
    return found
