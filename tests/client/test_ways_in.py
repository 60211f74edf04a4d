"""How clients come in by TLS and SASL, and what they are told at once where they do not."""

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.ports import free_port
from penstock.access.rules import AclOperation
from penstock.client.access.permitted import permitted_operations
from penstock.client.access.wrong_port import answers_plainly
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.errors import (
    AuthenticationFailed,
    CertificateRefused,
    FileUnusable,
    WrongProtocol,
)
from penstock.client.security import security_of
from penstock.client.settings import ClientSettings
from tests.access.certificates import Authority
from tests.live_node import running_node

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
PASSWORD = "hunter2"
LISTENERS = {"SECURE": "SASL_SSL", "MUTUAL": "SSL"}
DEADLINE_MS = 600_000
"""What is refused for good is told long before."""


class Place(NamedTuple):
    """A node with a listener of each kind; `kafka` has no TLS."""

    ports: dict[str, int]
    directory: Path
    client: tuple[str, str]

    def cluster(self, listener: str, **settings: str) -> Cluster:
        """Return a client with the settings of a user, but these: `_` is `.`, and empty is none."""
        given = {
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "security.protocol": LISTENERS.get(listener, "PLAINTEXT"),
        }
        if listener == "SECURE":
            given |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice"}
            given["sasl.password.file"] = str(self.directory / "password")
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        security = security_of({name: value for name, value in given.items() if value})
        bootstrap = f"127.0.0.1:{self.ports[listener]}"
        return Cluster(
            ClientSettings(bootstrap=bootstrap, deadline_ms=DEADLINE_MS, security=security)
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("ways")
    (directory / "data").mkdir()
    authority = Authority(directory)
    certificate, key = authority.issue("server", "/CN=localhost")
    users = directory / "users"
    users.write_text(f"alice:{PASSWORD}\n")
    users.chmod(0o600)
    (directory / "password").write_text(f"{PASSWORD}\n")
    ports = {name: free_port() for name in LISTENERS}
    settings = (
        "node.listeners=" + ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "security.listener_security_protocol_map="
        + ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "security.listeners=MUTUAL.ssl_client_auth=required",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
        f"security.ssl_authority_file={authority.file}",
        "security.sasl_enabled_mechanisms=SCRAM-SHA-512",
        f"security.scram_first_users_file={users}",
    )
    with running_node(directory / "data", *settings) as node:
        yield Place(ports | {"kafka": node.port}, directory, authority.issue("client", "/CN=c"))


def test_a_password_comes_from_a_file_that_is_read_for_each_connection(
    place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("wrong")
    with place.cluster("SECURE", sasl_password_file=str(file)) as cluster:
        with pytest.raises(AuthenticationFailed, match="Authentication failed"):
            cluster.describe([])
        file.write_text(f" {PASSWORD}\n")
        assert len(cluster.describe([]).brokers) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), (b"\n", "is empty"), (b"\xff", "no text"), (b"a" * 65_537, "long")],
)
def test_a_file_without_a_password_is_named(
    place: Place, tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with (
        place.cluster("SECURE", sasl_password_file=str(file)) as cluster,
        pytest.raises(FileUnusable, match=rf"^sasl\.password\.file {file} .*{words}"),
    ):
        cluster.describe([])


def test_a_plain_client_is_told_of_tls_at_once(place: Place) -> None:
    for protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        with (
            place.cluster("SECURE", security_protocol=protocol) as cluster,
            pytest.raises(WrongProtocol, match=rf"has TLS, and security\.protocol is {protocol}$"),
        ):
            cluster.describe([])


def test_a_client_with_tls_is_told_at_once_that_the_port_has_none(place: Place) -> None:
    with (
        place.cluster("kafka", security_protocol="SSL") as cluster,
        pytest.raises(WrongProtocol, match=r"has no TLS, and security\.protocol is SSL$"),
    ):
        cluster.describe([])


def test_a_certificate_of_an_unknown_authority_is_refused_at_once(place: Place) -> None:
    stranger = Authority(place.directory / "stranger")
    with (
        place.cluster("SECURE", ssl_ca_location=stranger.file) as cluster,
        pytest.raises(CertificateRefused, match="its certificate is not accepted"),
    ):
        cluster.describe([])


def test_files_of_certificates_that_are_missing_are_told_with_their_settings(place: Place) -> None:
    with (
        place.cluster("SECURE", ssl_ca_location="/nowhere") as cluster,
        pytest.raises(FileUnusable, match=r"^ssl\.ca\.location /nowhere can not be used"),
    ):
        cluster.describe([])


def test_a_client_without_the_certificate_that_is_required_is_told_at_once(place: Place) -> None:
    with (
        place.cluster("MUTUAL") as cluster,
        pytest.raises(AuthenticationFailed, match="refuses the client's certificate, or lack"),
    ):
        cluster.describe([])
    certificate, key = place.client
    own = {"ssl_certificate_location": certificate, "ssl_key_location": key}
    with place.cluster("MUTUAL", **own) as cluster:
        assert len(cluster.describe([]).brokers) == 1


def test_what_the_client_may_do_with_a_topic_is_told(place: Place) -> None:
    with place.cluster("kafka") as cluster:
        assert permitted_operations(cluster, "not-there") is None
        Admin(cluster).create_topic("there", partitions=1)
        permitted = permitted_operations(cluster, "there")
    assert permitted is not None
    assert {AclOperation.READ, AclOperation.WRITE} <= permitted


@pytest.mark.parametrize(("answer", "is_plain"), [(b"\0\0\0\4", True), (b"HTTP", False)])
def test_a_port_that_answers_a_request_with_a_frame_has_no_tls(
    answer: bytes, is_plain: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(1)
                accepted.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            assert answers_plainly("127.0.0.1", port, b"?") is is_plain
        finally:
            serving.join()


def test_a_broker_that_does_not_tell_permissions_forbids_nothing(bootstrap: str) -> None:
    with Cluster(ClientSettings(bootstrap=bootstrap)) as cluster:
        assert cluster.topic("untold", create=True).partitions
        assert permitted_operations(cluster, "untold") is None
