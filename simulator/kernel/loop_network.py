"""The networking methods of the simulated loop.

These are the methods that production code calls: readers of listening sockets, accepted sockets,
connections to a host and port, servers (asyncio.start_server), name resolution.

The transfer of bytes is in network.py and sockets.py.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from penstock.base.errors import ConfigError
from simulator.kernel.listen_socket import ListenSocket
from simulator.kernel.network import Network
from simulator.kernel.process import current_process
from simulator.kernel.sockets import SimSocket
from simulator.kernel.transport import SimTransport

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)


class LoopNetwork(asyncio.BaseEventLoop):
    """See the module."""

    network: Network
    is_over: bool

    def open_socket(self, host: str, port: int) -> socket.socket:
        """Return a listening socket of the current process, as Machine.open_socket does.

        It has what listeners use: fileno, getsockname, accept, close. Port 0 takes a free one.
        Raises ConfigError where the port is in use on the host.
        """
        return cast("socket.socket", self.network.listen(current_process(), host, port))

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        """Have the callback called while connections wait at a listening socket."""
        self.network.listener_of(_number(fd)).set_reader(partial(callback, *args))

    def remove_reader(self, fd: Any) -> bool:
        """Undo add_reader."""
        return self.network.listener_of(_number(fd)).set_reader(None)

    async def connect_accepted_socket(
        self,
        protocol_factory: Callable[[], ProtocolT],
        sock: socket.socket,
        *,
        ssl: Any = None,
        **_limits: Any,
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Make a transport for what `accept` returned."""
        _refuse_tls(ssl)
        return await self._connect(protocol_factory, cast("SimSocket", sock))

    async def create_connection(
        self,
        protocol_factory: Callable[[], ProtocolT],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        **_limits: Any,
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Connect to a port of a simulated host. Raises OSError.

        While nothing answers it waits for a minute, as an operating system does.
        """
        _refuse_tls(ssl)
        if sock is not None or host is None or port is None:
            raise ValueError("a simulated connection is made by host and port")
        opened = await self.network.connect(current_process(), host, port)
        return await self._connect(protocol_factory, opened)

    async def _connect(
        self, protocol_factory: Callable[[], ProtocolT], opened: SimSocket
    ) -> tuple[asyncio.Transport, ProtocolT]:
        protocol = protocol_factory()
        waiter: asyncio.Future[None] = self.create_future()
        transport = SimTransport(self, opened, protocol, waiter)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        **_options: Any,
    ) -> "SimServer":
        """Listen at a port of the current process's host. Raises OSError where it is in use."""
        _refuse_tls(ssl)
        named = host if isinstance(host, str) else ""
        try:
            opened = self.network.listen(current_process(), named, port or 0)
        except ConfigError as error:
            raise OSError(errno.EADDRINUSE, str(error)) from error
        return SimServer(self, opened, protocol_factory)

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **_options: Any
    ) -> list[tuple[Any, ...]]:
        """Return the one address of a simulated host. Raises socket.gaierror."""
        self.network.resolve(host, current_process().host)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]


class SimServer(asyncio.AbstractServer):
    """What `create_server` returns."""

    def __init__(
        self,
        loop: LoopNetwork,
        opened: ListenSocket,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._sim_loop = loop
        self._socket = opened
        self._protocol_factory = protocol_factory
        opened.set_reader(self._accept)

    @property
    def sockets(self) -> tuple[ListenSocket, ...]:
        """The listening socket, while it is open."""
        return (self._socket,) if self._socket.is_open else ()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return its loop."""
        return self._sim_loop

    def is_serving(self) -> bool:
        """Whether it accepts."""
        return self._socket.is_open

    def close(self) -> None:
        """Accept no more; connections go on."""
        self._socket.close()

    async def start_serving(self) -> None:
        """It serves from the start."""

    async def serve_forever(self) -> None:
        """Wait until cancelled, then close."""
        try:
            await self._sim_loop.create_future()
        finally:
            self.close()

    async def wait_closed(self) -> None:
        """Closing takes no time."""

    def _accept(self) -> None:
        accepted, _ = self._socket.accept()
        waiter: asyncio.Future[None] = self._sim_loop.create_future()
        SimTransport(self._sim_loop, accepted, self._protocol_factory(), waiter)


def _number(fd: Any) -> int:
    return fd if isinstance(fd, int) else int(fd.fileno())


def _refuse_tls(context: Any) -> None:
    if context is not None and context is not False:
        raise ValueError("the simulation knows no TLS: configure plaintext")
