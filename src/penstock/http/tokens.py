"""Who may do what over HTTP: static tokens of a file.

    [nodes]                        who this process is to the nodes, where they want signatures
    access_key = "http"
    secret = "…"

    [[token]]
    name = "shop"                  in logs; unique
    token = "…"                    what clients send: Authorization: Bearer …
    produce = ["orders", "shop-*"] topics
    consume = ["orders"]           topics
    groups = ["billing"]           groups that it may consume as
    metrics = false                whether it may read /metrics
    access_key = "shop"            signs its requests to nodes in the place of [nodes]
    secret = "…"

A name that ends with * means all names that begin so. What is not listed is refused here; what is
listed may still be refused by the nodes, who judge the user of the access key.

Source: ours, docs/adr/0167; RFC 6750 (bearer tokens).
"""

import hashlib
import tomllib
from typing import Final

import msgspec

from penstock.base.errors import ConfigError
from penstock.http.upstream.connection import Credentials

TOKEN_CHARS_MIN: Final = 24
"""`openssl rand -hex 16` prints 32."""
TOKENS_MAX: Final = 10_000
NAME_CHARS_MAX: Final = 100
_ALL: Final = "*"


class _Named(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    token: str
    produce: list[str] = []
    consume: list[str] = []
    groups: list[str] = []
    metrics: bool = False
    access_key: str = ""
    secret: str = ""


class _Identity(msgspec.Struct, forbid_unknown_fields=True):
    access_key: str
    secret: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    token: list[_Named]
    nodes: _Identity | None = None


class Names:
    """Names, and beginnings of names."""

    __slots__ = ("_beginnings", "_exact")

    def __init__(self, patterns: list[str]) -> None:
        self._exact = frozenset(one for one in patterns if not one.endswith(_ALL))
        self._beginnings = tuple(one[:-1] for one in patterns if one.endswith(_ALL))

    def __contains__(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._beginnings)


class Token:
    """What one token may do."""

    __slots__ = ("consume", "credentials", "groups", "metrics", "name", "produce")

    def __init__(self, named: _Named, credentials: Credentials | None) -> None:
        self.name = named.name
        self.produce = Names(named.produce)
        self.consume = Names(named.consume)
        self.groups = Names(named.groups)
        self.metrics = named.metrics
        self.credentials = credentials


class Tokens:
    """The tokens of a file."""

    def __init__(self, by_digest: dict[bytes, Token], credentials: Credentials | None) -> None:
        self._by_digest = by_digest
        self.credentials = credentials
        """Who this process is where no token is in play."""

    def find(self, text: str) -> Token | None:
        """Return the token that a client shows; None if it is none.

        Digests are compared, so that the time that it takes tells nothing of a token.
        """
        return self._by_digest.get(_digest(text))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def read_tokens(path: str, text: str) -> Tokens:
    """Return the tokens of a file's text. Raises ConfigError."""
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"--tokens {path}: {error}") from error
    if not file.token:
        raise ConfigError(f"--tokens {path} has no token: nobody could do anything")
    if len(file.token) > TOKENS_MAX:
        raise ConfigError(f"--tokens {path} has {len(file.token)} tokens, at most {TOKENS_MAX}")
    shared = Credentials(file.nodes.access_key, file.nodes.secret) if file.nodes else None
    if shared is not None and not (shared.access_key and shared.secret):
        raise ConfigError(f"--tokens {path}: [nodes] needs an access_key and its secret")
    by_digest: dict[bytes, Token] = {}
    names: set[str] = set()
    for named in file.token:
        why_not = _why_not(named, names)
        digest = _digest(named.token)
        if digest in by_digest:
            why_not = f"it has the token of {by_digest[digest].name}"
        if why_not:
            raise ConfigError(f"--tokens {path}: token {named.name[:NAME_CHARS_MAX]!r}: {why_not}")
        names.add(named.name)
        own = Credentials(named.access_key, named.secret) if named.access_key else shared
        by_digest[digest] = Token(named, own)
    return Tokens(by_digest, shared)


def _why_not(named: _Named, names: set[str]) -> str:
    """Return what is wrong with a token, if anything is."""
    if not (named.name and named.name.isprintable() and len(named.name) <= NAME_CHARS_MAX):
        return f"a name has 1 to {NAME_CHARS_MAX} printable characters"
    if named.name in names:
        return "its name was there before"
    is_plain = named.token.isascii() and named.token.isprintable() and " " not in named.token
    if len(named.token) < TOKEN_CHARS_MIN or not is_plain:
        least = f"{TOKEN_CHARS_MIN} ASCII characters or more, without blanks"
        return f"a token has {least}, as `openssl rand -hex 16` prints them"
    for one, other in (("access_key", "secret"), ("consume", "groups")):
        if bool(getattr(named, one)) != bool(getattr(named, other)):
            return f"{one} and {other} belong together"
    patterns = (*named.produce, *named.consume, *named.groups)
    if any(not one or _ALL in one[:-1] for one in patterns):
        return "a name is not empty, and has a * at its end alone"
    return ""
