import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from harness.ports import free_port
from harness.waiting import until
from penstock.base.errors import ConfigError
from penstock.runtime.io import http_server
from penstock.runtime.io.http_server import TEXT, HttpServer, Page
from tests.net.serving import run


async def later() -> Page:
    """A page that has to be waited for."""
    await asyncio.sleep(0.01)
    return Page(200, TEXT, b"late\n")


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    server = HttpServer(
        {
            "/page": lambda: Page(200, TEXT, b"hello\n"),
            "/down": lambda: Page(503, TEXT, b"no\n"),
            "/later": later,
        }
    )
    port = free_port()
    await server.start("127.0.0.1", port)
    try:
        yield port
    finally:
        server.stop()


async def exchange(port: int, request: bytes) -> bytes:
    """Send and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: node\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("request_bytes", "status", "body"),
    [
        (get("/page"), b"200", b"hello\n"),
        (get("/page?x=1"), b"200", b"hello\n"),
        (get("/down"), b"503", b"no\n"),
        (get("/later"), b"200", b"late\n"),
        (get("/absent"), b"404", b"not found; there is /down /later /page\n"),
        (get("/page", "POST"), b"405", b"only GET and HEAD\n"),
        (get("/page", "DELETE"), b"405", b"only GET and HEAD\n"),
        (b"nonsense\r\n\r\n", b"400", b"bad\n"),
        (b"\x16\x03\x01" * 100 + b"\r\n\r\n", b"400", b"bad\n"),
        (b"GET /" + b"a" * 40_000, b"400", b"bad\n"),
    ],
)
def test_a_request_gets_its_answer(request_bytes: bytes, status: bytes, body: bytes) -> None:
    async def scenario() -> None:
        async with serving() as port:
            answer = await exchange(port, request_bytes)
        head, _, found = answer.partition(b"\r\n\r\n")
        assert head.split(b" ")[1] == status
        assert b"Connection: close" in head
        assert found == body

    run(scenario())


@pytest.mark.parametrize(
    ("path", "status", "size"), [("/page", b"200", b"6"), ("/absent", b"404", b"39")]
)
def test_head_gets_the_header_and_no_body(path: str, status: bytes, size: bytes) -> None:
    async def scenario() -> None:
        unexpected: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unexpected.append(context))
        async with serving() as port:
            answer = await exchange(port, get(path, "HEAD"))
            await asyncio.sleep(0)
        assert not unexpected
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status)
        assert b"Content-Length: " + size in head
        assert body == b""

    run(scenario())


def test_a_client_that_sends_nothing_is_let_go_after_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        async with serving() as port:
            assert await exchange(port, b"") == b""
            assert await exchange(port, b"GET /pa") == b""
            assert b"hello" in await exchange(port, get("/page"))

    run(scenario())


def test_a_client_that_goes_away_early_harms_nobody() -> None:
    async def scenario() -> None:
        async with serving() as port:
            for _ in range(100):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /")
                writer.transport.abort()
            assert b"hello" in await exchange(port, get("/page"))

    run(scenario())


def test_a_connection_that_makes_room_with_its_request_under_way_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 1)

    async def scenario() -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: errors.append(what))
        server = HttpServer({"/page": lambda: Page(200, TEXT, b"hello\n")})
        port = free_port()
        await server.start("127.0.0.1", port)
        async with server._parsing:  # as if others' requests were looked at
            first = await asyncio.open_connection("127.0.0.1", port)
            first[1].write(get("/page"))
            await first[1].drain()
            second = await asyncio.open_connection("127.0.0.1", port)
            second[1].write(get("/page"))
            with contextlib.suppress(ConnectionError):
                assert await first[0].read() == b"", "it has made room"
        assert (await second[0].read()).endswith(b"hello\n")
        for _, writer in (first, second):
            writer.close()
        server.stop()
        assert errors == []

    run(scenario())


def test_connections_that_ask_for_nothing_keep_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)

    async def scenario() -> None:
        async with serving() as port:
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert (await exchange(port, get("/page"))).endswith(b"hello\n")
            assert await idle[0][0].read() == b"", "the oldest has made room"
            idle[1][1].write(get("/page"))
            assert (await idle[1][0].read()).endswith(b"hello\n"), "the others are there still"
            for _, writer in idle:
                writer.close()

    run(scenario())


def test_the_address_with_the_most_connections_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)

    async def scenario() -> None:
        async with serving() as port:
            lone = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert await idle[0][0].read() == b""
            lone[1].write(get("/page"))
            assert (await lone[0].read()).endswith(b"hello\n")
            for _, writer in (lone, *idle):
                writer.close()

    run(scenario())


def test_who_has_asked_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 1)

    async def scenario() -> None:
        page = Page(200, TEXT, b"long " * 2_000_000)
        server = HttpServer({"/page": lambda: page})
        port = free_port()
        await server.start("127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/page"))
        assert await reader.readexactly(4) == b"HTTP"
        assert await exchange(port, b"") == b""
        rest = await reader.read()
        assert len(rest) > len(page.body), "all of it, though another one came"
        writer.close()
        server.stop()

    run(scenario())


LARGE = Page(200, TEXT, b"long " * 2_000_000)
HEALTHY = Page(200, TEXT, b"well\n")


@asynccontextmanager
async def large_pages(monkeypatch: pytest.MonkeyPatch, most: int) -> AsyncIterator[int]:
    """Serve a page that no socket takes at once, to so many at a time, and a small one always."""
    monkeypatch.setattr(http_server, "ASKED_MAX", most)
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 2 * most)
    server = HttpServer({"/metrics": lambda: LARGE, "/health": lambda: HEALTHY})
    port = free_port()
    await server.start("127.0.0.1", port)
    try:
        yield port
    finally:
        server.stop()


async def deaf(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Ask for the large page and read no more than its first bytes."""
    loop = asyncio.get_running_loop()
    peer = socket.socket()
    peer.setblocking(False)
    peer.bind((host, 0))
    await loop.sock_connect(peer, ("127.0.0.1", port))
    await loop.sock_sendall(peer, get("/metrics"))
    assert await loop.sock_recv(peer, 4) == b"HTTP"
    return peer


