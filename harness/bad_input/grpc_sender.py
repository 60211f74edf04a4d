"""Sends bad bytes to the port of gRPC clients, and knows of each what the node has made of it.

Behind the bytes of a connection goes a PING with a number of its own. Its answer says that they
were dealt with and the connection lives; else the node has ended it, with a GOAWAY or without. What
waits for more bytes, as half a frame does, is waited for shortly.

What comes back is checked: it is whole frames of HTTP/2, and never says that the node failed.
"""

import socket
import struct
from collections.abc import Iterable

from harness.bad_input.callers import CONNECT_SECONDS, Address
from harness.bad_input.frame import BadFrame
from harness.bad_input.grpc_frames import raw_frame
from harness.bad_input.sender import PROBLEMS_MAX, Tally
from penstock.grpc.proto.messages import Status
from penstock.grpc.statuses import Code
from penstock.http2.codes import FRAME_HEAD_BYTES, ErrorCode, FrameType
from penstock.http2.frames import FrameHead, read_head
from penstock.protobuf.codec import encode

WAITS_SECONDS = 0.05
"""How long a PING is waited for that may be inside of what it follows."""
ENDS_SECONDS = 5.0
"""How long the end of a connection may take that is told with a GOAWAY."""
_ACK = 1
_MARKER = b"deal"
_KINDS_MAX = 9
_FAILED = ErrorCode.INTERNAL_ERROR
_INTERNAL = encode(Status(code=Code.INTERNAL_SERVER_ERROR))


def call_grpc(address: Address, frames: Iterable[BadFrame], tally: Tally) -> None:
    """Send each on a connection of its own. Raises OSError when the port takes nobody."""
    for number, frame in enumerate(frames):
        with socket.create_connection(address, CONNECT_SECONDS) as connection:
            connection.settimeout(WAITS_SECONDS)
            marker = _MARKER + struct.pack(">I", number)
            received = bytearray()
            try:
                _write(connection, frame)
                connection.sendall(raw_frame(FrameType.PING, 0, 0, marker))
                _read(connection, received, marker)
                tally.answered += 1
            except TimeoutError:
                tally.waited_for += 1
            except ConnectionError:
                tally.refused += 1
        tally.count(frame)
        problem = problem_of(bytes(received))
        if problem and len(tally.problems) < PROBLEMS_MAX:
            tally.problems.append(f"{problem}: {frame}")


def _write(connection: socket.socket, frame: BadFrame) -> None:
    if frame.is_slow and len(frame.data) < 1_000:
        for byte in frame.data:
            connection.sendall(bytes((byte,)))
    else:
        connection.sendall(frame.data)


def _read(connection: socket.socket, received: bytearray, marker: bytes) -> None:
    """Read up to the answer to the PING. Raises ConnectionError at the end, TimeoutError."""
    wanted = raw_frame(FrameType.PING, _ACK, 0, marker)
    while wanted not in received:
        some = connection.recv(1 << 16)
        if not some:
            raise ConnectionResetError("closed by the node")
        received += some
        if any(head.kind == FrameType.GOAWAY for head, _ in frames_in(bytes(received))):
            connection.settimeout(ENDS_SECONDS)


def frames_in(data: bytes) -> list[tuple[FrameHead, bytes]]:
    """Cut what a node has sent into frames; the last one may be cut off."""
    found = []
    at = 0
    while at + FRAME_HEAD_BYTES <= len(data):
        head = read_head(data, at)
        payload = data[at + FRAME_HEAD_BYTES : at + FRAME_HEAD_BYTES + head.length]
        found.append((head, payload))
        at += FRAME_HEAD_BYTES + head.length
    return found


def problem_of(data: bytes) -> str | None:
    """Return what a node should not have sent."""
    for head, payload in frames_in(data):
        if head.kind > _KINDS_MAX:
            return f"a frame of kind {head.kind}"
        code = b""
        if head.kind == FrameType.GOAWAY:
            code = payload[4:8]
        elif head.kind == FrameType.RST_STREAM:
            code = payload[:4]
        if code and int.from_bytes(code, "big") == _FAILED:
            return "the node says that it failed"
        if head.kind == FrameType.DATA and _INTERNAL in payload:
            return f"an answer with INTERNAL_SERVER_ERROR {payload!r}"
    return None
