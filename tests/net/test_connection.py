"""Frames in, answers out: order, limits and time, over real sockets on both event loops."""

import asyncio
import random
import socket
import struct
from collections.abc import Iterable

import pytest

from harness.waiting import until
from penstock.net.connection import Connection, ReplySlot
from penstock.net.context import ConnectionContext, one_by_one
from penstock.net.errors import CloseKind
from penstock.net.receive import SPARE_BYTES, FrameBudget, ReceiveBuffers
from tests.net.serving import LOOPS, OPEN_LIMITS, Recorder, echo, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_answers_leave_in_the_order_of_requests(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame) as server:
            peer = await server.connect()
            peer.send(b"".join(frame(b"%d" % n) for n in range(5)))
            await handler.wait_for(5)
            for number in (3, 1, 4, 0, 2):
                handler.answer(number)
            assert [await peer.answer() for _ in range(5)] == [b"re:%d" % n for n in range(5)]

    run(scenario(), loop)


def test_a_skipped_answer_holds_nobody_up(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"first") + frame(b"second"))
            await handler.wait_for(2)
            handler.answer(1)
            handler.slots[0].skip()
            assert await peer.answer() == b"re:second"

    run(scenario(), loop)


def test_frames_arrive_whole_however_they_are_cut(loop: str) -> None:
    async def scenario() -> None:
        rng = random.Random(5)
        payloads = [
            rng.randbytes(size) + b"!" for size in (20, 70_000, 9, 3 * SPARE_BYTES, 200_000, 30)
        ]
        async with serving(echo) as server:
            peer = await server.connect()
            wire = b"".join(map(frame, payloads))
            at = 0
            while at < len(wire):
                size = rng.choice((1, 3, 1000, 65_536, 300_000))
                peer.send(wire[at : at + size])
                at += size
                await asyncio.sleep(0)
            assert [await peer.answer() for _ in payloads] == payloads
            assert server.stats.frames == len(payloads)
            await server.sweep(1)
            assert server.stats.unfinished_bytes == 0

    run(scenario(), loop)


def test_a_request_byte_by_byte_is_answered(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            peer = await server.connect()
            sock = peer.writer.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in frame(b"one byte at a time"):
                peer.send(bytes((byte,)))
                await asyncio.sleep(0)
            assert await peer.answer() == b"one byte at a time"

    run(scenario(), loop)


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (struct.pack(">i", 17 << 20), CloseKind.FRAME_TOO_LARGE),
        (struct.pack(">i", 2**31 - 1), CloseKind.FRAME_TOO_LARGE),
        (struct.pack(">i", -1), CloseKind.FRAME_SIZE_INVALID),
        (struct.pack(">i", 0), CloseKind.FRAME_SIZE_INVALID),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", CloseKind.NOT_KAFKA),
        (b"GET / HTTP/1.1\r\n", CloseKind.NOT_KAFKA),
    ],
)
def test_a_size_that_can_not_be_ends_the_connection(
    loop: str, start: bytes, kind: CloseKind
) -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            good, bad = await server.connect(), await server.connect()
            bad.send(start)
            assert await bad.is_ended()
            assert server.stats.closed == {kind: 1}
            good.send(frame(b"still here"))
            assert await good.answer() == b"still here"

    run(scenario(), loop)


def test_answers_ready_before_a_bad_frame_are_still_sent(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo) as server:
            peer = await server.connect()
            peer.send(frame(b"good") + b"\xff\xff\xff\xff")
            assert await peer.answer() == b"good"
            assert await peer.is_ended()

    run(scenario(), loop)


def test_a_half_frame_is_ended_after_its_time(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo, frame_seconds_max=30) as server:
            slow = await server.connect()
            slow.send(frame(b"x" * 100)[:50])
            await until(lambda: server.stats.bytes_in == 50)
            await server.sweep(29)
            slow.send(b"x")
            await until(lambda: server.stats.bytes_in == 51)
            await server.sweep(2)
            assert await slow.is_ended()
            assert server.stats.closed == {CloseKind.FRAME_TOO_SLOW: 1}

    run(scenario(), loop)


def test_who_sends_nothing_after_connecting_is_ended(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo, first_frame_seconds_max=5) as server:
            silent = await server.connect()
            await until(lambda: server.stats.connections == 1)
            await server.sweep(6)
            assert await silent.is_ended()
            assert server.stats.closed == {CloseKind.NO_FIRST_FRAME: 1}

    run(scenario(), loop)


def test_an_idle_connection_is_ended_but_not_one_that_waits_for_its_answer(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame, idle_seconds_max=600) as server:
            idle, waiting = await server.connect(), await server.connect()
            idle.send(frame(b"idle"))
            waiting.send(frame(b"waiting"))
            await handler.wait_for(2)
            handler.answer(handler.frames.index(b"idle"))
            await idle.answer()
            await server.sweep(601)
            assert await idle.is_ended()
            assert server.stats.closed == {CloseKind.IDLE: 1}
            handler.answer(handler.frames.index(b"waiting"))
            assert await waiting.answer() == b"re:waiting"

    run(scenario(), loop)


