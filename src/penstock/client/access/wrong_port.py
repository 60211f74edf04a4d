"""Whether a port has TLS, asked when a first connection to it has come to nothing.

A port with TLS closes a connection that begins without, and one without TLS closes one that begins
with it. Both look like a broker that stops, which a client waits for. So whoever was closed before
any answer looks once whether the port speaks the other way.

Nothing is believed that is heard here, and nothing is told: no certificate is checked, and nobody
proves anything.
"""

import socket
import ssl
from contextlib import suppress
from typing import Final

SECONDS_MAX: Final = 1.0
"""For the connection, and for an answer."""
_SSL_RECORDS: Final = (0x15, 0x16)
"""What an answer to a handshake begins with: an alert, or a handshake."""


def has_tls(host: str, port: int) -> bool:
    """Whether the port answers a TLS handshake, be it with a refusal."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = context.wrap_bio(incoming, outgoing, server_hostname=host)
    with suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    answer = _answer(host, port, outgoing.read())
    return len(answer) > 0 and answer[0] in _SSL_RECORDS


def answers_plainly(host: str, port: int, request: bytes) -> bool:
    """Whether the port answers a request that is not encrypted with something like a frame."""
    answer = _answer(host, port, request)
    return len(answer) > 0 and answer[0] == 0  # a frame of less than 16 MiB


def _answer(host: str, port: int, request: bytes) -> bytes:
    """Return how the answer begins; empty without one."""
    try:
        with socket.create_connection((host, port), timeout=SECONDS_MAX) as connected:
            connected.sendall(request)
            return connected.recv(1)
    except OSError:
        return b""
