"""How long frames of peers hold the loop: a turn has a share for all links together."""

import asyncio
import gc
import weakref
from collections.abc import Generator

import pytest

from harness.waiting import until
from penstock.net.peer import Credentials, PeerHello, PeerSecurity
from penstock.net.peer_measure import WINDOW_SECONDS, FrameTurns
from penstock.net.peer_slices import in_slices
from penstock.net.peer_turn import PeerTurn
from penstock.net.turn_share import ONES_PART, PEERS_SECONDS
from tests.net.peering import SECRET, End, Port, peer_port
from tests.net.serving import LOOPS, run

on_both_loops = pytest.mark.parametrize("loop", LOOPS)

FRAME_SECONDS = 0.0001
"""What a frame costs by the clock of these tests."""


class Work:
    """A clock that goes on with each frame, and what was handled in each turn of the loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns: list[int] = []
        self._in_turn = 0
        self._is_due = False

    def security(self) -> PeerSecurity:
        return PeerSecurity(Credentials(SECRET), turn=PeerTurn(lambda: self.now))

    def listen(self, end: End) -> None:
        handle = end.link.on_frame
        assert handle is not None

        def on_frame(view: memoryview) -> None:
            self.now += FRAME_SECONDS
            self._count()
            handle(view)

        end.link.on_frame = on_frame

    def _count(self) -> None:
        self._in_turn += 1
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn_over)

    def _turn_over(self) -> None:
        self._is_due = False
        self.turns.append(self._in_turn)
        self._in_turn = 0


async def linked(port: Port, work: Work, count: int) -> list[tuple[End, End]]:
    """Return so many pairs whose listening ends work."""
    pairs = []
    for number in range(count):
        dialler = End(await port.dial(PeerHello(b"ha", "cluster", 2 + number, 0)))
        pairs.append((dialler, await port.end(number)))
        work.listen(pairs[-1][1])
    return pairs


@on_both_loops
def test_ten_thousand_small_frames_of_a_peer_are_many_turns(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            [(dialler, listener)] = await linked(port, work, 1)
            sent = [b"%d" % number for number in range(10_000)]
            for payload in sent:
                dialler.link.send(payload)
            assert await listener.received(len(sent)) == sent
        assert max(work.turns) <= 2 * PEERS_SECONDS / FRAME_SECONDS, "a turn, or parts of two"

    run(scenario(), loop)


@on_both_loops
def test_links_do_not_add_up(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            pairs = await linked(port, work, 20)
            for _ in range(100):
                for dialler, _ in pairs:
                    dialler.link.send(b"again")
            for _, listener in pairs:
                await listener.received(100)
        assert max(work.turns) <= 2 * PEERS_SECONDS * (1 + 1 / ONES_PART) / FRAME_SECONDS

    run(scenario(), loop)


@on_both_loops
def test_one_frame_goes_before_the_rest_of_many(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            (busy, many), (quiet, one) = await linked(port, work, 2)
            for _ in range(5_000):
                busy.link.send(b"many")
            await many.received(1)
            quiet.link.send(b"a heartbeat")
            await one.received(1)
            assert len(many.frames) < 1_000
            await many.received(5_000)

    run(scenario(), loop)


@on_both_loops
def test_link_that_closes_while_its_frames_wait_is_told_closed(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            [(dialler, listener)] = await linked(port, work, 1)
            for _ in range(5_000):
                dialler.link.send(b"many")
            await listener.received(1)
            listener.link.close("enough")
            assert await listener.closed() == "enough"
            count = len(listener.frames)
            await until(lambda: dialler.link.is_closed)
            assert len(listener.frames) == count < 5_000

    run(scenario(), loop)


SLICES = 1_000


async def long_frame(port: Port, work: Work) -> tuple[End, End, list[str]]:
    """Return the ends of a link whose frame "long" takes a thousand slices, and what was done."""
    [(dialler, listener)] = await linked(port, work, 1)
    done: list[str] = []

    def slices() -> Generator[None, None, None]:
        for _ in range(SLICES):
            work.now += FRAME_SECONDS
            work._count()
            done.append("slice")
            yield

    def on_frame(view: memoryview) -> None:
        if bytes(view) == b"long":
            in_slices(listener.link, view, slices())
        else:
            done.append(bytes(view).decode())

    listener.link.on_frame = on_frame
    return dialler, listener, done


@on_both_loops
def test_slices_of_a_long_frame_are_many_turns_and_keep_its_place(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            dialler, listener, done = await long_frame(port, work)
            for frame in (b"before", b"long", b"after", b"long", b"last"):
                dialler.link.send(frame)
            await until(lambda: len(done) == 2 * SLICES + 3)
            assert listener.link.frames.long_bytes == 2 * len(b"long")
            slices = ["slice"] * SLICES
            assert done == ["before", *slices, "after", *slices, "last"]
        assert max(work.turns) <= 2 * PEERS_SECONDS / FRAME_SECONDS, "a turn, or parts of two"

    run(scenario(), loop)


@on_both_loops
def test_frames_of_other_links_go_between_the_slices_of_a_long_one(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            dialler, _, done = await long_frame(port, work)
            other = End(await port.dial(PeerHello(b"ha", "cluster", 9, 0)))
            quiet = await port.end(1)
            dialler.link.send(b"long")
            await until(lambda: bool(done), every_seconds=0)
            other.link.send(b"a heartbeat")
            await quiet.received(1)
            assert len(done) < SLICES
            await until(lambda: len(done) == SLICES)

    run(scenario(), loop)


@on_both_loops
def test_a_link_that_closes_ends_the_slices_of_its_frame(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            dialler, listener, done = await long_frame(port, work)
            dialler.link.send(b"long")
            await until(lambda: bool(done), every_seconds=0)
            listener.link.close("enough")
            count = len(done)
            await dialler.closed()
            await asyncio.sleep(0)
            assert len(done) == count < SLICES

    run(scenario(), loop)


@on_both_loops
def test_a_frame_that_is_over_leaves_nothing_to_the_collector(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            dialler, listener, done = await long_frame(port, work)
            took: list[weakref.ref[Generator[None, None, None]]] = []

            def slices() -> Generator[None, None, None]:
                yield
                done.append("over")

            def on_frame(view: memoryview) -> None:
                began = slices()
                took.append(weakref.ref(began))
                in_slices(listener.link, view, began)

            listener.link.on_frame = on_frame
            gc.disable()
            try:
                dialler.link.send(b"long")
                await until(lambda: "over" in done)
                await asyncio.sleep(0)
                assert took[0]() is None
            finally:
                gc.enable()

    run(scenario(), loop)


@on_both_loops
def test_a_slice_that_fails_ends_the_link(loop: str) -> None:
    async def scenario() -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context["exception"])
        )

        def failing() -> Generator[None, None, None]:
            yield
            raise ValueError("not expected")

        work = Work()
        async with peer_port(work.security()) as port:
            [(dialler, listener)] = await linked(port, work, 1)
            listener.link.on_frame = lambda view: in_slices(listener.link, view, failing())
            dialler.link.send(b"long")
            assert await listener.closed() == "a frame could not be handled"
        assert isinstance(failures[0], ValueError)

    run(scenario(), loop)


@on_both_loops
def test_the_longest_turn_of_each_kind_of_frame_is_measured_slices_apart(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        security = work.security()
        async with peer_port(security) as port:
            [(dialler, listener)] = await linked(port, work, 1)

            def slices() -> Generator[None, None, None]:
                for _ in range(10):
                    work.now += 0.004
                    yield

            def on_frame(view: memoryview) -> None:
                if bytes(view) == b"long":
                    in_slices(listener.link, view, slices())
                else:
                    work.now += len(view) / 1_000

            listener.link.kind_of = lambda view: bytes(view[:4]).decode()
            listener.link.on_frame = on_frame
            for frame in (b"idle" + bytes(16), b"idle" + bytes(3), b"long", b""):
                dialler.link.send(frame)
            await until(lambda: "long" in security.turn.longest() and work.now > 0.066)
            turns = security.turn.longest()
            assert set(turns) == {"idle", "long"}, "what is short has no kind"
            assert turns["idle"] == pytest.approx(0.020)
            assert turns["long"] == pytest.approx(0.004)

    run(scenario(), loop)


def test_turns_of_the_last_window_are_told_and_older_ones_forgotten() -> None:
    turns = FrameTurns()
    turns.note("a", 0.010, 1.0)
    turns.note("a", 0.003, 2.0)
    turns.note("a", 0.004, WINDOW_SECONDS + 1)
    turns.note("b", 0.002, WINDOW_SECONDS + 1)
    assert turns.longest(WINDOW_SECONDS + 2) == {"a": 0.010, "b": 0.002}
    assert turns.longest(2 * WINDOW_SECONDS + 2) == {"a": 0.004, "b": 0.002}
    assert turns.longest(4 * WINDOW_SECONDS + 3) == {}


def test_a_turn_that_took_long_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    turns = FrameTurns()
    for seconds in (0.099, 0.12, 0.11, 0.3):
        turns.note("Heartbeat", seconds, 1.0)
    assert [record.getMessage() for record in caplog.records] == [
        "peer frame=Heartbeat held the loop for 120 ms",
        "peer frame=Heartbeat held the loop for 300 ms",
    ]
