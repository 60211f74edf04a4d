"""Peer links over mutual TLS: certificates are asked for in both directions."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import until
from penstock.base.errors import ConfigError
from penstock.net import tls_gate
from penstock.net.peer import Credentials, PeerSecurity, dial
from penstock.net.tls_gate import HANDSHAKES_MAX, TlsGate
from tests.net.peering import DIALER, SECRET, Port, drained, is_ended, peer_port, raw
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
    return PeerSecurity(Credentials(SECRET, tls_server=contexts[0], tls_client=contexts[1]))


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


def test_links_that_say_farewell_are_gone_at_once_when_all_are_ended(
    loop: str, certificates: Path
) -> None:
    """The loop of a command ends with it: it does not wait for the other end's farewell."""

    async def scenario() -> None:
        own = security(certificates)
        async with peer_port(security(certificates)) as port:
            link = await port.dial(security=own)
            own.use(Credentials(b"another secret of the tests"))
            link.close("done")
            assert own.links_of_others == 1
            own.end_links("the command has ended")
            for _ in range(3):  # TLS tells its protocol a turn after the socket has gone
                await asyncio.sleep(0)
            assert own.links_of_others == 0

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
            reader, writer = await raw(port)
            writer.write(b"GET / HTTP/1.1\r\n")
            assert await is_ended(reader), "within the test's time, not the handshake's"
            writer.close()
        async with peer_port() as port:
            with pytest.raises(OSError, match=r"."):
                await port.dial(security=security(certificates))

    run(scenario(), loop)


def test_tls_does_not_stand_for_the_secret(loop: str, certificates: Path) -> None:
    async def scenario() -> None:
        both = security(certificates)
        other = PeerSecurity(replace(both.credentials, secret=b"another"))
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
                    port.address, DIALER, PeerSecurity(Credentials(SECRET)), timeout_ms=5_000,
                    frame_bytes_max=1 << 20,
                )  # fmt: skip

    run(scenario(), loop)


def test_contexts_that_ask_for_no_certificate_are_refused(loop: str) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ConfigError, match="CERT_REQUIRED"):
        Credentials(SECRET, tls_server=server)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ConfigError, match="both"):
        Credentials(SECRET, tls_client=client)


def first_words() -> bytes:
    """Return what a TLS client says first."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    written = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), written).do_handshake()
    return written.read()


class Signatures:
    """Counts in how many handshakes first words were answered, by turn of the loop."""

    def __init__(self, security: PeerSecurity) -> None:
        assert security.credentials.tls_server is not None
        security.credentials.tls_server.sni_callback = self._answer
        self.turns: list[int] = []
        self._in_turn = 0

    def _answer(self, *_: object) -> None:
        if self._in_turn == 0:
            asyncio.get_running_loop().call_soon(self._turn_over)
        self._in_turn += 1

    def _turn_over(self) -> None:
        self.turns.append(self._in_turn)
        self._in_turn = 0


def connections(port: Port, count: int) -> list[socket.socket]:
    return [socket.create_connection(port.address) for _ in range(count)]


@pytest.mark.parametrize("split", [0, 1, 100])
def test_first_words_of_many_strangers_are_answered_over_many_turns(
    loop: str, certificates: Path, split: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those who send a part first, and all the rest in one moment."""
    count, words = 60, first_words()
    monkeypatch.setattr(tls_gate, "PLACE_SECONDS", 0.1)

    async def scenario() -> None:
        both = security(certificates)
        signed = Signatures(both)
        async with peer_port(both) as port:
            strangers = connections(port, count)
            for stranger in strangers:
                stranger.sendall(words[:split])
            if split:
                await until(lambda: port.listener.stranger_count == count)
                await asyncio.sleep(0)
            for stranger in strangers:
                stranger.sendall(words[split:])
            await until(lambda: sum(signed.turns) > HANDSHAKES_MAX)
            for stranger in strangers:
                stranger.close()
            await until(lambda: port.listener.stranger_count == 0)
        assert max(signed.turns) <= HANDSHAKES_MAX

    run(scenario(), loop)


def test_who_holds_a_place_and_says_no_more_gives_it_to_a_peer(
    loop: str, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_gate, "PLACE_SECONDS", 0.01)

    async def scenario() -> None:
        both = security(certificates)
        async with peer_port(both) as port:
            strangers = connections(port, 20)
            for stranger in strangers:
                stranger.sendall(first_words())
            link = await port.dial(security=both)
            assert link.is_open
            for stranger in strangers:
                stranger.close()

    run(scenario(), loop)


def test_strangers_that_say_nothing_or_half_a_word_keep_no_peer_waiting(
    loop: str, certificates: Path
) -> None:
    async def scenario() -> None:
        both = security(certificates)
        async with peer_port(both) as port:
            strangers = connections(port, 40)
            for stranger in strangers[::2]:
                stranger.sendall(first_words()[:50])
            await until(lambda: port.listener.stranger_count == 40)
            link = await port.dial(security=both)
            assert link.is_open
            assert port.listener.stranger_count == 40
            for stranger in strangers:
                stranger.close()

    run(scenario(), loop)


def test_stranger_at_a_tls_port_without_a_word_is_gone_after_its_time(
    loop: str, certificates: Path
) -> None:
    async def scenario() -> None:
        async with peer_port(security(certificates)) as port:
            port.listener.handshake_timeout_ms = 20
            (stranger,) = connections(port, 1)
            await until(lambda: port.listener.stranger_count == 1)
            await until(lambda: port.listener.stranger_count == 0)
            await drained()
            stranger.setblocking(False)
            assert stranger.recv(1) == b"", "closed, and its descriptor free"
            stranger.close()

    run(scenario(), loop)


def test_places_go_to_the_address_that_has_fewest(loop: str) -> None:
    class Asker:
        def __init__(self, host: str) -> None:
            self.host = host

    async def scenario() -> None:
        ended: list[object] = []
        gate = TlsGate(asyncio.get_running_loop(), lambda link, _: ended.append(link))
        pairs = [socket.socketpair() for _ in range(2 * HANDSHAKES_MAX + 1)]
        for mine, other in pairs:
            mine.setblocking(False)
            other.sendall(b"no TLS at all")
        many: list[Any] = [Asker("many") for _ in range(2 * HANDSHAKES_MAX)]
        tasks = [
            asyncio.ensure_future(gate.enter(one, mine))
            for one, (mine, _) in zip(many, pairs, strict=False)
        ]
        await until(lambda: sum(task.done() for task in tasks) == HANDSHAKES_MAX)
        first = [one for one, task in zip(many, tasks, strict=True) if task.done()]
        few: Any = Asker("few")
        await gate.enter(few, pairs[-1][0])
        assert ended == first[:1], "at once, in the place of the oldest"
        gate.leave(few)
        assert sum(task.done() for task in tasks) <= HANDSHAKES_MAX + 1
        for one in many:
            gate.leave(one)
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        gate.close()
        for mine, other in pairs:
            mine.close()
            other.close()

    run(scenario(), loop)
