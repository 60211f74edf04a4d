"""An open port of a simulated host."""

import errno
import os
from collections import deque
from collections.abc import Callable

from simulator.kernel.ports import PortTable
from simulator.kernel.process import Process
from simulator.kernel.sockets import FIRST_DESCRIPTOR, Address, SimSocket

BACKLOG_MAX = 128
"""Connections that wait to be accepted; packets for more are dropped."""


class ListenSocket:
    """An open port: connections wait in it until the program accepts them."""

    def __init__(self, network: PortTable, process: Process, address: Address) -> None:
        self._network = network
        self._loop = network.loop
        self._descriptor = FIRST_DESCRIPTOR + self._loop.next_serial()
        self.process = process
        self.address = address
        self.is_open = True
        self._backlog: deque[SimSocket] = deque()
        self._reader: Callable[[], object] | None = None
        self._is_read_due = False

    def fileno(self) -> int:
        """Return a number that no other socket of the run has, and no real one."""
        return self._descriptor

    def getsockname(self) -> Address:
        """Return the host and the port that it listens at."""
        return self.address

    def accept(self) -> tuple[SimSocket, Address]:
        """Return a connection that waits, and where it comes from. Raises BlockingIOError."""
        if not self._backlog:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        accepted = self._backlog.popleft()
        return accepted, accepted.getpeername()

    def close(self) -> None:
        """Close the port; connections that were not accepted are reset."""
        if self.is_open:
            self.is_open = False
            self._reader = None
            self._network.forget_listener(self)
            while self._backlog:
                self._backlog.popleft().close(is_abrupt=True)

    def set_reader(self, reader: Callable[[], object] | None) -> bool:
        """Have `reader` called, as the process that listens, while connections wait.

        Returns whether there was one before.
        """
        had_one = self._reader is not None
        self._reader = reader
        self._wake()
        return had_one

    @property
    def has_room(self) -> bool:
        """Whether one more connection may wait."""
        return len(self._backlog) < BACKLOG_MAX

    def queue(self, connection: SimSocket) -> None:
        """Let a connection wait to be accepted."""
        self._backlog.append(connection)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and self._backlog and not self._is_read_due:
            self._is_read_due = True
            self._loop.call_soon(self._call_reader, context=self.process.context)

    def _call_reader(self) -> None:
        self._is_read_due = False
        if self._reader is not None:
            try:
                self._reader()
            finally:
                self._wake()
