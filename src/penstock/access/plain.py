"""PLAIN: user and password as they are.

    [who to act for] NUL user NUL password

Passwords are compared by their digests, which are of one length, in constant time; that of an
unknown user is compared with one that nothing has.

Source: RFC 4616; Kafka `PlainSaslServer`. As there, nobody acts for somebody else.
"""

import hashlib
import hmac
from collections.abc import Mapping

from penstock.access.errors import MalformedToken

PARTS = 3


def digest_of(password: str) -> bytes:
    """Return what is kept of a password in memory."""
    return hashlib.sha256(password.encode()).digest()


_NOBODYS = bytes(hashlib.sha256().digest_size)


def plain_user(token: bytes, digests: Mapping[str, bytes]) -> str | None:
    """Return the user; None if there is none with this password. Raises MalformedToken."""
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError as error:
        raise MalformedToken("not text") from error
    if len(parts) != PARTS:
        raise MalformedToken("not three parts")
    authorised, user, password = parts
    if not user or not password or authorised not in {"", user}:
        raise MalformedToken("a user and a password are needed, and nobody else's name")
    is_right = hmac.compare_digest(digest_of(password), digests.get(user, _NOBODYS))
    return user if is_right and user in digests else None
