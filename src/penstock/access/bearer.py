"""OAUTHBEARER: a client shows a token that somebody else has signed.

    client                                          server
      n,,^Aauth=Bearer TOKEN^A^A                 ─►
                                                 ◄─   nothing: the token is good
                                                 ◄─   {"status":"invalid_token"}: it is not
      ^A                                         ─►
                                                 ◄─   the failure itself

Source: RFC 7628; Kafka `OAuthBearerSaslServer`, KIP-255. Extensions are taken and have no meaning.
Not here: what makes a token good (`tokens.py`).
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.access.errors import MalformedToken

BEARER_BYTES_MAX = 16 << 10
"""Largest client message: identity providers' tokens have two KiB, and no work is done on more."""
REFUSAL = b'{"status":"invalid_token"}'
_MESSAGE = re.compile(rb"n,(?:a=(?P<acts_for>[^,\x00\x01]*))?,\x01(?P<pairs>[^\x00]*\x01)\x01")
_PAIR = re.compile(rb"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]*)")
_TOKEN = re.compile(rb"(?i:bearer) +(?P<token>[A-Za-z0-9_.-]+)")


class Bearer(NamedTuple):
    """Whom a good token names, and until when it is good, in ms of the wall clock."""

    user: str
    expires_ms: int


CheckToken = Callable[[str], Bearer]
"""Raises MalformedToken for a token that is not good, with a reason for the log."""


class BearerServer:
    """The server's side of one exchange."""

    __slots__ = ("_check", "reason")

    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self.reason = ""
        """Why the token is not good; the client's next message ends the exchange."""

    def take(self, message: bytes) -> Bearer | None:
        """Return whom the token names; None if it is not good. Raises MalformedToken."""
        if self.reason:
            raise MalformedToken(self.reason)
        token, acts_for = _parsed(message)
        try:
            bearer = self._check(token)
        except MalformedToken as error:
            self.reason = str(error)
            return None
        if acts_for not in {"", bearer.user}:
            self.reason = "a user acts for nobody else"
            return None
        return bearer


def _parsed(message: bytes) -> tuple[str, str]:
    """Return the token and whom its bearer wants to act for. Raises MalformedToken."""
    if len(message) > BEARER_BYTES_MAX:
        raise MalformedToken(f"a message of {len(message)} bytes")
    match = _MESSAGE.fullmatch(message)
    if match is None:
        raise MalformedToken("not a first message of OAUTHBEARER")
    pairs = [_PAIR.fullmatch(pair) for pair in match["pairs"][:-1].split(b"\x01")]
    tokens = [pair["value"] for pair in pairs if pair is not None and pair["key"] == b"auth"]
    if len(tokens) != 1 or None in pairs:
        raise MalformedToken("not one token in a message of OAUTHBEARER")
    found = _TOKEN.fullmatch(tokens[0])
    if found is None:
        raise MalformedToken("not a bearer's token")
    try:
        return found["token"].decode(), (match["acts_for"] or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedToken("a name that is no text") from error
