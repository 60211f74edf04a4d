"""How much of what TLS brings a connection gets at once, and that it gets all of it, in order."""

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.net.errors import CloseKind
from penstock.net.receive import FrameBudget
from penstock.net.tls.doors import Door
from penstock.net.tls.side import (
    SHARE_BYTES_MAX,
    SHARE_BYTES_MIN,
    WINDOW_BYTES,
    TlsPorts,
    TlsSide,
)
from penstock.net.tls.transport import PIECE_BYTES
from tests.net.serving import run
from tests.net.test_tls import Files

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


class Socket(asyncio.Transport):
    """Where the side's bytes go, and whether it wants any."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_read = True
        self.has_closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.has_closed

    def close(self) -> None:
        self.has_closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Taker:
    """A connection that says how much it got at once, and stops where it is told to."""

    def __init__(self, lent: int = 1 << 20) -> None:
        self.memory = bytearray(lent)
        self.transport: Any = None
        self.got = bytearray()
        self.sizes: list[int] = []
        self.stops: Callable[[], bool] = lambda: False
        self.is_told_full = False

    def get_buffer(self, _sizehint: int) -> memoryview:
        return memoryview(self.memory)

    def buffer_updated(self, count: int) -> None:
        self.got += self.memory[:count]
        self.sizes.append(count)
        if self.stops():
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.is_told_full = True

    def resume_writing(self) -> None:
        self.is_told_full = False


class Ended:
    """An open connection behind TLS: both ends in one hand, and no socket between them."""

    def __init__(self, files: Files, taker: Taker) -> None:
        loop = asyncio.get_running_loop()
        self.taker, self.socket = taker, Socket()
        self.budget = FrameBudget(1 << 30)
        self.ports = TlsPorts(loop, self.budget, lambda: 0, self._no_end, lambda _: None)
        context = files.context()
        self.side = TlsSide(
            self.ports,
            "127.0.0.1",
            Door(lambda: context, lambda _: None),
            listener_name="kafka",
            on_open=self._open,
            on_gone=lambda _: None,
        )
        self.side._raw = self.socket
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = files.clients().wrap_bio(self._in, self._out, server_hostname="127.0.0.1")
        self._shake()

    @staticmethod
    def _no_end(kind: CloseKind, host: str, reason: str) -> None:
        raise AssertionError((kind, host, reason))

    def _open(self, side: TlsSide, transport: asyncio.Transport) -> Any:
        del side
        self.taker.transport = transport
        return self.taker

    def _shake(self) -> None:
        side = self.side
        side._tls = side._context().wrap_bio(side._incoming, side._outgoing, server_side=True)
        while self.taker.transport is None:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.arrive(self._out.read())
            self._in.write(bytes(self.socket.sent))
            self.socket.sent.clear()

    def encrypted(self, records: Iterable[bytes]) -> bytes:
        """What the client sends when it writes each of these on its own."""
        for record in records:
            self.client.write(record)
        return self._out.read()

    def arrive(self, data: bytes) -> None:
        """Have so much read from the socket, a window at a time, as long as the side reads."""
        while data and self.socket.is_read:
            window = cast("memoryview", self.side.get_buffer(-1))
            count = min(len(window), len(data))
            window[:count] = data[:count]
            data = data[count:]
            self.side.buffer_updated(count)
        self.unread = data

    async def go_on(self) -> None:
        """The connection reads on, and then the socket."""
        self.taker.transport.resume_reading()
        await asyncio.sleep(0)
        self.arrive(self.unread)


RECORDS = [b"%09d" % number + bytes([number % 251]) * 1024 for number in range(WINDOW_BYTES >> 10)]
"""Pairs of a small record and a large one, as librdkafka sends each value: more than a window."""


def halves(records: Iterable[bytes]) -> list[bytes]:
    return [part for record in records for part in (record[:9], record[9:])]


def test_small_records_are_handed_over_together_and_more_at_once_while_all_is_taken(
    files: Files,
) -> None:
    async def scenario() -> None:
        taker = Taker()
        both = Ended(files, taker)
        both.arrive(both.encrypted(halves(RECORDS * 4)))
        assert bytes(taker.got) == b"".join(RECORDS * 4)
        assert taker.sizes[:3] == [SHARE_BYTES_MIN, SHARE_BYTES_MIN * 2, SHARE_BYTES_MAX]
        assert max(taker.sizes) == SHARE_BYTES_MAX
        windows = -(-len(taker.got) // WINDOW_BYTES) + 1
        assert len(taker.sizes) <= 3 * windows + 2

    run(scenario())


def test_what_comes_little_by_little_lets_the_share_as_it_is(files: Files) -> None:
    async def scenario() -> None:
        taker = Taker()
        both = Ended(files, taker)
        for record in RECORDS:
            both.arrive(both.encrypted([record]))
        assert taker.sizes == [len(record) for record in RECORDS]
        both.arrive(both.encrypted(halves(RECORDS)))
        assert taker.sizes[len(RECORDS)] == SHARE_BYTES_MIN

    run(scenario())


def test_a_connection_that_stops_reading_gets_less_at_once_and_never_too_little(
    files: Files,
) -> None:
    async def scenario() -> None:
        taker = Taker()
        both = Ended(files, taker)
        both.arrive(both.encrypted(halves(RECORDS * 4)))
        grown = len(taker.sizes)
        taker.stops = lambda: True
        sent = RECORDS * 2
        both.arrive(both.encrypted(halves(sent)))
        while not taker.got.endswith(sent[-1]) or len(taker.got) < len(b"".join(RECORDS)) * 6:
            await both.go_on()
        stopped = taker.sizes[grown:]
        assert stopped[:3] == [SHARE_BYTES_MAX, SHARE_BYTES_MAX // 2, SHARE_BYTES_MIN]
        assert max(stopped[3:]) == SHARE_BYTES_MIN
        assert bytes(taker.got) == b"".join(RECORDS * 6)
        assert both.budget.used == 0

    run(scenario())


@given(
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=60),
    stops=st.lists(st.booleans(), min_size=1, max_size=20),
    lent=st.sampled_from([1, 4096, 50_000, 1 << 20]),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_byte_comes_in_order_whatever_the_sizes_and_stops(
    files: Files, sizes: list[int], stops: list[bool], lent: int
) -> None:
    async def scenario() -> None:
        scaled = [size if lent > 1 else size % 50 + 1 for size in sizes]
        records = [bytes([at % 251]) * size for at, size in enumerate(scaled)]
        taker = Taker(lent)
        both = Ended(files, taker)
        turns = iter(stops * (sum(scaled) + 1))
        taker.stops = lambda: next(turns)
        both.arrive(both.encrypted(records))
        for _ in range(sum(scaled) + 1):
            assert both.side._incoming.pending <= PIECE_BYTES
            assert both.budget.used <= WINDOW_BYTES
            if taker.transport.is_paused:
                await both.go_on()
        assert bytes(taker.got) == b"".join(records)
        assert max(taker.sizes) <= min(lent, SHARE_BYTES_MAX)
        assert both.budget.used == 0

    run(scenario())


def test_what_comes_before_the_clients_goodbye_is_handed_over_and_nothing_after_it(
    files: Files,
) -> None:
    async def scenario() -> None:
        taker = Taker()
        both = Ended(files, taker)
        data = both.encrypted([b"last"])
        with pytest.raises(ssl.SSLWantReadError):
            both.client.unwrap()
        both.arrive(data + both._out.read() + bytes(100_000))
        both.arrive(bytes(100_000))
        assert both.side._incoming.pending <= PIECE_BYTES
        assert bytes(taker.got) == b"last"
        assert both.budget.used == 0
        await asyncio.sleep(0)
        assert both.socket.has_closed

    run(scenario())


def test_records_before_one_that_can_not_be_read_are_handed_over(files: Files) -> None:
    async def scenario() -> None:
        taker = Taker()
        both = Ended(files, taker)
        good, bad = both.encrypted([b"good"]), bytearray(both.encrypted([b"b" * 9000]))
        bad[100] ^= 1
        both.arrive(good + bytes(bad) + both.encrypted([b"never"] * 20_000))
        assert bytes(taker.got) == b"good"
        assert both.budget.used == 0
        await asyncio.sleep(0)
        assert both.socket.has_closed

    run(scenario())


def test_a_client_that_sends_on_while_its_last_answers_wait_is_not_read(files: Files) -> None:
    """What came was kept, and the second read of it failed an assertion."""

    async def scenario() -> None:
        taker = Taker()
        both = Ended(files, taker)
        both.side.pause_writing()
        taker.transport.write(b"answer")
        taker.transport.close()
        assert not both.socket.is_read
        assert not both.socket.has_closed
        both.socket.is_read = True  # what the loop had read already
        for _ in range(2):
            both.arrive(both.encrypted([b"more"]))
        assert bytes(taker.got) == b""
        assert both.budget.used == 0
        both.side.resume_writing()
        assert both.socket.has_closed
        both._in.write(bytes(both.socket.sent))
        assert both.client.read(100) == b"answer"

    run(scenario())
