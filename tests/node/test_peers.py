"""What a process proves itself with, and its ports for other processes."""

import shutil
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.ports import free_port
from penstock.base.errors import ConfigError
from penstock.net.peer import PeerHello, PeerLink, dial
from penstock.node.peers import ALONE, credentials, listen, peer_security
from penstock.node.settings.cluster_config import ClusterConfig
from tests.net.serving import run

OWN = PeerHello(b"", "c", 1, 0)
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterConfig:
    """With a certificate that is its own authority."""
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    (tmp_path / "secret").chmod(0o600)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=peer"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key", "-out", "certificate"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return ClusterConfig(
        secret_file=str(tmp_path / "secret"),
        tls_certificate_file=str(tmp_path / "certificate"),
        tls_key_file=str(tmp_path / "key"),
        tls_authority_file=str(tmp_path / "certificate"),
    )


def test_without_files_there_is_a_secret_and_no_tls(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    (tmp_path / "secret").chmod(0o600)
    found = credentials(ClusterConfig(secret_file=str(tmp_path / "secret")))
    assert found.secret == b"0123456789abcdef"
    assert (found.others, found.tls_server, found.tls_client) == ((), None, None)
    assert credentials(ClusterConfig()).secret == ALONE


@needs_openssl
def test_both_ends_of_tls_ask_for_a_certificate(cluster: ClusterConfig) -> None:
    found = credentials(cluster)
    for context in (found.tls_server, found.tls_client):
        assert context is not None
        assert context.verify_mode is ssl.CERT_REQUIRED


@needs_openssl
def test_two_processes_with_the_same_files_talk(cluster: ClusterConfig) -> None:
    async def scenario() -> None:
        links: list[PeerLink] = []
        port, security = free_port(), peer_security(cluster)
        listener = listen(
            address=("127.0.0.1", port),
            own=OWN,
            security=security,
            purposes={b"ha": links.append},
            frame_bytes_max=1 << 20,
        )
        hello = PeerHello(b"ha", "c", 2, 7)
        link = await dial(
            ("127.0.0.1", port), hello, security, timeout_ms=5_000, frame_bytes_max=1 << 20
        )
        assert link.hello.peer_id == 1
        link.close("done")
        listener.stop()

    run(scenario())


@needs_openssl
@pytest.mark.parametrize("name", ["tls_certificate_file", "tls_key_file", "tls_authority_file"])
@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_files_that_can_not_be_used_are_refused_in_one_line(
    cluster: ClusterConfig, tmp_path: Path, name: str, content: str | None
) -> None:
    wrong = tmp_path / "wrong"
    if content is not None:
        wrong.write_text(content)
    with pytest.raises(ConfigError, match=r"can not be used together: ") as raised:
        peer_security(replace(cluster, **cast("dict[str, Any]", {name: str(wrong)})))
    assert len(str(raised.value).splitlines()) == 1


@needs_openssl
def test_key_of_another_certificate_is_refused(cluster: ClusterConfig, tmp_path: Path) -> None:
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-out", "other"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with pytest.raises(ConfigError, match="can not be used together: "):
        peer_security(replace(cluster, tls_key_file=str(tmp_path / "other")))


def test_port_in_use_is_refused_by_its_address() -> None:
    async def scenario() -> None:
        port = free_port()

        def open_port() -> object:
            return listen(
                address=("127.0.0.1", port),
                own=OWN,
                security=peer_security(ClusterConfig()),
                purposes={},
                frame_bytes_max=1 << 20,
            )

        first = open_port()
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
            open_port()
        first.stop()  # type: ignore[attr-defined]

    run(scenario())
