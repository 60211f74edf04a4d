"""The transport that a Connection behind TLS writes to: it encrypts, a piece at a time.

    write ─► backlog of plain bytes ─► pieces of 32 KiB, TURN_BYTES in one turn ─► socket

Bytes are encrypted when the socket takes them, so a client that does not read costs no more work or
memory than without TLS: what waits here is told to the connection as bytes of its transport.
Encrypting holds the loop for half a millisecond for each megabyte; one answer may have many, so a
turn has its share. Pieces are small because OpenSSL keeps the largest buffer that it ever had for
as long as the connection lives.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any

from penstock.base.ports import Buffer

PIECE_BYTES = 32 << 10
TURN_BYTES = 512 << 10
"""Encrypted in one turn for one connection."""
JOINED_BYTES_MAX = 4 << 10
"""Smaller buffers share a record: each record costs 22 bytes and some microseconds."""


class TlsTransport(asyncio.Transport):
    """See the module. Used from the loop; `socket_takes` is called by its TlsSide."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        raw: asyncio.Transport,
        tls: ssl.SSLObject,
        outgoing: ssl.MemoryBIO,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._raw = raw
        self._tls = tls
        self._outgoing = outgoing
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._is_due = False
        self._is_closing = False
        self.is_full = False
        """Whether the socket takes nothing more for now."""
        self.is_paused = False
        """Whether the connection wants to read nothing."""
        self.protocol: Any = None
        self.on_resume: Any = None
        """Called when the connection wants to read on."""
        self._has_told_full = False

    def set_protocol(self, protocol: Any) -> None:
        """Have a connection told when to stop writing, and when to go on."""
        self.protocol = protocol

    # --- writing -------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        """Encrypt and send, now or later; the buffer must not change until then."""
        self._add(memoryview(data).cast("B"))
        self._pump()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send several buffers; small ones share records."""
        joined = bytearray()
        for data in list_of_data:
            if len(data) <= JOINED_BYTES_MAX:
                joined += data
                continue
            self._add(memoryview(joined))
            joined = bytearray()
            self._add(memoryview(data).cast("B"))
        self._add(memoryview(joined))
        self._pump()

    def _add(self, data: memoryview) -> None:
        if len(data):
            self._backlog.append(data)
            self._backlog_bytes += len(data)

    def _pump(self) -> None:
        """Encrypt what the socket takes, up to a turn's share."""
        left = TURN_BYTES
        backlog = self._backlog
        while backlog and left > 0 and not self.is_full and not self._raw.is_closing():
            piece = backlog[0][:PIECE_BYTES]
            try:
                count = self._tls.write(piece)
            except ssl.SSLError:
                self.abort()
                return
            left -= count
            self._backlog_bytes -= count
            if count == len(backlog[0]):
                backlog.popleft()
            else:
                backlog[0] = backlog[0][count:]
            self._raw.write(self._outgoing.read())
        if backlog and not self.is_full and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._pump_on)
        self._tell()
        if self._is_closing and not backlog:
            self._finish()

    def _pump_on(self) -> None:
        self._is_due = False
        self._pump()

    def _tell(self) -> None:
        """Tell the connection whether bytes wait."""
        is_full = self.is_full or bool(self._backlog)
        if is_full is not self._has_told_full and not self._is_closing:
            self._has_told_full = is_full
            if is_full:
                self.protocol.pause_writing()
            else:
                self.protocol.resume_writing()

    def socket_takes(self, takes: bool) -> None:
        """The socket takes bytes again, or no more for now."""
        self.is_full = not takes
        if takes:
            self._pump()
        else:
            self._tell()

    def flush(self) -> None:
        """Send what OpenSSL has to say by itself."""
        data = self._outgoing.read()
        if data and not self._raw.is_closing():
            self._raw.write(data)

    def get_write_buffer_size(self) -> int:
        """Return the bytes that wait, encrypted or not."""
        return self._backlog_bytes + self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the connection is told that bytes wait."""
        self._raw.set_write_buffer_limits(high, low)

    # --- reading -------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Give the connection nothing more until it wants to read on."""
        self.is_paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Go on in a turn of its own: the connection is in the middle of its work.

        The side reads from the socket again once it has decrypted what came before.
        """
        self.is_paused = False
        if self.on_resume is not None:
            self._loop.call_soon(self.on_resume)

    # --- the end -------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._is_closing or self._raw.is_closing()

    def close(self) -> None:
        """Send what waits, say that it is over, and close; nothing more is read meanwhile."""
        if not self._is_closing:
            self._is_closing = True
            if self._backlog:
                self._raw.pause_reading()
            else:
                self._finish()

    def _finish(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # the other side's word is not waited for
            self._tls.unwrap()
        self.flush()
        self._raw.close()

    def abort(self) -> None:
        """Close now; what waits is lost."""
        self._is_closing = True
        self._backlog.clear()
        self._backlog_bytes = 0
        self._raw.abort()

    def lost(self) -> None:
        """Let go of the connection, which refers to this: the socket is closed.

        Both, and OpenSSL's memory, would stay until all objects are gone through.
        """
        self._is_closing = True
        self._backlog.clear()
        self._backlog_bytes = 0
        self.protocol = self.on_resume = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the socket's transport knows."""
        return self._raw.get_extra_info(name, default)
