"""An identity provider for tests: keys of each kind, the set of their public parts, tokens."""

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://provider.example"
AUDIENCE = "penstock"


class Provider:
    """Keys by name: `rsa`, `ec` and `ed`."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "ec": ec.generate_private_key(ec.SECP256R1()),
            "ed": ed25519.Ed25519PrivateKey.generate(),
        }

    def public(self, name: str, **more: object) -> dict[str, Any]:
        """Return a public key as the set has it."""
        algorithms: dict[str, Any] = {"rsa": RSAAlgorithm, "ec": ECAlgorithm, "ed": OKPAlgorithm}
        found: dict[str, Any] = json.loads(algorithms[name].to_jwk(self.keys[name].public_key()))
        found.pop("key_ops", None)
        return found | {"kid": name} | more

    def document(self, *names: str) -> bytes:
        """Return the set of these keys, of all without one."""
        return json.dumps({"keys": [self.public(one) for one in names or self.keys]}).encode()

    def pem(self, name: str) -> bytes:
        """Return a public key as PEM."""
        public = self.keys[name].public_key()
        data: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return data

    def claims(self, **changed: object) -> dict[str, object]:
        """Return good claims with some changed; those that are None are left out."""
        now = int(time.time())
        good: dict[str, object] = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300,
        }  # fmt: skip
        return {name: value for name, value in (good | changed).items() if value is not None}

    def token(
        self,
        name: str = "rsa",
        algorithm: str = "RS256",
        *,
        header: dict[str, Any] | None = None,
        **changed: object,
    ) -> str:
        """Return a token that a key has signed."""
        headers = {"kid": name} | (header or {})
        headers = {key: value for key, value in headers.items() if value is not None}
        return jwt.encode(self.claims(**changed), self.keys[name], algorithm, headers=headers)


def message(token: str, *, acts_for: str = "", more: str = "") -> bytes:
    """Return a client's message with a token."""
    acts = f"a={acts_for}" if acts_for else ""
    return f"n,{acts},\x01auth=Bearer {token}\x01{more}\x01".encode()
