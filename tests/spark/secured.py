"""A closed node, as `penstock up --secure` has it: TLS and SCRAM, and rules for everybody else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.login import MECHANISM, PROTOCOL, Login, server_files
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.client.access.acls import Acls
from penstock.client.access.users import Users
from penstock.spark.exactly_once.driver import PREFIX
from tests.live_node import running_node
from tests.spark.topics import Topics

ADMIN, JOB = "admin", "job"
SECRETS = {ADMIN: "hunter2-of-admin", JOB: "hunter2-of-the-job"}
"""The passwords; what has none of them has no secret."""
SECRET = "hunter2"


@dataclass(frozen=True)
class Closed:
    """The node, with its files, and what its first user has made."""

    directory: Path
    bootstrap: str
    topics: Topics

    def login(self, user: str) -> Login:
        authority = str(self.directory / "authority.pem")
        return Login(authority_file=authority, user=user, password=SECRETS[user])

    def options(self, user: str = JOB, **others: str) -> dict[str, str]:
        """Return options of Spark, of which `others` are in the place of these: `_` is `.`."""
        given = {
            "bootstrap": self.bootstrap,
            "kafka.security.protocol": PROTOCOL,
            "kafka.ssl.ca.location": str(self.directory / "authority.pem"),
            "kafka.sasl.mechanism": MECHANISM,
            "kafka.sasl.username": user,
            "kafka.sasl.password.file": str(self.directory / user),
        }
        return given | {name.replace("_", "."): value for name, value in others.items()}

    def properties(self, user: str) -> Path:
        """Return a file as commands take it, with the password in it."""
        path = self.directory / f"{user}.properties"
        login = self.login(user).librdkafka()
        path.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
        return path

    def allow(
        self,
        operation: AclOperation,
        name: str,
        kind: AclResource = AclResource.TOPIC,
        *,
        user: str = JOB,
    ) -> None:
        """Permit something; a name that ends in `*` is the beginning of names."""
        rule = Rule(
            resource_type=kind,
            resource_name=name.removesuffix("*"),
            pattern=AclPattern.PREFIXED if name.endswith("*") else AclPattern.LITERAL,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission=AclPermission.ALLOW,
        )
        Acls(self.topics.cluster).add([rule])

    def allow_exactly_once(self) -> None:
        self.allow(AclOperation.WRITE, f"{PREFIX}*", AclResource.TRANSACTIONAL_ID)


@contextmanager
def closed_node(directory: Path) -> Iterator[Closed]:
    """Yield a closed node whose users are ADMIN, who may do everything, and JOB."""
    (directory / "data").mkdir()
    for user, secret in SECRETS.items():
        (directory / user).write_text(f"{secret}\n")
    users = directory / "first-users"
    users.touch(mode=0o600)
    users.write_text(f"{ADMIN}:{SECRETS[ADMIN]}\n")
    _, certificate = server_files(directory, ["127.0.0.1"])
    settings = (
        f"security.listener_security_protocol_map=kafka:{PROTOCOL}",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={certificate}",
        f"security.sasl_enabled_mechanisms={MECHANISM}",
        f"security.scram_first_users_file={users}",
        "access.authorizer=acl",
        f"access.super_users=User:{ADMIN}",
    )
    with running_node(directory / "data", *settings) as node:
        bootstrap = f"127.0.0.1:{node.port}"
        login = Login(
            authority_file=str(directory / "authority.pem"), user=ADMIN, password=SECRETS[ADMIN]
        )
        with Topics(bootstrap, login.own()) as topics:
            Users(topics.cluster).add(JOB, SECRETS[JOB], MECHANISM, 4096)
            yield Closed(directory, bootstrap, topics)