async def rest_of(peer: socket.socket) -> int:
    """Return how many bytes still come, until the end or a reset."""
    got = 0
    with peer, contextlib.suppress(ConnectionError):
        while data := await asyncio.get_running_loop().sock_recv(peer, 1 << 20):
            got += len(data)
    return got


def test_answers_that_nobody_takes_keep_neither_health_nor_others_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with large_pages(monkeypatch, 2) as port:
            held = [await deaf(port) for _ in range(6)]
            assert (await exchange(port, get("/health"))).endswith(b"well\n")
            assert (await exchange(port, get("/metrics"))).endswith(LARGE.body)
            got = [await rest_of(peer) >= len(LARGE.body) for peer in held]
            assert got == [False] * 5 + [True], "those answered first have made room"

    run(scenario())


def test_who_takes_no_answers_makes_room_before_another_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with large_pages(monkeypatch, 3) as port:
            slow = await deaf(port, "127.0.0.2")
            others = [await deaf(port) for _ in range(5)]
            assert await rest_of(slow) >= len(LARGE.body)
            for peer in others:
                peer.close()

    run(scenario())


def test_an_answer_that_is_not_taken_is_cut_off_after_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "ANSWER_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        server = HttpServer({"/metrics": lambda: LARGE})
        port = free_port()
        await server.start("127.0.0.1", port)
        peer = await deaf(port)
        await until(lambda: not server._open)
        assert await rest_of(peer) < len(LARGE.body)
        server.stop()

    run(scenario())


def test_more_pages_than_can_be_made_are_refused_and_health_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "ASKED_MAX", 2)

    async def scenario() -> None:
        may_end = asyncio.Event()
        asked: list[bool] = []

        async def never() -> Page:
            asked.append(True)
            await may_end.wait()
            return LARGE

        server = HttpServer({"/metrics": never, "/health": lambda: HEALTHY})
        port = free_port()
        await server.start("127.0.0.1", port)
        waiting = [asyncio.create_task(exchange(port, get("/metrics"))) for _ in range(2)]
        await until(lambda: len(asked) == 2)
        refused = await exchange(port, get("/metrics"))
        health = await exchange(port, get("/health"))
        may_end.set()
        for answer in await asyncio.gather(*waiting):
            assert answer.endswith(LARGE.body)
        server.stop()
        assert b" 503 " in refused
        assert health.endswith(b"well\n")

    run(scenario())


def test_an_address_in_use_is_a_clear_error() -> None:
    async def scenario() -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            with pytest.raises(ConfigError, match=r"node\.metrics_port"):
                await HttpServer({}).start("127.0.0.1", holder.getsockname()[1])

    run(scenario())


def test_many_pages_asked_for_at_once_leave_turns_to_others() -> None:
    async def scenario() -> None:
        order: list[str] = []

        def page() -> Page:
            order.append("page")
            return Page(200, TEXT, b"hello\n")

        async def others() -> None:
            while order.count("page") < 20:
                order.append("turn")
                await asyncio.sleep(0)

        server = HttpServer({"/page": page})
        port = free_port()
        await server.start("127.0.0.1", port)
        try:
            asked = (exchange(port, get("/page")) for _ in range(20))
            await asyncio.gather(others(), *asked)
        finally:
            server.stop()
        pages = [at for at, name in enumerate(order) if name == "page"]
        assert all(order[at + 1 : at + 2] != ["page"] for at in pages)

    run(scenario())


def test_after_a_page_no_other_one_is_made_for_longer_than_it_took_and_health_is_answered() -> None:
    async def scenario() -> None:
        worked, made = [0.0], []

        def costly() -> Page:
            worked[0] += 3_600.0
            made.append("page")
            return Page(200, TEXT, b"costly\n")

        server = HttpServer(
            {"/costly": costly, "/health": lambda: Page(200, TEXT, b"well\n")},
            worked=lambda: worked[0],
        )
        port = free_port()
        await server.start("127.0.0.1", port)
        assert (await exchange(port, get("/costly"))).endswith(b"costly\n")
        _, waiting = await asyncio.open_connection("127.0.0.1", port)
        waiting.write(get("/costly"))
        await waiting.drain()
        for _ in range(3):
            assert (await exchange(port, get("/health"))).endswith(b"well\n")
        assert made == ["page"]
        waiting.transport.abort()
        server.stop()

    run(scenario())


def test_pages_follow_each_other_where_they_take_no_time() -> None:
    async def scenario() -> None:
        made: list[None] = []

        def cheap() -> Page:
            made.append(None)
            return Page(200, TEXT, b"cheap\n")

        server = HttpServer({"/cheap": cheap}, worked=lambda: 0.0)
        port = free_port()
        await server.start("127.0.0.1", port)
        answers = await asyncio.gather(*(exchange(port, get("/cheap")) for _ in range(20)))
        assert all(answer.endswith(b"cheap\n") for answer in answers)
        assert len(made) == 20
        server.stop()

    run(scenario())
