"""A cluster of one broker and one controller with a secret of every kind, closed at every front."""

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.cluster import ClusterProcess
from harness.ports import free_port
from penstock.protocol.api_keys import ApiKey
from tests.access.certificates import Authority
from tests.access.provider import AUDIENCE, ISSUER, Provider
from tests.live_node import RawClient

LISTENER = "SECURE"
SCRAM = "SCRAM-SHA-512"
ADMIN, PLAIN_USER, KEY_USER, BEARER_USER = "root", "paula", "mallory", "alice"
HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE


class Secrets:
    """What must show nowhere, by the kind of secret; in the forms in which it might."""

    def __init__(self) -> None:
        self._forms: dict[str, set[bytes]] = {}

    def add(self, kind: str, secret: str | bytes) -> None:
        """Look for a secret from here on."""
        raw = secret.encode() if isinstance(secret, str) else secret
        assert len(raw) >= 12, "a short one is found by chance"
        forms = {raw, raw.hex().encode(), raw.hex().upper().encode(), repr(raw)[2:-1].encode()}
        forms.add(base64.b64encode(raw).rstrip(b"="))
        forms.add(base64.urlsafe_b64encode(raw).rstrip(b"="))
        self._forms.setdefault(kind, set()).update(forms)

    @property
    def kinds(self) -> set[str]:
        """Every kind that is looked for."""
        return set(self._forms)

    def within(self, data: bytes) -> set[str]:
        """Return the kinds that are in the data."""
        return {kind for kind, forms in self._forms.items() if any(one in data for one in forms)}


class Heard(RawClient):
    """A client over TLS that keeps whatever it is answered."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self.socket: Any = context.wrap_socket(self.socket, server_hostname="localhost")
        self.heard = b""

    def receive_frame(self) -> memoryview:
        """Return the next answer, and keep it."""
        frame = super().receive_frame()
        self.heard += bytes(frame)
        return frame

    def prove(self, mechanism: str, *tokens: bytes) -> Any:
        """Send these tokens; return the last answer."""
        self.ask(HANDSHAKE, 1, {"mechanism": mechanism})
        answer: Any = None
        for token in tokens:
            answer = self.ask(AUTHENTICATE, 2, {"auth_bytes": token})
        return answer


class ClosedFronts:
    """The files, the cluster, and how clients come in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.secrets = Secrets()
        self.provider = Provider()
        self._authority = Authority(directory / "authority")
        self.passwords = {
            "first user": "first-password-of-root",
            "user of PLAIN": "plain-password-of-paula",
            "access key": "access-key-of-mallory-1",
            "tokens' secret": "secret-that-tokens-follow-from-0123456789",
            "store's key": "secret-key-of-the-object-store",
        }
        for kind, password in self.passwords.items():
            self.secrets.add(kind, password)
        self.admin_config = self.properties(ADMIN, self.passwords["first user"])
        peers = self._key("peer")
        self.cluster = ClusterProcess(
            directory / "cluster",
            brokers=1,
            controllers=1,
            replicas=1,
            listener=LISTENER,
            listener_security=self._security(),
            has_remoting=True,
            has_grpc=True,
            settings={
                "node": {"log_level": "debug"},
                "access": {"authorizer": "acl", "super_users": self._super_users()},
                "broker": {"audit": True, "audit_fold_ms": 1000},
                "cluster": peers | {"tls_authority_file": self._authority.file},
                "log": {"level0_ms": 1000},
                "tier": self._tier(),
            },
        )
        self.secrets.add("cluster's secret", self.cluster.secret)

    @property
    def context(self) -> ssl.SSLContext:
        """What clients trust."""
        return ssl.create_default_context(cafile=self._authority.file)

    @property
    def authority_file(self) -> str:
        """The certificate that all others are signed by."""
        return self._authority.file

    @property
    def port(self) -> int:
        """Of Kafka's clients, closed."""
        return self.cluster.listener_ports[1]

    @contextmanager
    def client(self) -> Iterator[Heard]:
        """A client that nobody knows yet."""
        client = Heard(self.port, self.context)
        try:
            yield client
        finally:
            client.close()

    def properties(self, user: str, password: str) -> Path:
        """Write how a command comes in as a user."""
        return self.private(
            f"{user}-{len(list(self.directory.iterdir()))}.properties",
            "security.protocol = SASL_SSL\n"
            f"ssl.ca.location = {self._authority.file}\n"
            f"sasl.mechanism = {SCRAM}\nsasl.username = {user}\nsasl.password = {password}\n",
        )

    def private(self, name: str, text: str | bytes) -> Path:
        """Write a file for its owner alone."""
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def _key(self, name: str) -> dict[str, object]:
        """Return settings of a certificate, whose key is looked for."""
        certificate, key = self._authority.issue(name, f"/CN={name}")
        body = Path(key).read_text().splitlines()[1]
        self.secrets.add(f"key of {name}", body)
        return {"tls_certificate_file": certificate, "tls_key_file": key}

    def _super_users(self) -> list[str]:
        return [f"User:{name}" for name in (ADMIN, KEY_USER)]

    def _tier(self) -> dict[str, object]:
        """Nobody answers there, which is said."""
        return {
            "url": "s3://bucket/prefix",
            "endpoint": f"http://127.0.0.1:{free_port()}",
            "access_key_id": "somebody",
            "secret_key_file": str(self.private("store.key", self.passwords["store's key"])),
            "look_ms": 200,
        }

    def _security(self) -> Mapping[str, object]:
        own = self._key("server")
        passwords = self.passwords
        users = self.private("first-users", f"{ADMIN}:{passwords['first user']}\n")
        plain = self.private("plain-users", f"{PLAIN_USER}:{passwords['user of PLAIN']}\n")
        keys = self.private("access-keys", f"{KEY_USER}:{passwords['access key']}\n")
        tokens = self.private("token-secret", passwords["tokens' secret"] + "\n")
        jwks = self.private("keys.json", self.provider.document())
        closed = (LISTENER, "remoting", "grpc")
        return {
            "listener_security_protocol_map": [f"{name}:SASL_SSL" for name in closed],
            "ssl_certificate_file": own["tls_certificate_file"],
            "ssl_key_file": own["tls_key_file"],
            "sasl_enabled_mechanisms": [SCRAM, "PLAIN", "OAUTHBEARER"],
            "scram_first_users_file": str(users),
            "sasl_plain_users_file": str(plain),
            "remoting_access_keys_file": str(keys),
            "delegation_token_secret_file": str(tokens),
            "sasl_oauthbearer_jwks_file": str(jwks),
            "sasl_oauthbearer_expected_issuer": ISSUER,
            "sasl_oauthbearer_expected_audience": [AUDIENCE],
        }


def with_symmetric_key(document: bytes, secret: str) -> bytes:
    """Return a set of keys with one more, that must never be in such a file."""
    keys = json.loads(document)
    value = base64.urlsafe_b64encode(secret.encode()).decode().rstrip("=")
    keys["keys"].append({"kty": "oct", "kid": "shared", "k": value, "alg": "HS256"})
    return json.dumps(keys).encode()
