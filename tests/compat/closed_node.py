"""A closed node with every way to log in, for clients that are tested by each of them."""

import json
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS
from tests.access.certificates import Authority
from tests.access.provider import AUDIENCE, ISSUER, Provider
from tests.cli.launched import penstock

PASSWORD = "p:a=s,s"


class ClosedNode:
    """A node whose one listener takes all mechanisms, another one certificates; both have TLS."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory / "good")
        self.stranger = Authority(directory / "stranger", "stranger")
        self.provider = Provider()
        self.sasl, self.mutual = free_port(), free_port()
        for name, text in {
            "users": f"alice:{PASSWORD}\n",
            "secret": "a secret of 32 characters, or more\n",
            "keys": self.provider.document().decode(),
            "password": PASSWORD,
        }.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o600)
        self.node = NodeProcess(directory / "node", settings=self._settings())

    def _settings(self) -> dict[str, dict[str, object]]:
        certificate, key = self.authority.issue("server", "/CN=localhost")
        return {
            "node": {
                "listeners": [
                    f"SASLTLS://127.0.0.1:{self.sasl}", f"MUTUAL://127.0.0.1:{self.mutual}",
                ]
            },
            "security": {
                "listener_security_protocol_map": ["SASLTLS:SASL_SSL", "MUTUAL:SSL"],
                "listeners": ["MUTUAL.ssl_client_auth=required"],
                "ssl_certificate_file": certificate,
                "ssl_key_file": key,
                "ssl_authority_file": self.authority.file,
                "sasl_enabled_mechanisms": [
                    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER",
                ],
                "sasl_plain_users_file": str(self.directory / "users"),
                "scram_first_users_file": str(self.directory / "users"),
                "sasl_oauthbearer_jwks_file": str(self.directory / "keys"),
                "sasl_oauthbearer_expected_issuer": ISSUER,
                "sasl_oauthbearer_expected_audience": [AUDIENCE],
                "delegation_token_secret_file": str(self.directory / "secret"),
            },
        }  # fmt: skip

    def topic(self, name: str) -> str:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(UNTIL_SECONDS)
        return name

    def token(self) -> tuple[str, str]:
        (made,) = json.loads(self.tokens("create", "-o", "json"))
        return made["token"], made["password"]

    def tokens(self, *arguments: str) -> bytes:
        """Run `penstock token` as alice; return what it prints."""
        config = self.directory / "alice.properties"
        config.write_text(
            f"security.protocol = SASL_SSL\nssl.ca.location = {self.authority.file}\n"
            "sasl.mechanism = SCRAM-SHA-512\nsasl.username = alice\n"
            f"sasl.password.file = {self.directory / 'password'}\n"
        )
        at = ("--bootstrap", f"127.0.0.1:{self.sasl}")
        done = penstock("--client-config", config, "token", *arguments, *at)
        assert done.returncode == 0, done.stderr
        printed: bytes = done.stdout
        return printed
