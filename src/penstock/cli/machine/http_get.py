"""One HTTP GET of a command to a node, bounded in bytes and in time, over TLS where it has that.

A command that has the node's settings trusts the very certificate that these name, whoever signed
it; one that has an address alone trusts authorities, and checks the name.
"""

import asyncio
import ssl
from typing import TYPE_CHECKING, NamedTuple

import h11

from penstock.base.endpoints import PAGES_LISTENER
from penstock.base.errors import ConfigError

if TYPE_CHECKING:
    from penstock.node.settings.security_config import SecurityConfig

READ_BYTES = 64 << 10


class Answer(NamedTuple):
    """The answer; `status` is 0 if there was none in time, or if it was too long."""

    status: int
    body: bytes


NO_ANSWER = Answer(0, b"")


def tls_of_pages(security: "SecurityConfig") -> ssl.SSLContext | None:
    """Return the context for the pages of a node with these settings; None where they are plain.

    It trusts the certificates of the settings alone, under any name. Raises ConfigError.
    """
    if not security.pages_have_tls:
        return None
    own = security.of_listener(PAGES_LISTENER)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    for path in (own.ssl_certificate_file, *own.server_names().values()):
        try:
            context.load_verify_locations(path)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{path} has no certificate to be trusted: {error}") from error
    return context


async def get(
    address: tuple[str, int],
    path: str,
    *,
    seconds: float,
    bytes_max: int,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Return the answer, of at most `bytes_max` bytes, or NO_ANSWER. Does not raise."""
    try:
        async with asyncio.timeout(seconds):
            return await _exchange(address, path, bytes_max, tls)
    except (OSError, TimeoutError, EOFError, h11.RemoteProtocolError):
        return NO_ANSWER


async def _exchange(
    address: tuple[str, int], path: str, bytes_max: int, tls: ssl.SSLContext | None
) -> Answer:
    reader, writer = await asyncio.open_connection(*address, ssl=tls)
    try:
        connection = h11.Connection(h11.CLIENT)
        host = f"{address[0]}:{address[1]}"
        head = h11.Request(method="GET", target=path, headers=[("Host", host)])
        for event in (head, h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        return await _read(connection, reader, bytes_max)
    finally:
        writer.close()


async def _read(connection: h11.Connection, reader: asyncio.StreamReader, bytes_max: int) -> Answer:
    status, body = 0, bytearray()
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(READ_BYTES))
            case h11.Response(status_code=status):
                pass
            case h11.Data(data=data):
                body += data
                if len(body) > bytes_max:
                    return NO_ANSWER
            case h11.EndOfMessage():
                return Answer(status, bytes(body))
            case _:
                return NO_ANSWER
