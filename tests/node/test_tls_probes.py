"""TLS of a running node, probed as scanners do: old versions, weak ciphers, broken handshakes.

The ports are those for Kafka's and RocketMQ's clients, and the HTTP port. Each probe that is to
fail has one beside it that succeeds, so that a probe which could not work at all is noticed.
"""

import errno
import random
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator

import pytest

from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS
from tests.access.certificates import Authority
from tests.live_node import LiveNode, running_node

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

PORTS = ("kafka", "metrics", "remoting", "grpc")
NO_LEVEL = "@SECLEVEL=0"
"""So that openssl itself offers what is weak."""
DONE = "Cipher is "
NOTHING = "Cipher is (NONE)"
CLOSED = {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}
CUTS = 40
FLIPS = 60


class Place:
    """A node with TLS at all ports."""

    def __init__(self, node: LiveNode, ports: dict[str, int], authority: Authority) -> None:
        self.node, self.authority = node, authority
        self.ports = {"kafka": node.port, **ports}

    def probe(self, port: str, *options: str, typed: str = "Q\n") -> str:
        """Return what openssl's client says; `typed` are its commands."""
        ran = subprocess.run(
            ["openssl", "s_client", "-alpn", "h2", "-connect", self._address(port), *options],
            input=typed,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # HTTP/2's first frames are none
            timeout=UNTIL_SECONDS,
            check=False,
        )
        return ran.stdout + ran.stderr

    def _address(self, port: str) -> str:
        return f"127.0.0.1:{self.ports[port]}"

    def is_well(self, port: str) -> bool:
        """Whether a client with nothing strange about it is let in."""
        context = ssl.create_default_context(cafile=self.authority.file)
        context.set_alpn_protocols(["h2"])  # which gRPC asks for, and nobody else looks at
        with (
            socket.create_connection(("127.0.0.1", self.ports[port]), UNTIL_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as secured,
        ):
            return secured.version() == "TLSv1.3"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("probes")
    authority = Authority(directory / "ca")
    data = directory / "data"
    data.mkdir()
    certificate, key = authority.issue("node", "/CN=node")
    ports = {name: free_port() for name in PORTS if name != "kafka"}
    protocols = ",".join(f"{name}:SSL" for name in PORTS)
    with running_node(
        data,
        f"node.metrics_port={ports['metrics']}",
        f"remoting.port={ports['remoting']}",
        f"grpc.port={ports['grpc']}",
        f"security.listener_security_protocol_map={protocols}",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
    ) as node:
        yield Place(node, ports, authority)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("version", ["tls1", "tls1_1"])
def test_old_versions_are_refused(place: Place, port: str, version: str) -> None:
    said = place.probe(port, f"-{version}", "-cipher", f"ALL:{NO_LEVEL}")
    assert NOTHING in said
    assert "alert protocol version" in said


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_present_versions_are_spoken(place: Place, port: str, version: str) -> None:
    said = place.probe(port, f"-{version}")
    assert DONE in said
    assert NOTHING not in said
    assert "Compression: NONE" in said


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(
    "cipher", ["aNULL", "eNULL", "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-NULL-SHA"]
)
def test_weak_ciphers_are_refused(place: Place, port: str, cipher: str) -> None:
    said = place.probe(port, "-tls1_2", "-cipher", f"{cipher}:{NO_LEVEL}")
    assert NOTHING in said
    assert "alert handshake failure" in said


@pytest.mark.parametrize("port", PORTS)
def test_strong_ciphers_are_taken(place: Place, port: str) -> None:
    said = place.probe(port, "-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert "Cipher is ECDHE-ECDSA-AES128-GCM-SHA256" in said


@pytest.mark.parametrize("port", PORTS)
def test_a_client_can_not_shake_hands_again(place: Place, port: str) -> None:
    said = place.probe(port, "-tls1_2", typed="R\nQ\n")
    assert "RENEGOTIATING" in said
    # gRPC's server has said something by then, which openssl takes for no handshake.
    assert "no renegotiation" in said or (port == "grpc" and "unexpected record" in said)


def hello() -> bytes:
    """The first record of a client."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def send(place: Place, port: str, data: bytes) -> None:
    """Send bytes and the end; read what is answered until the node has closed.

    It may close before it has all of them, and reset what it does not read.
    """
    with socket.create_connection(("127.0.0.1", place.ports[port]), UNTIL_SECONDS) as raw:
        try:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
        except OSError as error:
            if error.errno not in CLOSED:
                raise


@pytest.mark.parametrize("port", PORTS)
def test_a_handshake_may_end_anywhere(place: Place, port: str) -> None:
    whole = hello()
    for cut in {len(whole) * at // CUTS for at in range(CUTS)} | {1, 4, 5, 6, len(whole) - 1}:
        send(place, port, whole[:cut])
    assert place.is_well(port)


@pytest.mark.parametrize("port", PORTS)
def test_a_handshake_may_be_nonsense(place: Place, port: str) -> None:
    chooser = random.Random(20)
    whole = hello()
    for _ in range(FLIPS):
        changed = bytearray(whole)
        for _ in range(chooser.choice((1, 3, 20))):
            changed[chooser.randrange(1, len(changed))] = chooser.randrange(256)
        send(place, port, bytes(changed))
    send(place, port, b"\x16\x03\x01\xff\xff" + bytes(70_000))
    assert place.is_well(port)
