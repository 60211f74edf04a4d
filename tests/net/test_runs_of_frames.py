"""Frames that are taken together: counted one by one, answered in order, within the limits."""

import pytest

from harness.waiting import until
from penstock.net.connection import Connection, ReplyPlace
from tests.net.serving import LOOPS, Recorder, frame, run, serving

pytestmark = pytest.mark.parametrize("loop", LOOPS)


class Threes:
    """Takes three frames together where three have arrived, and answers each run as one."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.most: list[int] = []
        self.places: list[tuple[Connection, ReplyPlace, bytes]] = []

    def on_run(
        self, connection: Connection, memory: memoryview, at: int, end: int, most: int
    ) -> tuple[int, int]:
        self.most.append(most)
        run = bytes(memory[at : at + 3 * 14])
        if len(run) < 3 * 14 or at + len(run) > end or most < 3:
            return 0, at
        place = ReplyPlace(connection)
        connection.enqueue(place, 3)
        self.taken.append(run)
        self.places.append((connection, place, run))
        return 3, at + len(run)

    def answer(self, number: int) -> None:
        connection, place, run = self.places[number]
        connection.answered(place, (run,), len(run), 3)


def test_frames_that_are_taken_together_count_one_by_one_and_are_answered_in_order(
    loop: str,
) -> None:
    async def scenario() -> None:
        threes, single = Threes(), Recorder()
        async with serving(single.on_frame, on_run=threes.on_run, in_flight_max=8) as server:
            peer = await server.connect()
            peer.send(b"".join(frame(b"%d" % n) for n in range(7)))
            await single.wait_for(1)
            (connection,) = single.connections
            assert (connection.in_flight, server.stats.frames) == (7, 7)
            assert threes.most == [8, 5], "the last one has no company"
            assert single.frames == [b"6"]
            single.answer(0)
            threes.answer(1)
            assert connection.in_flight == 3
            threes.answer(0)
            assert [await peer.answer() for _ in range(6)] == [b"%d" % n for n in range(6)]
            assert await peer.answer() == b"re:6"
            assert connection.in_flight == 0

    run(scenario(), loop)


def test_no_more_are_taken_together_than_may_be_in_flight(loop: str) -> None:
    async def scenario() -> None:
        threes, single = Threes(), Recorder()
        async with serving(single.on_frame, on_run=threes.on_run, in_flight_max=4) as server:
            peer = await server.connect()
            peer.send(b"".join(frame(b"%d" % n) for n in range(9)))
            await single.wait_for(1)
            assert (len(threes.taken), single.connections[0].in_flight) == (1, 4)
            single.answer(0)
            threes.answer(0)
            assert [await peer.answer() for _ in range(4)] == [b"0", b"1", b"2", b"re:3"]
            await until(lambda: len(threes.taken) == 2)

    run(scenario(), loop)
