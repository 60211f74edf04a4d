"""What a listener knows of clients behind TLS that have ended: their address, and no more."""

import asyncio
import gc
import shutil
import weakref
from functools import partial

import pytest

from harness.waiting import until
from penstock.net.connection import Connection
from penstock.net.tls.addresses import LAST, PROVED, UNKNOWN
from tests.net.serving import LOOPS, frame, run
from tests.net.test_tls import Files, hello, secured

pytestmark = [
    pytest.mark.parametrize("loop", LOOPS),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


class Doubtful:
    """A guard that lets frames pass, and whose client is never known unless somebody says so."""

    takes_tokens = False
    frame_bytes_max = 1_000

    def lets(self, _frame: memoryview) -> bool:
        return True

    def is_late(self) -> bool:
        return False


def test_the_address_of_who_has_proved_it_goes_before_others(loop: str, files: Files) -> None:
    """Behind TLS that is a proof only where nothing else is asked."""

    def guarded(connection: Connection) -> None:
        if is_asked:
            connection.guard = Doubtful()

    async def scenario() -> None:
        async with secured(files, admit=guarded) as server:
            rank = partial(server.listener._tls.addresses.rank, "127.0.0.1")
            peer = await server.connect()
            peer.send(frame(b"good"))
            await peer.answer()
            (connection,) = server.listener.connections
            if is_asked:
                assert rank(0) == UNKNOWN
                connection.principal = "alice"
                server.listener.sweep()
            assert rank(0) == PROVED

    is_asked = False
    run(scenario(), loop)
    is_asked = True
    run(scenario(), loop)


def test_who_proves_nothing_and_goes_is_unknown(loop: str, files: Files) -> None:
    def guarded(connection: Connection) -> None:
        connection.guard = Doubtful()

    async def scenario() -> None:
        async with secured(files, admit=guarded) as server:
            peer = await server.connect()
            peer.send(frame(b"good"))
            await peer.answer()
            peer.writer.transport.abort()
            await until(lambda: not server.listener.connections)
            server.listener.sweep()
            assert server.listener._tls.addresses.rank("127.0.0.1", 1) == UNKNOWN

    run(scenario(), loop)


def test_an_address_that_leaves_a_handshake_is_remembered(loop: str, files: Files) -> None:
    async def scenario() -> None:
        async with secured(files) as server:
            addresses = server.listener._tls.addresses
            with server.raw("127.0.0.2") as opened:
                opened.send(hello(files.clients()))
                await until(lambda: len(server.listener._tls.handshakes._half_open) == 1)
            await until(lambda: addresses.rank("127.0.0.2", 0) == LAST)

    run(scenario(), loop)


@pytest.mark.parametrize("how", ["served", "ended", "half open", "no tls"])
def test_what_tls_has_ended_is_freed_without_a_collection(
    loop: str, files: Files, how: str
) -> None:
    """OpenSSL's memory of each connection stayed until all objects were gone through."""
    kept: list[weakref.ref[object]] = []

    async def scenario() -> None:
        async with secured(files) as server:
            tls = server.listener._tls
            if how in {"served", "ended"}:
                peer = await server.connect()
                peer.send(frame(b"good"))
                await peer.answer()
                (connection,) = server.listener.connections
                kept.append(weakref.ref(connection._transport))
                if how == "ended":
                    connection.abort()
                server.peers.clear()
                peer.writer.transport.abort()
                del connection, peer
            else:
                with server.raw() as opened:
                    opened.send(hello(files.clients()) if how == "half open" else b"GET / HTTP")
                    await until(lambda: server.listener.stats.accepted == 1)
                    await until(lambda: bool(tls.handshakes._half_open) or how == "no tls")
                    kept.extend(map(weakref.ref, tls.handshakes.all))
            await until(lambda: not server.listener._keeper.open_count)
            await asyncio.sleep(0)
            assert [one() for one in kept if one() is not None] == []

    gc.collect()
    gc.disable()
    try:
        run(scenario(), loop)
    finally:
        gc.enable()
