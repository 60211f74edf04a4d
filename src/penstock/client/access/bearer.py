"""Where a client gets the tokens of OAUTHBEARER: a file, or an identity provider over HTTPS.

    POST /token            Authorization: Basic id:secret
    grant_type=client_credentials&scope=…
                           ◄─ 200 {"access_token": …, "expires_in": seconds}

A provider's token is used for all connections until four fifths of its time are over. A file is
read for each connection, since whoever writes it, as Kubernetes does, renews it.

Source: RFC 6749 section 4.4, KIP-768; librdkafka sends id and secret in the same way, not encoded
beforehand. Redirects are not followed: id and secret are for the address that was given.
"""

import base64
import http.client
import re
import ssl
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from penstock.base.errors import ConfigError
from penstock.client.access.secret_file import read_secret
from penstock.client.errors import AuthenticationFailed, FileUnusable

ANSWER_BYTES_MAX: Final = 64 << 10
FETCH_SECONDS_MAX: Final = 10.0
"""Without a byte from the provider."""
OK: Final = 200
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_USED_PART: Final = 0.8


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


class _Refusal(msgspec.Struct):
    error: str = ""
    error_description: str = ""


@dataclass(slots=True)
class TokenFile:
    """Tokens of a file, which has one."""

    path: str

    def get(self) -> str:
        """Return the token. Raises ConfigError."""
        text = read_secret("sasl.oauthbearer.token.file", self.path)
        if not _TOKEN.fullmatch(text):
            raise FileUnusable(f"sasl.oauthbearer.token.file {self.path} has no token, or not one")
        return text


@dataclass(slots=True, kw_only=True)
class ProviderTokens:
    """Tokens of an identity provider."""

    url: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    client_secret_file: str = ""
    """Has the secret, and is read for each fetch."""
    scope: str = ""
    authority_file: str = ""
    """Certificates (PEM) that the provider's must be signed by; empty: the system's."""
    _token: str = field(default="", repr=False)
    _until: float = 0.0

    def __post_init__(self) -> None:
        self._parts()

    def get(self) -> str:
        """Return a token. Raises AuthenticationFailed, ConfigError."""
        if time.monotonic() >= self._until:
            now = time.monotonic()
            answer = self._fetch()
            self._token = answer.access_token
            self._until = now + _USED_PART * answer.expires_in
        return self._token

    def _parts(self) -> SplitResult:
        try:
            parts = urlsplit(self.url)
            is_good = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
        except ValueError as error:
            raise self._no_address() from error
        if not is_good or parts.username is not None or not self.url.isascii():
            raise self._no_address()
        return parts

    def _no_address(self) -> ConfigError:
        return ConfigError(
            f"sasl.oauthbearer.token.endpoint.url {self.url!r} is no address of the form"
            " https://host/path: by another way the client's secret could be read"
        )

    def _fetch(self) -> _Answer:
        try:
            context = ssl.create_default_context(cafile=self.authority_file or None)
        except (OSError, ssl.SSLError) as error:
            raise FileUnusable(f"https.ca.location {self.authority_file}: {error}") from error
        try:
            status, body = self._exchange(context)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._failed(str(error) or type(error).__name__) from error
        if status != OK or len(body) > ANSWER_BYTES_MAX:
            raise self._failed(f"status {status}{_why(body)}")
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except msgspec.MsgspecError as error:
            raise self._failed("its answer has no token") from error
        if not _TOKEN.fullmatch(answer.access_token):
            raise self._failed("its token has characters that a token has not")
        return answer

    def _exchange(self, context: ssl.SSLContext) -> tuple[int, bytes]:
        parts = self._parts()
        wanted = {"grant_type": "client_credentials"}
        if self.scope:
            wanted["scope"] = self.scope
        proof = base64.b64encode(f"{self.client_id}:{self._secret()}".encode()).decode()
        headers = {
            "Authorization": f"Basic {proof}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        host, port = str(parts.hostname), parts.port or 443
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = http.client.HTTPSConnection(
            host, port, timeout=FETCH_SECONDS_MAX, context=context
        )
        with closing(connection):
            connection.request("POST", target, urlencode(wanted), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(ANSWER_BYTES_MAX + 1)

    def _secret(self) -> str:
        """Return the secret as it is now. Raises ConfigError."""
        if self.client_secret_file:
            return read_secret("sasl.oauthbearer.client.secret.file", self.client_secret_file)
        return self.client_secret

    def _failed(self, reason: str) -> AuthenticationFailed:
        return AuthenticationFailed(f"the provider {self.url}", reason)


def _why(body: bytes) -> str:
    """Return what a refusal says, for people; empty if it says nothing that can be read."""
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.MsgspecError:
        return ""
    said = [one[:200] for one in (refusal.error, refusal.error_description) if one]
    return f" ({': '.join(said)})" if said else ""
