"""Handlers of all connections together hold the loop for some milliseconds of a turn, no longer."""

import asyncio
from typing import cast

from harness.waiting import until
from penstock.net.connection import Connection
from penstock.net.turn_share import (
    COUNTED_PART,
    ONES_PART,
    TURN_SECONDS,
    VISIT_PART,
    Sent,
    TurnShare,
)
from tests.net.serving import Recorder, Server, frame, run, serving
from tests.net.test_answer_room import Turns

HEAVY = TURN_SECONDS / 2
ONES_SECONDS = TURN_SECONDS / ONES_PART
VISIT_SECONDS = TURN_SECONDS / VISIT_PART
COUNTED_SECONDS = TURN_SECONDS / COUNTED_PART


class Stopwatch:
    """Goes on when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def heavy(watch: Stopwatch, served: list[Connection]) -> Recorder:
    """A handler that takes half of a turn for each request, and answers at once."""

    class Heavy(Recorder):
        def on_frame(self, connection: Connection, data: memoryview) -> None:
            watch.now += HEAVY
            served.append(connection)
            connection.reserve().send(frame(bytes(data)))

    return Heavy()


def share() -> tuple[TurnShare, Turns]:
    """A share whose turns follow one another: quiet ones are looked at in test_quiet_turns."""
    turns = Turns()
    return TurnShare(cast("asyncio.AbstractEventLoop", turns), quiet_turns=0), turns


def test_nothing_is_scheduled_as_long_as_little_is_done() -> None:
    turn, loop = share()
    assert turn.spend(COUNTED_SECONDS / 2)
    assert not loop.due
    assert turn.spend(COUNTED_SECONDS)
    assert len(loop.due) == 1


def test_a_turn_is_over_when_its_seconds_are_and_the_next_one_has_them_again() -> None:
    turn, loop = share()
    assert turn.spend(HEAVY)
    assert not turn.spend(HEAVY)
    loop.turn()
    assert turn.left == TURN_SECONDS


class Waiting:
    """Connections that wait: each handles its requests, of so many seconds, as far as it may."""

    def __init__(self, turn: TurnShare) -> None:
        self.turn = turn
        self.order: list[str] = []

    def come(self, name: str, count: int, seconds: float, sent: Sent = Sent.ONE) -> None:
        def go_on() -> None:
            for number in range(count):
                self.order.append(name)
                if not self.turn.spend(seconds) and number + 1 < count:
                    self.come(name, count - number - 1, seconds, Sent.MORE)
                    return

        self.turn.wait(go_on, sent)


def test_who_waits_goes_on_in_order_as_far_as_the_turn_goes() -> None:
    turn, loop = share()
    waiting = Waiting(turn)
    for number in range(5):
        waiting.come(str(number), 1, HEAVY, Sent.SEVERAL)
    told = []
    while loop.due:
        loop.turn()
        told.append("".join(waiting.order))
    assert told == ["01", "0123", "01234", "01234"]


def test_one_of_each_kind_goes_on_in_a_turn_however_many_go_first() -> None:
    turn, loop = share()
    waiting = Waiting(turn)
    waiting.come("more", 1, HEAVY, Sent.MORE)
    waiting.come("several", 1, HEAVY, Sent.SEVERAL)
    for _ in range(3):
        waiting.come("one", 1, HEAVY)
    loop.turn()
    assert waiting.order == ["more", "several", "one"]


def test_a_client_with_one_request_goes_before_pipelines_that_had_some() -> None:
    turn, loop = share()
    waiting = Waiting(turn)
    for name in "abcd":
        waiting.come(name, 100, VISIT_SECONDS)
    loop.turn()
    assert "".join(waiting.order).startswith("abcd"), "one visit each"
    begun = len(waiting.order)
    waiting.come("x", 1, VISIT_SECONDS)
    loop.turn()
    assert "x" in waiting.order[begun : begun + 2]


def test_a_client_with_one_request_does_not_wait_for_a_visit_of_each_pipeline() -> None:
    turn, loop = share()
    waiting = Waiting(turn)
    for _ in range(200):
        waiting.come("p", 64, VISIT_SECONDS, Sent.SEVERAL)
    waiting.come("x", 1, VISIT_SECONDS)
    loop.turn()
    assert "x" in waiting.order[:3]


def test_one_of_those_who_sent_several_goes_on_in_each_turn_however_many_others_come() -> None:
    turn, loop = share()
    waiting = Waiting(turn)
    waiting.come("s", 1, VISIT_SECONDS, Sent.SEVERAL)
    waiting.come("m", 1, VISIT_SECONDS, Sent.MORE)
    for _ in range(100):
        waiting.come("x", 1, VISIT_SECONDS)
    loop.turn()
    assert {"s", "m"} <= set(waiting.order)


def test_single_requests_begin_beside_what_others_have_used_up() -> None:
    turn, loop = share()
    assert not turn.spend(TURN_SECONDS)
    assert turn.has_room(Sent.ONE)
    assert not turn.has_room(Sent.SEVERAL)
    assert not turn.spend(ONES_SECONDS)
    assert not turn.has_room(Sent.ONE)
    loop.turn()
    assert turn.has_room(Sent.SEVERAL)


def test_pipelines_go_on_however_many_others_come() -> None:
    turn, loop = share()
    waiting = Waiting(turn)
    waiting.come("p", 3, VISIT_SECONDS, Sent.MORE)
    for _ in range(3):
        for _ in range(100):
            waiting.come("x", 1, VISIT_SECONDS)
        loop.turn()
    assert waiting.order.count("p") == 3


def test_who_waits_alone_has_the_whole_turn() -> None:
    turn, loop = share()
    waiting = Waiting(turn)
    waiting.come("a", 100, VISIT_SECONDS)
    loop.turn()
    assert len(waiting.order) >= TURN_SECONDS / VISIT_SECONDS - 1


def test_one_that_fails_does_not_keep_the_others_waiting() -> None:
    turn, loop = share()
    order: list[int] = []

    def fail() -> None:
        raise ValueError

    turn.wait(fail, Sent.ONE)
    turn.wait(lambda: order.append(1), Sent.ONE)
    failures = 0
    while loop.due:
        try:
            loop.turn()
        except ValueError:
            failures += 1
    assert (failures, order) == (1, [1])


def test_a_single_request_is_answered_before_pipelines_that_came_first() -> None:
    async def scenario() -> None:
        watch, served = Stopwatch(), list[Connection]()
        async with serving(heavy(watch, served).on_frame) as server:
            server.listener.measure_by(watch)
            floods = [await server.connect() for _ in range(20)]
            other = await server.connect()
            await until(lambda: len(server.listener.connections) == 21, every_seconds=0)
            for flood in floods:
                flood.send(frame(b"x") * 8)
            await until(lambda: len(served) >= 4, every_seconds=0)
            other.send(frame(b"y"))
            assert await other.answer() == b"y"
            assert len(served) < 20 * 2, "it does not wait until each of them had a turn"

    run(scenario())


async def begin(server: Server, watch: Stopwatch, count: int, each: bytes) -> None:
    server.listener.measure_by(watch)
    peers = [await server.connect() for _ in range(count)]
    await until(lambda: len(server.listener.connections) == count, every_seconds=0)
    for peer in peers:
        peer.send(each)


def test_many_connections_with_one_heavy_request_each_take_several_turns() -> None:
    async def scenario() -> None:
        watch, served = Stopwatch(), list[Connection]()
        async with serving(heavy(watch, served).on_frame) as server:
            await begin(server, watch, 12, frame(b"x"))
            in_turn = []
            while len(served) < 12:
                before = len(served)
                await asyncio.sleep(0)
                in_turn.append(len(served) - before)
            assert max(in_turn) <= 2 * 2, "what is left of one turn, and another one"
            assert len({id(one) for one in served}) == 12

    run(scenario())


def test_pipelined_heavy_requests_of_one_connection_take_turns_with_others() -> None:
    async def scenario() -> None:
        watch, served = Stopwatch(), list[Connection]()
        async with serving(heavy(watch, served).on_frame) as server:
            server.listener.measure_by(watch)
            flood = await server.connect()
            other = await server.connect()
            await until(lambda: len(server.listener.connections) == 2, every_seconds=0)
            flood.send(frame(b"x") * 40)
            await until(lambda: len(served) >= 2, every_seconds=0)
            other.send(frame(b"y"))
            assert await other.answer() == b"y"
            assert len(served) < 41, "the other one does not wait for all of the flood"
            for _ in range(40):
                assert await flood.answer() == b"x"

    run(scenario())


def test_a_connection_that_ends_while_it_waits_for_its_turn_is_let_go() -> None:
    async def scenario() -> None:
        watch, served = Stopwatch(), list[Connection]()
        async with serving(heavy(watch, served).on_frame) as server:
            await begin(server, watch, 6, frame(b"x") * 8)
            await until(lambda: len(served) >= 2, every_seconds=0)
            for connection in server.listener.connections:
                connection.abort()
            await until(lambda: not server.listener.connections, every_seconds=0)
            count = len(served)
            await server.sweep(1)
            await asyncio.sleep(0)
            assert len(served) == count
            assert server.listener._budget.used == 0

    run(scenario())
