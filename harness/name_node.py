"""A NameNode that answers every call alike: with an error of Hadoop's, or not at all.

What it says is Hadoop's RPC (RpcHeader.proto of hadoop-common): frames of a header with a length
before it; numbers are base 128, texts have lengths.
"""

import socketserver
import struct
import threading
from enum import Enum
from types import TracebackType
from typing import Self

GREETING_BYTES = 7
CALL_ID = 3
"""Field of a request's header; zigzag."""
CONTEXT = -3
"""Call id of what a client says first, and waits for no answer to."""


class Status(Enum):
    """How a call ends."""

    ERROR = 1
    FATAL = 2
    """The connection ends with it, as where Kerberos is wanted."""
    CLOSED = -1
    SILENT = -2


class NameNode(socketserver.ThreadingTCPServer):
    """A server on a port of its own, until the end of the block."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, status: Status, kind: str = "", text: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Calls)
        self.status = status
        self.kind = kind
        self.text = text
        self.call_count = 0
        self.ends = threading.Event()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.ends.set()
        self.shutdown()
        self.server_close()


class _Calls(socketserver.StreamRequestHandler):
    server: NameNode

    def handle(self) -> None:
        self.rfile.read(GREETING_BYTES)
        while size := self.rfile.read(4):
            call_id = _call_id(self.rfile.read(struct.unpack(">I", size)[0]))
            if call_id != CONTEXT and not self._answer(call_id):
                return

    def _answer(self, call_id: int) -> bool:
        """Answer, or not; False: the connection ends."""
        self.server.call_count += 1
        status = self.server.status
        if status is Status.CLOSED:
            return False
        if status is Status.SILENT:
            self.server.ends.wait()
            return False
        header = _number(1, call_id) + _number(2, status.value)
        header += _text(4, self.server.kind) + _text(5, self.server.text)
        frame = _varint(len(header)) + header
        self.wfile.write(struct.pack(">I", len(frame)) + frame)
        return status is not Status.FATAL


def _call_id(frame: bytes) -> int:
    """Return the call id in the header that a request begins with."""
    size, at = _read_varint(frame, 0)
    end = at + size
    while at < end:
        key, at = _read_varint(frame, at)
        value, at = _read_varint(frame, at)
        if key == CALL_ID << 3:
            return (value >> 1) ^ -(value & 1)
        if key & 7 == 2:
            at += value
    raise ValueError("a request without a call id")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 128:
            return value, at


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value.encode())) + value.encode()
