"""The HTTP port over TLS: pages as without, and handshakes that others can not keep out."""

import asyncio
import contextlib
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, until
from penstock.net.errors import CloseKind
from penstock.net.tls.handshakes import HANDSHAKE_TICKS
from penstock.runtime.io import http_tls
from penstock.runtime.io.http_server import TEXT, HttpServer, Page, Reader
from penstock.runtime.io.http_tls import HANDSHAKES_MAX
from tests.access.certificates import Authority
from tests.net.serving import run

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

BIG = b"x" * (3 << 20)


class Files:
    """An authority, and the certificates of a server and a client."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.server = self.authority.issue("server", "/CN=server")
        self.client = self.authority.issue("client", "/CN=client")
        self.client_bytes = ssl.PEM_cert_to_DER_cert(Path(self.client[0]).read_text())

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server)
        context.load_verify_locations(self.authority.file)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def clients(self, *, has_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.file)
        if has_certificate:
            context.load_cert_chain(*self.client)
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


class Served:
    """A started server, and who has asked it."""

    def __init__(self, server: HttpServer, port: int, files: Files) -> None:
        self.server, self.port, self.files = server, port, files
        self.readers: list[Reader] = []
        self.sockets = contextlib.ExitStack()

    async def get(self, path: str, *, has_certificate: bool = False) -> tuple[bytes, bytes]:
        """Return the status and the body.

        On a thread: TLS of uvloop's clients loses what comes together with the end.
        """
        return await asyncio.to_thread(self._get, path, has_certificate)

    def _get(self, path: str, has_certificate: bool) -> tuple[bytes, bytes]:
        context = self.files.clients(has_certificate=has_certificate)
        with (
            socket.create_connection(("127.0.0.1", self.port), 10) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as secured,
        ):
            secured.sendall(f"GET {path} HTTP/1.1\r\nHost: node\r\n\r\n".encode())
            received = b"".join(iter(lambda: secured.recv(65_536), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        return head.split(b" ")[1], body

    def connect(self) -> socket.socket:
        opened = self.sockets.enter_context(socket.create_connection(("127.0.0.1", self.port)))
        opened.setblocking(False)
        return opened

    async def until_closed(self, opened: socket.socket) -> None:
        async with asyncio.timeout(UNTIL_SECONDS):
            assert await asyncio.get_running_loop().sock_recv(opened, 1) == b""


@asynccontextmanager
async def serving(files: Files, refused: str = "") -> AsyncIterator[Served]:
    context = files.context()

    def refuse(reader: Reader) -> str:
        served.readers.append(reader)
        return refused

    pages = {
        "/page": lambda: Page(200, TEXT, b"hello\n"),
        "/big": lambda: Page(200, TEXT, BIG),
        "/health": lambda: Page(200, TEXT, b"well\n"),
    }
    server = HttpServer(pages, context=lambda: context, refuse=refuse)
    served = Served(server, free_port(), files)
    await server.start("127.0.0.1", served.port)
    try:
        yield served
    finally:
        server.stop()
        served.sockets.close()


def test_pages_are_served_over_tls(files: Files) -> None:
    async def scenario() -> None:
        async with serving(files) as served:
            assert await served.get("/page") == (b"200", b"hello\n")
            assert (await served.get("/absent"))[0] == b"404"

    run(scenario())


def test_a_page_that_takes_many_turns_to_encrypt_arrives_whole(files: Files) -> None:
    async def scenario() -> None:
        async with serving(files) as served:
            assert await served.get("/big") == (b"200", BIG)

    run(scenario())


def test_who_asks_is_known_by_address_and_certificate(files: Files) -> None:
    async def scenario() -> None:
        async with serving(files) as served:
            await served.get("/page")
            await served.get("/page", has_certificate=True)
            near = ("127.0.0.1", "127.0.0.1")
            assert served.readers == [Reader(*near), Reader(*near, files.client_bytes)]

    run(scenario())


def test_who_may_not_read_is_told_why_and_learns_whether_the_node_is_well(files: Files) -> None:
    async def scenario() -> None:
        async with serving(files, refused="not for you") as served:
            assert await served.get("/page") == (b"403", b"not for you\n")
            assert await served.get("/health") == (b"200", b"well\n")
            assert len(served.readers) == 1

    run(scenario())


def test_plain_text_is_closed_at_its_first_byte(files: Files) -> None:
    async def scenario() -> None:
        async with serving(files) as served:
            opened = served.connect()
            await asyncio.get_running_loop().sock_sendall(opened, b"GET /page HTTP/1.1\r\n\r\n")
            await served.until_closed(opened)
            assert served.server.tls is not None
            assert served.server.tls.failed[CloseKind.NOT_TLS] == 1

    run(scenario())


def test_those_that_only_connect_give_way_and_keep_nobody_out(files: Files) -> None:
    async def scenario() -> None:
        async with serving(files) as served:
            tls = served.server.tls
            assert tls is not None
            silent = [served.connect() for _ in range(HANDSHAKES_MAX + 5)]
            await until(lambda: tls.failed[CloseKind.GAVE_WAY] == 5)
            assert await served.get("/page") == (b"200", b"hello\n")
            for one in silent[:6]:
                await served.until_closed(one)

    run(scenario())


def test_a_handshake_has_its_time(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_tls, "TICK_SECONDS", 3600.0)

    async def scenario() -> None:
        async with serving(files) as served:
            tls = served.server.tls
            assert tls is not None
            opened = served.connect()
            await asyncio.get_running_loop().sock_sendall(opened, b"\x16\x03\x01")
            await served.get("/health")  # it has been accepted
            for _ in range(HANDSHAKE_TICKS - 1):
                tls.sweep()
            assert not tls.failed
            tls.sweep()
            await served.until_closed(opened)
            assert tls.failed[CloseKind.TLS_FAILED] == 1

    run(scenario())


def test_a_stopped_port_ends_handshakes(files: Files) -> None:
    async def scenario() -> None:
        async with serving(files) as served:
            opened = served.connect()
            await served.get("/health")
            served.server.stop()
            await served.until_closed(opened)

    run(scenario())
