"""Listening sockets, with errors that say what to change.

Listeners accept another function to open a socket, such as that of a simulated host.
"""

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import Callable

from penstock.base.errors import ConfigError
from penstock.base.ports import Buffer

TCP_ESTABLISHED = 1
"""The first byte of TCP_INFO while both ends may send (Linux, `include/net/tcp_states.h`)."""

OpenSocket = Callable[[str, int], socket.socket]
"""Returns a non-blocking listening socket for a host and a port. Raises ConfigError."""

DESCRIPTOR_RESERVE = 456
"""Descriptors kept from clients: 200 for log files, the metrics port and the like, and those that
unauthenticated connections at the two peer ports can hold."""

_BACKLOG = 1024
_MAPPED = "::ffff:"
"""How the system shows an address of IPv4 at a port of IPv6 (RFC 4291, 2.5.5.2)."""
_JOIN_BYTES_MAX = 64 << 10
"""Answers up to this size in total are copied into one write, larger ones are gathered."""
_GATHER_BYTES = 1 << 20
"""Largest gathered write: its buffers are freed only when all of it is sent."""


def host_of(address: tuple[str | int, ...]) -> str:
    """Return the host of a socket's address; one of IPv4 has the same form at every port.

    A port of IPv6 shows it as ::ffff:10.0.0.7: limits, quotas and rules of 10.0.0.7 mean it too.
    """
    host = str(address[0])
    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host


def open_socket(host: str, port: int) -> socket.socket:
    """Return a non-blocking listening socket. Raises ConfigError with what to change."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError(f"can not listen on {host}:{port}: {error.strerror}") from error
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setblocking(False)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        hint = _BIND_HINTS.get(error.errno or 0, "choose another host or port")
        raise ConfigError(f"can not listen on {host}:{port}: {error.strerror}; {hint}") from error
    return opened


_BIND_HINTS = {
    errno.EADDRINUSE: "stop the process that uses the port, or choose another port",
    errno.EACCES: "ports below 1024 need privileges, choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have the address, choose another host",
}


def has_hung_up(accepted: socket.socket | None) -> bool:
    """Whether the peer has closed its end; False if there is no system socket."""
    if accepted is None:
        return False
    (state,) = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return state != TCP_ESTABLISHED


def write_all(transport: asyncio.Transport, buffers: list[Buffer], size: int) -> None:
    """Write buffers of `size` bytes in total, with as few system calls as is worthwhile."""
    if len(buffers) == 1:
        transport.write(buffers[0])
    elif size <= _JOIN_BYTES_MAX:
        transport.write(b"".join(buffers))
    elif size <= _GATHER_BYTES:
        transport.writelines(buffers)
    else:
        _write_in_parts(transport, buffers)


def _write_in_parts(transport: asyncio.Transport, buffers: list[Buffer]) -> None:
    part: list[Buffer] = []
    size = 0
    for buffer in buffers:
        if part and size + len(buffer) > _GATHER_BYTES:
            transport.writelines(part)
            part, size = [], 0
        part.append(buffer)
        size += len(buffer)
    transport.writelines(part)


def descriptors_for_connections() -> int:
    """Return how many connections the descriptor limit permits, less the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 30
    return max(16, int(soft) - DESCRIPTOR_RESERVE)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of file descriptors to the hard one; return the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
    return soft


def peer_port(transport: asyncio.BaseTransport) -> int:
    """Return the port of the other side; 0 where that is not known."""
    address = transport.get_extra_info("peername")
    return int(address[1]) if isinstance(address, tuple) else 0
