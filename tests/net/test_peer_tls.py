"""Peer links over mutual TLS: certificates are asked for in both directions."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from harness.waiting import until

from penstock.base.errors import ConfigError
from penstock.net.peer import PeerSecurity, dial
from tests.net.peering import DIALER, SECRET, drained, peer_port
from tests.net.serving import LOOPS, run

pytestmark = [
    pytest.mark.parametrize("loop", LOOPS),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]


def openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a certificate that it signed, and one that signed itself."""
    directory = tmp_path_factory.mktemp("certificates")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("authority", "stranger"):
        openssl(
            directory, "req", "-x509", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.pem",
            "-subj", f"/CN={name}", "-days", "2", "-addext", "keyUsage=critical,keyCertSign",
        )  # fmt: skip
    openssl(
        directory, "req", *new_key, "-keyout", "peer.key", "-out", "peer.csr",
        "-subj", "/CN=peer", "-addext", "subjectAltName=IP:127.0.0.1",
    )  # fmt: skip
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(
        directory, "x509", "-req", "-in", "peer.csr", "-CA", "authority.pem", "-CAkey",
        "authority.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "peer.pem",
    )  # fmt: skip
    return directory


def security(directory: Path, name: str = "peer") -> PeerSecurity:
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        context = ssl.create_default_context(purpose, cafile=str(directory / "authority.pem"))
        context.load_cert_chain(directory / f"{name}.pem", directory / f"{name}.key")
        context.verify_mode = ssl.CERT_REQUIRED
        contexts.append(context)
    return PeerSecurity(SECRET, tls_server=contexts[0], tls_client=contexts[1])


def test_frames_go_both_ways_encrypted(loop: str, certificates: Path) -> None:
    async def scenario() -> None:
        both = security(certificates)
        async with peer_port(both) as port:
            link = await port.dial(security=both)
            listener = await port.end()
            sent = [b"a", bytes(3 << 20), b"b"]
            for payload in sent:
                link.send(payload)
            assert await listener.received(3) == sent
            link.on_frame = lambda _: None
            listener.link.close("done")
            assert await listener.closed() == "done"

    run(scenario(), loop)


def test_peer_without_a_certificate_of_the_authority_is_not_let_in(
    loop: str, certificates: Path
) -> None:
    async def scenario() -> None:
        async with peer_port(security(certificates)) as port:
            with pytest.raises(OSError, match=r"."):
                await port.dial(security=security(certificates, "stranger"))
            assert port.ends == []

    run(scenario(), loop)


def test_listener_with_a_certificate_of_nobody_is_not_believed(
    loop: str, certificates: Path
) -> None:
    async def scenario() -> None:
        async with peer_port(security(certificates, "stranger")) as port:
            with pytest.raises(ssl.SSLError):
                await port.dial(security=security(certificates))
            assert port.ends == []

    run(scenario(), loop)


def test_dialler_that_breaks_the_tls_handshake_off_is_no_link_at_the_port(
    loop: str, certificates: Path
) -> None:
    """Such an end may come without a reason; it must not pass for an open link."""

    async def scenario() -> None:
        failures: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
        async with peer_port(security(certificates, "stranger")) as port:
            for _ in range(3):
                with pytest.raises(ssl.SSLError):
                    await port.dial(security=security(certificates))
            await until(lambda: port.listener.stranger_count == 0)
            assert port.listener.link_count == 0
            assert port.ends == []
        assert failures == []

    run(scenario(), loop)


def test_plain_dialler_and_tls_port_and_the_other_way_round_end_at_once(
    loop: str, certificates: Path
) -> None:
    async def scenario() -> None:
        async with peer_port(security(certificates)) as port:
            with pytest.raises(OSError, match=r"."):
                await port.dial()
        async with peer_port() as port:
            with pytest.raises(OSError, match=r"."):
                await port.dial(security=security(certificates))

    run(scenario(), loop)


def test_tls_does_not_stand_for_the_secret(loop: str, certificates: Path) -> None:
    async def scenario() -> None:
        both = security(certificates)
        other = PeerSecurity(b"another", tls_server=both.tls_server, tls_client=both.tls_client)
        async with peer_port(both) as port:
            with pytest.raises(Exception, match="wrong secret"):
                await port.dial(security=other)

    run(scenario(), loop)


def test_silent_stranger_at_a_tls_port_is_ended_after_its_time(
    loop: str, certificates: Path
) -> None:
    async def scenario() -> None:
        async with peer_port(security(certificates)) as port:
            port.listener.handshake_timeout_ms = 50
            reader, writer = await asyncio.open_connection(*port.address)
            assert await reader.read() == b""
            writer.close()
            await drained()
            assert port.listener.stranger_count == 0
            with pytest.raises(OSError, match=r"."):
                await dial(
                    port.address, DIALER, PeerSecurity(SECRET), timeout_ms=5_000,
                    frame_bytes_max=1 << 20,
                )  # fmt: skip

    run(scenario(), loop)


def test_contexts_that_ask_for_no_certificate_are_refused(loop: str) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ConfigError, match="CERT_REQUIRED"):
        PeerSecurity(SECRET, tls_server=server)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ConfigError, match="both"):
        PeerSecurity(SECRET, tls_client=client)
