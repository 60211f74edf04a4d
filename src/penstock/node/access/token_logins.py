"""Who logs in by a delegation token: SCRAM with a token's id as the user (KIP-48).

    is there such a token? ─► is it good? ─► its keys, derived once and kept ─► its owner

What there is not, or is over, is nobody's: the exchange goes on as if, and fails at its end like a
wrong password. Sessions are as long as the token is good.

Source: Kafka `ScramSaslServer`, `DelegationTokenCache`. Departure: one that is over lets nobody in
before it is removed either.
"""

from collections.abc import Callable

from penstock.access.delegation import (
    LOGIN_ITERATIONS,
    TokenLogin,
    TokenSecret,
    TokenSecrets,
    secrets_of,
)
from penstock.access.scram import SALT_BYTES, ScramKeys
from penstock.controller.metadata.image import ClusterImage
from penstock.node.access.files import read_private
from penstock.node.access.users import UnknownUsers

SETTING = "security.delegation_token_secret_file"
KEPT_MAX = 20_000
"""Keys that are kept, with 500 bytes each: two mechanisms of as many tokens as there may be."""
_SHAPE = ScramKeys(
    salt=bytes(SALT_BYTES), stored_key=b"", server_key=b"", iterations=LOGIN_ITERATIONS
)
"""What the keys of tokens look like."""


def read_token_secrets(path: str) -> TokenSecrets:
    """Return the secrets of a file. Raises ConfigError."""
    return secrets_of(f"{SETTING} {path}", read_private(SETTING, path).splitlines())


class TokenLogins:
    """See the module."""

    def __init__(
        self,
        image: ClusterImage,
        secrets: Callable[[], TokenSecrets | None],
        wall_ms: Callable[[], int],
        unknown: UnknownUsers,
    ) -> None:
        self._tokens = image.configuration.tokens
        self._secrets = secrets
        self._wall_ms = wall_ms
        self._unknown = unknown
        self._kept: dict[tuple[str, str], tuple[TokenSecret, ScramKeys]] = {}

    def find(self, mechanism: str, token_id: str) -> TokenLogin:
        """Return whom a token lets in; nobody if there is no such token, or none that is good."""
        token, secrets = self._tokens.get(token_id), self._secrets()
        secret = None if secrets is None else secrets.of(token_id)
        if token is None or secret is None or token.is_over(self._wall_ms()):
            keys = self._unknown.keys(mechanism, token_id, _SHAPE)
            return TokenLogin(keys=keys, owner=None, expires_ms=0)
        _, _, owner = token.owner.partition(":")
        keys = self._keys(mechanism, token_id, secret)
        return TokenLogin(keys=keys, owner=owner, expires_ms=token.expires_ms)

    def _keys(self, mechanism: str, token_id: str, secret: TokenSecret) -> ScramKeys:
        """Return a token's keys, which take 4 ms to derive: those of tokens that are there are
        kept, so that a flood of log-ins costs no more.
        """
        known = self._kept.get((mechanism, token_id))
        if known is not None and known[0] is secret:
            return known[1]
        if len(self._kept) >= KEPT_MAX:
            self._kept = {at: one for at, one in self._kept.items() if at[1] in self._tokens}
        keys = secret.keys_of(mechanism, token_id)
        self._kept[mechanism, token_id] = secret, keys
        return keys
