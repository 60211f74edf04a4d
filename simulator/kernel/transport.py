"""The transport of a simulated connection: asyncio's rules over a simulated socket.

It behaves like asyncio's socket transport: it writes at once what the kernel takes and keeps the
rest, pauses the protocol above the high-water mark, reads into a BufferedProtocol's memory or
passes bytes to a Protocol, and closes the connection when a protocol's method fails.

Source: asyncio's selector transports (CPython 3.11). TLS and sendfile are not simulated.
"""

import asyncio
import warnings
from collections import deque
from collections.abc import Iterable
from typing import Any, cast

from penstock.base.ports import Buffer
from simulator.kernel.ports import TransportLoop
from simulator.kernel.sockets import SimSocket

_READ_BYTES_MAX = 256 << 10
_HIGH_BYTES = 64 << 10
"""Unsent bytes at which the protocol is paused, unless it sets a mark of its own."""


class SimTransport(asyncio.Transport):
    """See the module. Created, used and called back in its process."""

    def __init__(
        self,
        loop: TransportLoop,
        opened: SimSocket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None],
    ) -> None:
        """Calls `connection_made` soon, begins to read then, and then fulfils `waiter`."""
        extra = {
            "socket": opened,
            "sockname": tuple(opened.getsockname()),
            "peername": tuple(opened.getpeername()),
        }
        super().__init__(extra)
        self._sim_loop = loop
        self._socket = opened
        self._unsent: deque[bytes | memoryview] = deque()
        self._unsent_bytes = 0
        self._high_bytes = _HIGH_BYTES
        self._low_bytes = _HIGH_BYTES // 4
        self._is_protocol_paused = False
        self._is_closing = False
        self._is_lost = False
        """Nothing more is sent or read: `connection_lost` has been called, or is about to be."""
        self._is_paused = False
        self._is_at_end = False
        self._is_end_sent = False
        self.set_protocol(protocol)
        opened.watcher = self
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._read_or_not)
        loop.call_soon(_fulfil, waiter)

    # --- the protocol's side -------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Give what arrives from now on to `protocol`."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives bytes."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether it is closed, or closes when everything is sent; all are when the run is over."""
        return self._is_closing or self._sim_loop.is_over

    def is_reading(self) -> bool:
        """Whether what arrives is handed over."""
        return not self._is_closing and not self._is_paused

    def pause_reading(self) -> None:
        """Leave what arrives in the kernel."""
        self._is_paused = True
        self._read_or_not()

    def resume_reading(self) -> None:
        """Hand over what has arrived, soon, and what arrives."""
        self._is_paused = False
        self._read_or_not()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pause the protocol above `high` unsent bytes and resume it at `low` (a quarter)."""
        self._high_bytes = _HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low
        self._pause_or_resume()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high mark."""
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the kernel has not taken yet."""
        return self._unsent_bytes

    def write(self, data: Buffer) -> None:
        """Send the bytes, which may change afterwards."""
        if self._is_end_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not len(data) or self._is_lost:
            return
        rest: bytes | memoryview = bytes(data)
        if not self._unsent:
            rest = memoryview(rest)
            try:
                rest = rest[self._socket.send(rest) :]
            except OSError as error:
                self._fail(error, "the connection was lost")
                return
            if not len(rest):
                return
            self._socket.want_write()
        self._unsent.append(rest)
        self._unsent_bytes += len(rest)
        self._pause_or_resume()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send the buffers one after another."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Whether the sending half can be ended alone: yes."""
        return True

    def write_eof(self) -> None:
        """End the sending half behind what was written."""
        if not self._is_closing and not self._is_end_sent:
            self._is_end_sent = True
            if not self._unsent:
                self._socket.shutdown_write()

    def close(self) -> None:
        """Read no more; close when everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            self._read_or_not()
            if not self._unsent:
                self._lose(None)

    def abort(self) -> None:
        """Close now; what the kernel has not taken is dropped."""
        self._force_close(None)

    def __del__(self) -> None:
        if not self._is_closing and not self._sim_loop.is_over:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<transport of {self._socket.process} to {self._socket.getpeername()}>"

    # --- the socket's side ---------------------------------------------------------------------

    def on_readable(self) -> None:
        """Hand over what has arrived."""
        if self._is_lost or self._is_paused:
            return
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._read_into(self._protocol)
        else:
            self._read_bytes(self._protocol)

    def _read_into(self, protocol: asyncio.BufferedProtocol) -> None:
        try:
            target = memoryview(protocol.get_buffer(-1))
            if not target:
                raise RuntimeError("get_buffer() returned an empty buffer")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001  handed to whoever watches the loop
            self._fail(error, "Fatal error: protocol.get_buffer() call failed.")
            return
        try:
            count = self._socket.receive_into(target)
        except OSError as error:
            self._fail(error, "the connection was lost")
            return
        if count:
            self._tell("buffer_updated", count)
        elif count == 0:
            self._read_end()

    def _read_bytes(self, protocol: asyncio.BaseProtocol) -> None:
        try:
            data = self._socket.receive(_READ_BYTES_MAX)
        except OSError as error:
            self._fail(error, "the connection was lost")
            return
        if data:
            self._tell("data_received", data)
        elif data is not None:
            self._read_end()

    def _tell(self, method: str, argument: Any) -> None:
        try:
            getattr(self._protocol, method)(argument)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  handed to whoever watches the loop
            self._fail(error, f"Fatal error: protocol.{method}() call failed.")

    def _read_end(self) -> None:
        self._is_at_end = True
        self._read_or_not()
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        try:
            is_kept = protocol.eof_received()
        except Exception as error:  # noqa: BLE001  handed to whoever watches the loop
            self._fail(error, "Fatal error: protocol.eof_received() call failed.")
            return
        if not is_kept:
            self.close()

    def on_writable(self) -> None:
        """Go on with what the kernel had no room for."""
        if self._is_lost:
            return
        unsent = self._unsent
        try:
            while unsent:
                data = unsent[0]
                count = self._socket.send(data)
                self._unsent_bytes -= count
                if count < len(data):
                    unsent[0] = data[count:]
                    self._socket.want_write()
                    break
                unsent.popleft()
        except OSError as error:
            self._fail(error, "the connection was lost")
            return
        self._pause_or_resume()
        if not unsent:
            self._after_last_byte()

    def _after_last_byte(self) -> None:
        if self._is_closing:
            self._lose(None)
        elif self._is_end_sent:
            self._socket.shutdown_write()

    def _read_or_not(self) -> None:
        wanted = not (self._is_paused or self._is_closing or self._is_at_end)
        self._socket.want_read(wanted)

    def _pause_or_resume(self) -> None:
        """Tell the protocol whether it writes faster than the other end reads."""
        is_paused = self._is_protocol_paused
        if not is_paused and self._unsent_bytes > self._high_bytes:
            self._is_protocol_paused = True
            self._tell_flow("pause_writing")
        elif is_paused and self._unsent_bytes <= self._low_bytes:
            self._is_protocol_paused = False
            self._tell_flow("resume_writing")

    def _tell_flow(self, method: str) -> None:
        try:
            getattr(self._protocol, method)()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  handed to whoever watches the loop
            self._report(error, f"protocol.{method}() failed")

    # --- the end -------------------------------------------------------------------------------

    def _fail(self, error: BaseException, message: str) -> None:
        if not isinstance(error, OSError):
            self._report(error, message)
        self._force_close(error)

    def _report(self, error: BaseException, message: str) -> None:
        self._sim_loop.call_exception_handler(
            {
                "message": message,
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )

    def _force_close(self, error: BaseException | None) -> None:
        self._unsent.clear()
        self._unsent_bytes = 0
        self._is_closing = True
        self._read_or_not()
        self._lose(error)

    def _lose(self, error: BaseException | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._sim_loop.call_soon(self._call_connection_lost, error)

    def _call_connection_lost(self, error: BaseException | None) -> None:
        try:
            self._protocol.connection_lost(cast("Exception | None", error))
        finally:
            self._socket.close()


def _fulfil(waiter: asyncio.Future[None]) -> None:
    if not waiter.cancelled():
        waiter.set_result(None)
