"""SCRAM: a client proves that it knows a password, and a server that it knows the user.

    client                                       server
      n,,n=user,r=NONCE                       ─►
                                              ◄─   r=NONCE+MORE,s=salt,i=iterations
      c=biws,r=NONCE+MORE,p=proof             ─►
                                              ◄─   v=signature

What a server keeps of a password (`ScramKeys`) proves nothing to another server, and the password
never travels. An unknown user gets a salt as well, always the same one (ADR 0206), and fails at the
end like a wrong password: nothing tells one from the other.

Source: RFC 5802, RFC 7677; Kafka `ScramSaslServer`, `ScramFormatter`, KIP-84. As in Kafka,
passwords are taken as their UTF-8 bytes, without SASLprep. Channel binding is not offered.
Extensions have names of several letters, as Kafka's `tokenauth` of KIP-48: the user is a token.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.access.errors import MalformedToken

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Mechanisms with the names of their hashes."""
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
"""Kafka's bounds."""
ITERATIONS_DEFAULT = 8_192
SALT_BYTES = 24
NONCE_BYTES = 24
MESSAGE_BYTES_MAX = 16 << 10
"""Of either side: who has proved nothing has a message looked at, and half a MiB of extensions held
the loop for 64 ms."""
CLIENT_ITERATIONS_MAX = 1 << 20
"""What a client computes for a server that asks for it: a second of work."""

_TOKEN = "tokenauth=true"  # noqa: S105  the name of an extension
_NO_BINDING = base64.b64encode(b"n,,").decode()
_FIRST = re.compile(
    r"(?P<head>[ny],(?:a=(?P<authorised>[^,]+))?,)"
    r"(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[!-+\--~]+)(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)
_FINAL = re.compile(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]=[^,]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_CHALLENGE = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})"
    r"(?:,[A-Za-z]=[^,]+)*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramKeys:
    """What a server keeps of a password, for one mechanism."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


FindKeys = Callable[[str], ScramKeys]


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what both keys are derived from; it is as good as the password itself."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def keys_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """Return the keys of a salted password."""
    digest = HASHES[mechanism]
    return ScramKeys(
        salt=salt,
        stored_key=hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest(),
        server_key=hmac.digest(salted, b"Server Key", digest),
        iterations=iterations,
    )


def unknown_keys(mechanism: str, user: str, secret: bytes, like: ScramKeys | None) -> ScramKeys:
    """Return keys that no password fits, always the same for a user.

    They look like those of users that exist: as many iterations and as long a salt as `like`.
    """
    salt_bytes = SALT_BYTES if like is None else len(like.salt)
    iterations = ITERATIONS_DEFAULT if like is None else like.iterations
    key = hmac.digest(secret, f"{mechanism} {user}".encode(), "sha512")
    salt = hashlib.shake_256(key + b"salt").digest(salt_bytes)
    size = hashlib.new(HASHES[mechanism]).digest_size
    stored, server = (hashlib.shake_256(key + part).digest(size) for part in (b"1", b"2"))
    return ScramKeys(salt=salt, stored_key=stored, server_key=server, iterations=iterations)


class ScramServer:
    """The server's side of one exchange: `first`, then `final`."""

    __slots__ = (
        "_binding",
        "_find",
        "_find_token",
        "_keys",
        "_mechanism",
        "_nonce",
        "_so_far",
        "is_token",
        "user",
    )

    def __init__(
        self, mechanism: str, find: FindKeys, nonce: str, find_token: FindKeys | None = None
    ) -> None:
        """`find` returns a user's keys, or unknown ones, and `find_token` those of a delegation
        token by its id; without it there are no tokens. `nonce` never repeats.
        """
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._nonce = nonce
        self._so_far = self._binding = self.user = ""
        self._keys: ScramKeys | None = None
        self.is_token = False
        """Whether the user is the id of a delegation token."""

    @property
    def has_begun(self) -> bool:
        """Whether the first message has come."""
        return self._keys is not None

    def first(self, token: bytes) -> bytes:
        """Return the challenge. Raises MalformedToken."""
        match = _FIRST.fullmatch(_text(token))
        if match is None:
            raise MalformedToken("not a first message of SCRAM")
        self.user = _unescaped(match["user"])
        if match["authorised"] and _unescaped(match["authorised"]) != self.user:
            raise MalformedToken("a user acts for nobody else")
        self.is_token = _is_token(match["extensions"])
        find = self._find_token if self.is_token else self._find
        if find is None:
            raise MalformedToken("a delegation token where there are none")
        self._keys = keys = find(self.user)
        self._binding = base64.b64encode(match["head"].encode()).decode()
        self._nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(keys.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={keys.iterations}"
        self._so_far = f"{match['bare']},{challenge}"
        return challenge.encode()

    def final(self, token: bytes) -> bytes | None:
        """Return the server's signature; None if the proof is wrong. Raises MalformedToken."""
        assert self._keys is not None, "final comes after first"
        match = _FINAL.fullmatch(_text(token))
        if match is None or match["nonce"] != self._nonce or match["binding"] != self._binding:
            raise MalformedToken("not the final message of this exchange")
        digest, keys = HASHES[self._mechanism], self._keys
        message = f"{self._so_far},{match['bare']}".encode()
        mask = hmac.digest(keys.stored_key, message, digest)
        proof = _decoded(match["proof"])
        if len(proof) != len(mask):
            return None
        client_key = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
        if not hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored_key):
            return None
        signature = hmac.digest(keys.server_key, message, digest)
        return b"v=" + base64.b64encode(signature)


class ScramClient:
    """The client's side of one exchange: `first`, `final`, then `is_servers`."""

    def __init__(
        self, mechanism: str, user: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_escaped(user)},r={nonce}" + (f",{_TOKEN}" if is_token else "")
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the proof. Raises MalformedToken."""
        match = _CHALLENGE.fullmatch(_text(challenge))
        if match is None or not match["nonce"].startswith(self._nonce):
            raise MalformedToken("not a challenge for this exchange")
        iterations = int(match["iterations"])
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise MalformedToken(f"{iterations} iterations are too few or too many")
        salt = _decoded(match["salt"])
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        keys = keys_of(self._mechanism, salted, salt, iterations)
        bare = f"c={_NO_BINDING},r={match['nonce']}"
        message = f"{self._bare},{challenge.decode()},{bare}".encode()
        digest = HASHES[self._mechanism]
        client_key = hmac.digest(salted, b"Client Key", digest)
        mask = hmac.digest(keys.stored_key, message, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, mask, strict=True))
        self._signature = hmac.digest(keys.server_key, message, digest)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def is_servers(self, answer: bytes) -> bool:
        """Whether the last answer proves that the server knows the user."""
        return hmac.compare_digest(answer, b"v=" + base64.b64encode(self._signature))


def _is_token(extensions: str) -> bool:
    """Whether the extensions have `tokenauth=true`, in capitals or not, as Java reads it."""
    name, _, value = _TOKEN.partition("=")
    parts = (one.partition("=") for one in extensions.split(","))
    return any(one[0] == name and one[2].lower() == value for one in parts)


def _text(token: bytes) -> str:
    if len(token) > MESSAGE_BYTES_MAX:
        raise MalformedToken(f"a message of {len(token)} bytes")
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise MalformedToken("not text") from error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise MalformedToken("not base64") from error


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _unescaped(text: str) -> str:
    user = text.replace("=2C", ",").replace("=3D", "=")
    if _escaped(user) != text:
        raise MalformedToken("a name with an = that stands for nothing")
    return user
