"""A client in plain frames that signs its requests, and may talk over TLS."""

import base64
import hashlib
import hmac
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from penstock.remoting.wire.command import Serialisation
from tests.remoting.served import Remote

SECRETS = {"alice": "a secret of alice's own", "bob": "one that is bob's alone"}


def keys_file(directory: Path, text: str | None = None) -> Path:
    """Write the access keys as a node reads them."""
    path = directory / "access-keys"
    path.touch(0o600)
    path.write_text(text or "".join(f"{user}:{secret}\n" for user, secret in SECRETS.items()))
    return path


def signed(fields: Mapping[str, object], body: bytes, user: str, secret: str) -> dict[str, object]:
    """Return a request's fields with those of its signature, as RocketMQ's hook writes them."""
    all_fields = {name: str(value) for name, value in fields.items()} | {"AccessKey": user}
    text = "".join(value for _, value in sorted(all_fields.items()))
    made = hmac.new(secret.encode(), text.encode() + body, hashlib.sha1).digest()
    return {**all_fields, "Signature": base64.b64encode(made).decode()}


class SignedRemote(Remote):
    """One connection of a user; without one nothing is signed."""

    def __init__(
        self,
        address: str,
        user: str = "",
        secret: str = "",
        *,
        tls: ssl.SSLContext | None = None,
        serialisation: Serialisation = Serialisation.JSON,
    ) -> None:
        super().__init__(address, serialisation)
        self.user, self.secret = user, secret or SECRETS.get(user, "")
        if tls is not None:
            self._file.close()
            plain: socket.socket = self.socket
            self.socket = tls.wrap_socket(plain, server_hostname="localhost")
            self._file = self.socket.makefile("rb")

    def send(
        self, code: int, fields: Mapping[str, object], body: bytes = b"", flag: int = 0
    ) -> int:
        """Sign and send a request; returns its number."""
        named = signed(fields, body, self.user, self.secret) if self.user else fields
        return super().send(code, named, body, flag)
