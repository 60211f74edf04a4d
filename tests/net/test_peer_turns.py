"""How long frames of peers hold the loop: a turn has a share for all links together."""

import asyncio
from collections.abc import Generator

import pytest

from penstock.net.peer import PeerHello, PeerSecurity
from penstock.net.peer_slices import in_slices
from penstock.net.peer_turn import PeerTurn
from penstock.net.turn_share import ONES_SECONDS, TURN_SECONDS
from tests.net.peering import SECRET, End, Port, peer_port, until
from tests.net.serving import LOOPS, run

pytestmark = pytest.mark.parametrize("loop", LOOPS)

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
        return PeerSecurity(SECRET, turn=PeerTurn(lambda: self.now))

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


def test_ten_thousand_small_frames_of_a_peer_are_many_turns(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            [(dialler, listener)] = await linked(port, work, 1)
            sent = [b"%d" % number for number in range(10_000)]
            for payload in sent:
                dialler.link.send(payload)
            assert await listener.received(len(sent)) == sent
        assert max(work.turns) <= 2 * TURN_SECONDS / FRAME_SECONDS, "a turn, or parts of two"

    run(scenario(), loop)


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
        assert max(work.turns) <= 2 * (TURN_SECONDS + ONES_SECONDS) / FRAME_SECONDS

    run(scenario(), loop)


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
            in_slices(listener.link, slices())
        else:
            done.append(bytes(view).decode())

    listener.link.on_frame = on_frame
    return dialler, listener, done


def test_slices_of_a_long_frame_are_many_turns_and_keep_its_place(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            dialler, _, done = await long_frame(port, work)
            for frame in (b"before", b"long", b"after", b"long", b"last"):
                dialler.link.send(frame)
            await until(lambda: len(done) == 2 * SLICES + 3)
            slices = ["slice"] * SLICES
            assert done == ["before", *slices, "after", *slices, "last"]
        assert max(work.turns) <= 2 * TURN_SECONDS / FRAME_SECONDS, "a turn, or parts of two"

    run(scenario(), loop)


def test_frames_of_other_links_go_between_the_slices_of_a_long_one(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            dialler, _, done = await long_frame(port, work)
            other = End(await port.dial(PeerHello(b"ha", "cluster", 9, 0)))
            quiet = await port.end(1)
            dialler.link.send(b"long")
            await until(lambda: bool(done))
            other.link.send(b"a heartbeat")
            await quiet.received(1)
            assert len(done) < SLICES
            await until(lambda: len(done) == SLICES)

    run(scenario(), loop)


def test_a_link_that_closes_ends_the_slices_of_its_frame(loop: str) -> None:
    async def scenario() -> None:
        work = Work()
        async with peer_port(work.security()) as port:
            dialler, listener, done = await long_frame(port, work)
            dialler.link.send(b"long")
            await until(lambda: bool(done))
            listener.link.close("enough")
            count = len(done)
            await dialler.closed()
            await asyncio.sleep(0)
            assert len(done) == count < SLICES

    run(scenario(), loop)


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
            listener.link.on_frame = lambda _: in_slices(listener.link, failing())
            dialler.link.send(b"long")
            assert await listener.closed() == "a frame could not be handled"
        assert isinstance(failures[0], ValueError)

    run(scenario(), loop)
