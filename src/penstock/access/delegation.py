"""The secret behind delegation tokens: what is a token's password, and who may log in by it.

    file's secret ─ HKDF ─┬─► key   ─ HMAC-SHA-512 of the token's id ─► HMAC, the password in base64
                          ├─► salts ─ HMAC-SHA-512 of mechanism and id ─► salt of SCRAM
                          └─► tag   ─ which secret a token is of: an id begins with it

Nothing of this is stored: every process with the same secret computes the same. A file may have
several secrets, so that the first can change while tokens of the others are still good.

Source: KIP-48; RFC 5869 (HKDF); Kafka `DelegationTokenManager`, `ScramFormatter`. ADR 0118.
"""

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.access.scram import (
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramKeys,
    keys_of,
    salted_password,
)
from penstock.base.errors import ConfigError

SECRET_BYTES_MIN, SECRET_BYTES_MAX = 32, 1024
SECRETS_MAX = 8
TAG_DIGITS = 6
"""Hexadecimal digits; whoever knows them knows nothing of the secret."""
LOGIN_ITERATIONS: Final = ITERATIONS_MIN
"""A token's password has 512 random bits: to guess is no quicker with fewer iterations."""
_HASH: Final = "sha512"
_SALT: Final = b"penstock delegation tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """By what a token is proved, who is let in by it, and until when (ms of the wall clock)."""

    keys: ScramKeys
    owner: str | None
    """A user's name; None: nobody, and no proof fits the keys."""
    expires_ms: int


def _derived(secret: bytes, label: str) -> bytes:
    """HKDF of one block: extract, then expand."""
    return hmac.digest(hmac.digest(_SALT, secret, _HASH), label.encode() + b"\x01", _HASH)


class TokenSecret:
    """See the module; one of the secrets of a file."""

    __slots__ = ("_key", "_salts", "tag")

    def __init__(self, secret: bytes) -> None:
        assert len(secret) >= SECRET_BYTES_MIN
        self._key = _derived(secret, "key")
        self._salts = _derived(secret, "salts")
        self.tag = _derived(secret, "tag").hex()[:TAG_DIGITS]

    def hmac_of(self, token_id: str) -> bytes:
        """Return the HMAC of a token: whoever has it has the token."""
        return hmac.digest(self._key, token_id.encode(), _HASH)

    def keys_of(self, mechanism: str, token_id: str) -> ScramKeys:
        """Return by what SCRAM proves the token; it takes 4 ms."""
        salt = hmac.digest(self._salts, f"{mechanism} {token_id}".encode(), _HASH)[:SALT_BYTES]
        password = password_of(self.hmac_of(token_id))
        salted = salted_password(mechanism, password, salt, LOGIN_ITERATIONS)
        return keys_of(mechanism, salted, salt, LOGIN_ITERATIONS)


@dataclass(frozen=True, slots=True)
class TokenSecrets:
    """The secrets of a file: new tokens are of the first, and all of them count."""

    secrets: tuple[TokenSecret, ...] = field(repr=False)

    def __post_init__(self) -> None:
        assert 1 <= len(self.secrets) <= SECRETS_MAX

    @property
    def tag(self) -> str:
        """What ids of new tokens begin with."""
        return self.secrets[0].tag

    def of(self, token_id: str) -> TokenSecret | None:
        """Return the secret of a token; None if it is not among these."""
        tag = token_id.partition("-")[0]
        return next((one for one in self.secrets if one.tag == tag), None)

    def hmac_of(self, token_id: str) -> bytes:
        """Return the HMAC of a token; empty if its secret is not among these."""
        secret = self.of(token_id)
        return b"" if secret is None else secret.hmac_of(token_id)

    def has(self, token_id: str, proof: bytes) -> bool:
        """Whether this is the HMAC of the token."""
        found = self.hmac_of(token_id)
        return bool(found) and hmac.compare_digest(found, proof)


def secrets_of(name: str, lines: Sequence[str]) -> TokenSecrets:
    """Return the secrets of a file's lines; # begins a comment line.

    Raises ConfigError, with the name and what is wrong, and never a secret.
    """
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not 1 <= len(found) <= SECRETS_MAX:
        raise ConfigError(
            f"{name} has {len(found)} secrets: it needs one a line, and {SECRETS_MAX} at most"
        )
    secrets = tuple(_secret(name, line, place) for place, line in enumerate(found, 1))
    if len({one.tag for one in secrets}) < len(secrets):
        raise ConfigError(f"{name} has a secret twice, or two that can not stand together")
    return TokenSecrets(secrets)


def _secret(name: str, line: str, place: int) -> TokenSecret:
    secret = line.encode()
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise ConfigError(
            f"{name} has a secret of {len(secret)} bytes at place {place}: a secret has"
            f" {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}, such as `openssl rand -hex 32` prints"
        )
    return TokenSecret(secret)


def password_of(token_hmac: bytes) -> str:
    """Return what a client gives as the password."""
    return base64.b64encode(token_hmac).decode()