def test_no_more_requests_are_taken_than_may_be_in_flight(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame, in_flight_max=4) as server:
            peer = await server.connect()
            peer.send(b"".join(frame(b"%d" % n) for n in range(11)))
            await handler.wait_for(4)
            await server.sweep(1)
            assert len(handler.frames) == 4
            assert handler.connections[0].in_flight == 4
            handler.answer(0)
            await handler.wait_for(5)
            for number in (1, 2, 3, 4):
                handler.answer(number)
            await handler.wait_for(9)
            for number in range(5, 9):
                handler.answer(number)
            await handler.wait_for(11)
            handler.answer(9)
            handler.answer(10)
            assert [await peer.answer() for _ in range(11)] == [b"re:%d" % n for n in range(11)]

    run(scenario(), loop)


def test_ten_thousand_requests_in_one_write_hold_nobody_else_up(loop: str) -> None:
    async def scenario() -> None:
        answered: list[bytes] = []

        def on_frame(connection: Connection, data: memoryview) -> None:
            answered.append(bytes(data[:5]))
            connection.reserve().send(frame(bytes(data)))

        async with serving(on_frame, in_flight_max=64) as server:
            greedy, other = await server.connect(), await server.connect()
            greedy.send(b"".join(frame(b"%05d" % n) for n in range(10_000)))
            await until(lambda: len(answered) >= 64)
            other.send(frame(b"other"))
            assert await other.answer() == b"other"
            assert len(answered) < 10_000, "the others' turn came before the end"
            assert [await greedy.answer() for _ in range(10_000)] == [
                b"%05d" % n for n in range(10_000)
            ]
            assert server.stats.unfinished_bytes == 0

    run(scenario(), loop)


def test_reading_stops_while_the_peer_does_not_take_its_answers(loop: str) -> None:
    async def scenario() -> None:
        big = frame(b"x" * (1 << 20))

        def on_frame(connection: Connection, data: memoryview) -> None:
            connection.reserve().send(big)

        async with serving(on_frame, queued_bytes_max=1 << 20) as server:
            peer = await server.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(frame(b"more") * 200)
            await until(lambda: server.stats.reading_pauses > 0)
            taken = server.stats.frames
            assert taken < 200
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(200):
                assert len(await peer.answer()) == 1 << 20
            assert server.stats.frames == 200

    run(scenario(), loop)


def test_who_takes_none_of_its_answers_is_ended(loop: str) -> None:
    async def scenario() -> None:
        def on_frame(connection: Connection, data: memoryview) -> None:
            connection.reserve().send(frame(bytes(8 << 20)))

        async with serving(on_frame, write_stall_seconds_max=60) as server:
            peer = await server.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(frame(b"more") * 3)
            await until(lambda: server.stats.frames > 0)
            await until(lambda: server.stats.reading_pauses > 0)
            await server.sweep(70)
            await until(lambda: server.stats.connections == 0)
            assert server.stats.closed == {CloseKind.ANSWERS_NOT_READ: 1}

    run(scenario(), loop)


def test_the_layer_above_can_end_a_connection(loop: str) -> None:
    async def scenario() -> None:
        def on_frame(connection: Connection, data: memoryview) -> None:
            slot = connection.reserve()
            connection.close("malformed")
            slot.send(b"never sent")

        async with serving(on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"bad") * 3)
            assert await peer.is_ended()
            assert server.stats.frames == 1
            assert server.stats.closed == {CloseKind.REQUEST: 1}

    run(scenario(), loop)


def test_an_answer_after_the_peer_has_gone_goes_nowhere(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        async with serving(handler.on_frame) as server:
            peer = await server.connect()
            peer.send(frame(b"gone"))
            await handler.wait_for(1)
            peer.writer.transport.abort()
            await until(lambda: server.stats.connections == 0)
            handler.answer(0)
            assert handler.connections[0].is_closed

    run(scenario(), loop)


def test_memory_for_unfinished_frames_is_bounded_and_slow_ones_give_way(loop: str) -> None:
    async def scenario() -> None:
        limit = 2 * SPARE_BYTES
        async with serving(echo, unfinished_bytes_max=limit, frame_seconds_max=1000) as server:
            good = await server.connect()
            slow = [await server.connect() for _ in range(4)]
            part = frame(b"x" * (900 << 10))[: 700 << 10]
            for peer in slow:
                peer.send(part)
                await peer.writer.drain()
            await until(lambda: server.stats.reading_pauses >= 2)
            for _ in range(10):
                good.send(frame(b"small"))
                assert await good.answer() == b"small"
                await server.sweep(1)
                assert server.stats.unfinished_bytes <= limit + SPARE_BYTES
            assert server.stats.closed[CloseKind.MEMORY] >= 2
            assert server.stats.connections == 5 - server.stats.closed[CloseKind.MEMORY]

    run(scenario(), loop)


def test_a_frame_that_waited_for_memory_is_handled_when_there_is_some(loop: str) -> None:
    async def scenario() -> None:
        async with serving(echo, unfinished_bytes_max=SPARE_BYTES) as server:
            first, second = await server.connect(), await server.connect()
            wire = frame(b"x" * (900 << 10) + b"!")
            first.send(wire[: 500 << 10])
            await until(lambda: server.stats.bytes_in == 500 << 10)
            second.send(wire)
            await until(lambda: server.stats.reading_pauses > 0)
            first.send(wire[500 << 10 :])
            assert len(await first.answer()) == len(wire) - 4
            assert len(await second.answer()) == len(wire) - 4

    run(scenario(), loop)


def test_an_exception_of_the_handler_ends_its_connection_only(loop: str) -> None:
    async def scenario() -> None:
        seen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))

        def on_frame(connection: Connection, data: memoryview) -> None:
            if bytes(data[:3]) == b"bug":
                raise RuntimeError
            echo(connection, data)

        async with serving(on_frame) as server:
            good, bad = await server.connect(), await server.connect()
            bad.send(frame(b"bug"))
            assert await bad.is_ended()
            good.send(frame(b"fine"))
            assert await good.answer() == b"fine"
            assert seen
            assert server.stats.closed == {CloseKind.HANDLER_FAILED: 1}

    run(scenario(), loop)


