"""Checks whether a node answers Kafka clients: sends ApiVersions, then Metadata without topics.

With a login it goes through TLS, and proves a password by SCRAM in between.

The requests are encoded by hand so that the launcher does not import the broker's code:

    request     int32 length | int16 key | int16 version | int32 correlation id | string client id
    ApiVersions v0       no body               -> int16 error code, ...
    SaslHandshake v1     string mechanism      -> int16 error code, ...
    SaslAuthenticate v0  bytes token           -> int16 error code | string message | bytes token
    Metadata v1          int32 0 (no topics)   -> int32 count, then per broker
                                                  int32 id | string host | int32 port | string rack

Source: the Kafka protocol guide.
"""

import asyncio
import secrets
import ssl
import struct
from dataclasses import dataclass, field

from penstock.access.errors import MalformedToken
from penstock.access.scram import NONCE_BYTES, ScramClient

CLIENT_ID = b"penstock-up"
METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 3, 17, 18, 36
ANSWER_BYTES_MAX = 1 << 20
PROBE_SECONDS_MAX = 5.0


class LoginRefused(Exception):
    """A node that answers does not let the user in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to come in where not everybody is let in."""

    context: ssl.SSLContext
    """Trusts the nodes' authority."""
    mechanism: str
    user: str
    password: str = field(repr=False)


async def brokers_seen(host: str, port: int, login: Login | None = None) -> set[int]:
    """Return the broker ids that a node reports; empty if it does not answer correctly.

    Raises LoginRefused.
    """
    try:
        async with asyncio.timeout(PROBE_SECONDS_MAX):
            return await _ask(host, port, login)
    except (OSError, TimeoutError, EOFError, ValueError, struct.error, MalformedToken):
        return set()


async def _ask(host: str, port: int, login: Login | None) -> set[int]:
    context = None if login is None else login.context
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        versions = await _exchange(reader, writer, _request(API_VERSIONS, 0, b""))
        if _error_code(versions):
            return set()
        if login is not None:
            await _prove(reader, writer, login)
        return _broker_ids(
            await _exchange(reader, writer, _request(METADATA, 1, struct.pack(">i", 0)))
        )
    finally:
        # All is answered. A farewell of TLS takes turns that a loop at its end has not.
        writer.transport.abort()


async def _prove(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, login: Login) -> None:
    """Prove the password to the node, and have the node prove that it knows the user."""
    name = login.mechanism.encode()
    handshake = struct.pack(">h", len(name)) + name
    if _error_code(await _exchange(reader, writer, _request(SASL_HANDSHAKE, 1, handshake))):
        raise LoginRefused

    async def send(token: bytes) -> bytes:
        body = struct.pack(">i", len(token)) + token
        answer = await _exchange(reader, writer, _request(SASL_AUTHENTICATE, 0, body))
        if _error_code(answer):
            raise LoginRefused
        at = _after_string(answer, 6)
        (length,) = struct.unpack_from(">i", answer, at)
        return answer[at + 4 : at + 4 + length]

    nonce = secrets.token_hex(NONCE_BYTES)
    scram = ScramClient(login.mechanism, login.user, login.password, nonce)
    if not scram.is_servers(await send(scram.final(await send(scram.first())))):
        raise LoginRefused


def _error_code(answer: bytes) -> int:
    """Return the error code that begins an answer, behind the correlation id."""
    return int(struct.unpack_from(">h", answer, 4)[0])


def _request(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", key, version, 1, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> bytes:
    writer.write(request)
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    if not 4 <= length <= ANSWER_BYTES_MAX:
        raise ValueError(length)
    return await reader.readexactly(length)


def _broker_ids(answer: bytes) -> set[int]:
    (count,) = struct.unpack_from(">i", answer, 4)
    at = 8
    found = set()
    for _ in range(count):
        (broker_id,) = struct.unpack_from(">i", answer, at)
        at = _after_string(answer, at + 4) + 4
        at = _after_string(answer, at)
        found.add(broker_id)
    return found


def _after_string(answer: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", answer, at)
    return int(at + 2 + max(length, 0))
