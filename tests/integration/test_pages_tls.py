"""The HTTP port over TLS, of real processes: a node, a machine, and the commands that ask them."""

import os
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from harness.node import is_ready
from harness.served_machine import Machine
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.access.certificates import Authority

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

PENSTOCK = (sys.executable, "-m", "penstock.cli.main")


class Files:
    """The certificate of a node, which may be replaced."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "authority")
        self.pem, self.key = directory / "tls.pem", directory / "tls.key"
        self.replace("first")

    def replace(self, name: str) -> None:
        made = self.authority.issue(name, f"/CN={name}")
        for path, source in zip((self.pem, self.key), made, strict=True):
            shutil.copy(source, path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)  # noqa: PTH105  as one step

    @property
    def security(self) -> dict[str, object]:
        return {
            "listener_security_protocol_map": ["metrics:SSL"],
            "ssl_certificate_file": str(self.pem),
            "ssl_key_file": str(self.key),
        }

    def get(self, port: int, path: str) -> tuple[str, bytes]:
        """Return the name of the server's certificate, and the answer."""
        context = ssl.create_default_context(cafile=self.authority.file)
        with (
            socket.create_connection(("127.0.0.1", port), UNTIL_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as secured,
        ):
            secured.sendall(f"GET {path} HTTP/1.1\r\nHost: node\r\n\r\n".encode())
            answer = b"".join(iter(lambda: secured.recv(65_536), b""))
            shown = secured.getpeercert()
        assert shown is not None
        subject: tuple[tuple[tuple[str, str], ...], ...] = shown["subject"]  # type: ignore[assignment]
        return dict(one[0] for one in subject)["commonName"], answer


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def told(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENSTOCK, *command], capture_output=True, text=True, timeout=UNTIL_SECONDS, check=False
    )


def test_a_machine_asks_its_nodes_over_tls(files: Files, tmp_path: Path) -> None:
    with Machine(tmp_path, nodes=1, more={"security": files.security}) as machine:
        machine.start()
        name, answer = files.get(machine.port + 4, "/metrics")
        assert name == "first"
        assert b'penstock_node_up{node="1"} 1.0' in answer
        assert not is_ready(machine.port + 3), "in plain text"
        config = tmp_path / "node-1.toml"
        pages = f'metrics_port = {machine.port + 3}\ndata_directories = ["data"]'
        security = "\n".join(
            f"{key} = {value!r}".replace("'", '"') for key, value in files.security.items()
        )
        config.write_text(f"[node]\n{pages}\n[security]\n{security}\n")
        status = told("tier", "status", "--config", str(config), "-o", "json")
        assert status.returncode == 0, status.stderr
        found = told("doctor", "--config", str(config)).stdout
        assert "other machines read /health and /ready alone" in found

        client = tmp_path / "client.properties"
        client.write_text(f"security.protocol = SSL\nssl.ca.location = {files.authority.file}\n")
        named = f"https://localhost:{machine.port + 3}"
        trusting = told("--client-config", str(client), "tier", "status", named)
        assert trusting.returncode == 0, trusting.stderr
        assert "does not answer" in told("tier", "status", named).stderr

        files.replace("second")
        assert wait_until(
            lambda: files.get(machine.port + 3, "/health")[0] == "second", UNTIL_SECONDS
        )
        assert wait_until(
            lambda: files.get(machine.port + 4, "/metrics")[0] == "second", UNTIL_SECONDS
        )
        up = b'penstock_node_up{node="1"} 1.0'
        assert wait_until(lambda: up in files.get(machine.port + 4, "/metrics")[1], UNTIL_SECONDS)