class RecordingTransport(asyncio.Transport):
    """Keeps what is written; enough of a transport for a connection without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.protocol: Connection | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Full and empty again at once, as a fast socket under uvloop may be."""
        self.writes.append(bytes(data))
        if self.protocol is not None:
            self.protocol.pause_writing()
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        """There is nobody to read from."""

    def resume_reading(self) -> None:
        """There is nobody to read from."""

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.writes.append(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high

    def get_write_buffer_size(self) -> int:
        return 0


def connected(
    handler: Recorder,
    answer: bytes = b"",
    after: int = 1 << 30,
    budget: FrameBudget | None = None,
) -> tuple[Connection, RecordingTransport]:
    """A connection on a transport that records; from frame `after` on it answers at once."""

    def on_frame(connection: Connection, data: memoryview) -> None:
        handler.on_frame(connection, data)
        if len(handler.frames) > after:
            handler.slots[-1].send(answer)

    context = ConnectionContext(
        limits=OPEN_LIMITS,
        buffers=ReceiveBuffers(budget or FrameBudget(1 << 30)),
        on_frame=on_frame,
        on_run=one_by_one,
        on_gone=lambda _: None,
    )
    context.turn.stopwatch = lambda: 0.0
    connection = Connection(context, "127.0.0.1", "test")
    transport = RecordingTransport()
    connection.connection_made(transport)
    return connection, transport


def receive(connection: Connection, data: bytes) -> None:
    memoryview(connection.get_buffer(-1))[: len(data)] = data
    connection.buffer_updated(len(data))


@pytest.mark.parametrize("size", [1, 200_000])
def test_all_answers_of_one_turn_leave_in_one_write(loop: str, size: int) -> None:
    async def scenario() -> None:
        handler = Recorder()
        connection, transport = connected(handler)
        receive(connection, b"".join(frame(b"%d" % n) for n in range(5)))
        for slot in handler.slots:
            slot.send(b"head", bytes(size))
        assert transport.writes == []
        await asyncio.sleep(0)
        assert transport.writes == [(b"head" + bytes(size)) * 5]
        assert connection.in_flight == 0

    run(scenario(), loop)


def test_an_idle_connection_holds_no_receive_memory(loop: str) -> None:
    async def scenario() -> None:
        budget = FrameBudget(1 << 30)
        connection, _ = connected(Recorder(), budget=budget)
        receive(connection, frame(b"whole") + frame(b"part")[:7])
        assert budget.used == 7
        receive(connection, frame(b"part")[7:])
        assert budget.used == 0

    run(scenario(), loop)


def test_a_write_that_fills_and_empties_the_transport_at_once_repeats_no_request(loop: str) -> None:
    async def scenario() -> None:
        handler = Recorder()
        limit = OPEN_LIMITS.in_flight_max
        connection, transport = connected(handler, answer=frame(bytes(9 << 20)), after=limit)
        transport.protocol = connection
        sent = [b"%d" % n for n in range(limit + 4)]
        receive(connection, b"".join(map(frame, sent)))
        assert handler.frames == sent[:limit]
        for slot in handler.slots[:limit]:
            slot.send(b"small")
        await asyncio.sleep(0)
        assert handler.frames == sent

    run(scenario(), loop)


def test_an_answer_that_a_handler_schedules_leaves_in_the_turn_in_which_it_is_given(
    loop: str,
) -> None:
    # Else every produce request costs another turn of the loop, with its own system call.
    async def scenario() -> None:
        sent_in_that_turn: list[bool] = []

        async with serving(lambda connection, _: on_frame(connection)) as server:

            def on_frame(connection: Connection) -> None:
                slot = connection.reserve()
                asyncio.get_running_loop().call_soon(give, slot)

            def give(slot: ReplySlot) -> None:
                asyncio.get_running_loop().call_soon(look)
                slot.send(frame(b"late"))

            def look() -> None:
                sent_in_that_turn.append(server.stats.bytes_out > 0)

            peer = await server.connect()
            peer.send(frame(b"one"))
            assert await peer.answer() == b"late"
            assert sent_in_that_turn == [True]

    run(scenario(), loop)
