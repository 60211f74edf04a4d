"""Who may read the pages of the HTTP port, and from which files their TLS is made."""

import asyncio
import os
import shutil
import ssl
from pathlib import Path

import pytest

from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.base.errors import ConfigError
from penstock.broker.access import CLUSTER_NAME, Authoriser, Operation, Requester, Resource
from penstock.node.pages import reading
from penstock.node.pages.reading import is_near, pages_access, without_rules
from penstock.node.settings.config import NodeConfig
from penstock.node.settings.security_config import SecurityConfig
from penstock.node.settings.settings import NodeSettings, load_settings
from penstock.runtime.io.http_server import Reader
from tests.access.certificates import Authority

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

OWN, FAR = "10.0.0.1", "10.0.0.7"


class Files:
    """An authority, a server's certificate and those of clients."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.server = self.authority.issue("server", "/CN=server")
        self.other = self.authority.issue("other", "/CN=other")
        scraper = self.authority.issue("scraper", "/CN=scraper/O=Example")
        self.scraper = ssl.PEM_cert_to_DER_cert(Path(scraper[0]).read_text())

    def settings(self, *listeners: str, is_open: bool = False) -> SecurityConfig:
        return SecurityConfig(
            listener_security_protocol_map=("metrics:SSL",),
            listeners=listeners,
            open_listeners=("metrics",) if is_open else (),
            ssl_certificate_file=self.server[0],
            ssl_key_file=self.server[1],
            ssl_authority_file=self.authority.file,
            ssl_client_auth="requested",
        )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("pages"))


class Permits:
    """An authoriser that permits some principals one thing."""

    permits_all = False
    generation = 0

    def __init__(self, *principals: str) -> None:
        self.principals = principals
        self.asked: list[tuple[str, str, Operation, Resource, str]] = []

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        self.asked.append((who.principal, who.host, operation, resource, name))
        return who.principal in self.principals

    def permits_some(self, who: Requester, operation: Operation, resource: Resource) -> bool:
        raise NotImplementedError


def refused(security: SecurityConfig, authoriser: Authoriser, reader: Reader) -> str:
    async def ask() -> str:
        refuse = pages_access(security, lambda: authoriser).refuse
        return "" if refuse is None else refuse(reader)

    return asyncio.run(ask())


def test_a_plain_port_asks_nobody() -> None:
    access = pages_access(SecurityConfig(), Permits)
    assert (access.context, access.refuse) == (None, None)


@pytest.mark.parametrize(
    ("host", "own", "near"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.9", "127.0.0.1", True),
        ("::1", "::1", True),
        (OWN, OWN, True),
        (FAR, OWN, False),
        ("fd00::7", "fd00::1", False),
        ("", "", False),
    ],
)
def test_near_is_who_has_an_address_of_this_machine(host: str, own: str, near: bool) -> None:
    assert is_near(Reader(host, own)) is near


def test_who_is_near_reads_without_a_certificate(files: Files) -> None:
    permits = Permits()
    assert refused(files.settings(), permits, Reader(OWN, OWN)) == ""
    assert not permits.asked


def test_who_is_far_without_a_certificate_is_told_what_it_takes(files: Files) -> None:
    permits = Permits("User:ANONYMOUS")
    assert "ssl_client_auth=requested" in refused(files.settings(), permits, Reader(FAR, OWN))
    assert not permits.asked


def test_a_certificate_needs_describe_on_the_cluster(files: Files) -> None:
    name = "User:O=Example,CN=scraper"
    reader = Reader(FAR, OWN, files.scraper)
    permits = Permits(name)
    assert refused(files.settings(), permits, reader) == ""
    assert permits.asked == [(name, FAR, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)]
    assert refused(files.settings(), Permits(), reader) == f"{name} needs Describe on the cluster"


def test_rules_of_names_count_and_those_of_this_port_alone(files: Files) -> None:
    rule = "metrics.ssl_principal_mapping_rules=RULE:^.*CN=(.*?)$/$1/"
    reader = Reader(FAR, OWN, files.scraper)
    assert refused(files.settings(rule), Permits("User:scraper"), reader) == ""
    none = "metrics.ssl_principal_mapping_rules=RULE:^CN=nobody$/x/"
    assert "takes a certificate" in refused(files.settings(none), Permits("User:x"), reader)


def test_who_names_the_port_open_opens_it(files: Files) -> None:
    assert refused(files.settings(is_open=True), Permits(), Reader(FAR, OWN)) == ""


def test_without_rules_at_hand_super_users_alone_are_permitted(files: Files) -> None:
    config = AccessConfig(
        authorizer=AuthoriserKind.ACL,
        super_users=("User:O=Example,CN=scraper",),
        allow_everyone_if_no_acl_found=True,
    )
    reader = Reader(FAR, OWN, files.scraper)
    assert refused(files.settings(), without_rules(config), reader) == ""
    rule = "metrics.ssl_principal_mapping_rules=RULE:^.*CN=(.*?)$/$1/"
    assert "needs Describe" in refused(files.settings(rule), without_rules(config), reader)
    assert without_rules(AccessConfig()).permits_all


def test_a_new_certificate_is_used_and_a_broken_one_is_not(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.0)
    own = [tmp_path / "tls.pem", tmp_path / "tls.key"]

    def replace(pair: tuple[str, str]) -> None:
        for path, source in zip(own, pair, strict=True):
            shutil.copy(source, path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)  # noqa: PTH105  as one step

    async def scenario() -> None:
        replace(files.server)
        security = SecurityConfig(
            listener_security_protocol_map=("metrics:SSL",),
            ssl_certificate_file=str(own[0]),
            ssl_key_file=str(own[1]),
        )
        context = pages_access(security, Permits).context
        assert context is not None
        first = context()
        assert context() is first
        replace(files.other)
        second = context()
        assert second is not first
        own[0].write_text("no certificate")
        assert context() is second

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (["metrics:SASL_SSL"], "readers of its pages can not use SASL"),
        (["metrics:SASL_PLAINTEXT"], "readers of its pages can not use SASL"),
        (["metrics:SSL"], "give security.ssl_certificate_file"),
    ],
)
def test_what_the_port_can_not_do_is_said(overrides: list[str], text: str) -> None:
    security = SecurityConfig(listener_security_protocol_map=tuple(overrides))
    with pytest.raises(ConfigError, match=text):
        NodeSettings(security=security)


def test_the_name_of_the_port_belongs_to_it() -> None:
    with pytest.raises(ConfigError, match="give the other one another name"):
        NodeSettings(node=NodeConfig(listeners=("metrics://127.0.0.1:9095",)))
    free = NodeConfig(listeners=("metrics://127.0.0.1:9095",), metrics_port=0)
    assert NodeSettings(node=free).node.metrics_port == 0
    security = SecurityConfig(open_listeners=("metrics",))
    with pytest.raises(ConfigError, match="names listener metrics, which is not there"):
        NodeSettings(node=NodeConfig(metrics_port=0), security=security)


def test_limits_of_listeners_are_none_of_its() -> None:
    with pytest.raises(ConfigError, match=r"net\.listeners names metrics, which is not there"):
        load_settings(None, environment={}, overrides=["net.listeners=metrics.connections_max=5"])
