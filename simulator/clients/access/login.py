"""SASL of a simulated client: by PLAIN or SCRAM, tokens in requests or bare ones.

    SaslHandshake(mechanism) ─► SaslAuthenticate(token) ─► … ─► known, or refused

A broker that has not heard of a user yet, or not of the last password, refuses as it does with a
wrong one. Source: RFC 4616, RFC 5802; KIP-43, KIP-152.
"""

from dataclasses import dataclass
from random import Random

from penstock.access.sasl import PLAIN
from penstock.access.scram import ScramClient
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.run.topology import SECURE_PORT

AUTHENTICATE_VERSION = 2
NONCE_BYTES = 12
BARE_SHARE = 0.2


class NotLetIn(LinkFailed):
    """The broker does not believe the client."""


class Believed(LinkFailed):
    """The broker has let the client in, and does not know the password itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A user with a password, and how it is proved."""

    user: str
    password: str
    mechanism: str
    is_token: bool = False
    """The user is the id of a delegation token, and the password follows from its HMAC."""

    @property
    def principal(self) -> str:
        """As rules name the user."""
        return f"User:{self.user}"


async def open_as(who: Who, host: str, draw: Random) -> BrokerLink:
    """Connect and say who one is. Raises NotLetIn, Believed, and LinkFailed for all else."""
    link = await BrokerLink.open(host, SECURE_PORT)
    try:
        await prove(link, who, draw)
    except BaseException:
        link.close()
        raise
    return link


async def prove(link: BrokerLink, who: Who, draw: Random) -> None:
    """Say who one is, the first time or again. Raises NotLetIn, Believed, LinkFailed."""
    is_bare = draw.random() < BARE_SHARE
    fields = {"mechanism": who.mechanism}
    answer = await link.call(ApiKey.SASL_HANDSHAKE, 0 if is_bare else 1, fields)
    if answer.error_code != ErrorCode.NONE:
        raise LinkFailed(f"a handshake is answered with {answer.error_code}")
    if who.mechanism == PLAIN:
        await _say(link, f"\0{who.user}\0{who.password}".encode(), is_bare=is_bare)
        return
    nonce = draw.randbytes(NONCE_BYTES).hex()
    client = ScramClient(who.mechanism, who.user, who.password, nonce, is_token=who.is_token)
    challenge = await _say(link, client.first(), is_bare=is_bare)
    if not client.is_servers(await _say(link, client.final(challenge), is_bare=is_bare)):
        raise Believed("the server does not know the user's keys")


async def _say(link: BrokerLink, token: bytes, *, is_bare: bool) -> bytes:
    if is_bare:
        return await link.exchange(token)
    answer = await link.call(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, {"auth_bytes": token})
    if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
        raise NotLetIn("not let in")
    if answer.error_code != ErrorCode.NONE:
        raise LinkFailed(f"a token is answered with {answer.error_code}")
    return bytes(answer.auth_bytes)
