"""Large answers are begun a few in a turn, within the budget, and fairly by connection."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from harness.waiting import until
from penstock.net.answers.answer_room import (
    ANSWER_SIXTEENTHS,
    ANSWER_SIXTEENTHS_OF_MANY,
    FEW,
    TURN_BYTES,
    WAITING_BYTES,
    AnswerRoom,
)
from penstock.net.connection import Connection
from penstock.net.errors import CloseKind
from penstock.net.receive import FrameBudget
from tests.net.serving import Server, frame, run, serving

MIB = 1 << 20
LIMIT = 64 * MIB
EIGHTH = LIMIT // 8
SIXTEENTH = LIMIT // 16


class Turns:
    """A loop that runs nothing by itself."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def turn(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class Asking:
    """A connection, as far as the room knows it, and what it was granted."""

    def __init__(self, world: "World", name: str, pinned: int = 0) -> None:
        self.world = world
        self.name = name
        self.pinned_bytes = pinned
        self.is_choked = self.is_gone = self.is_aborted = False
        self.granted: list[int] = []

    def has_gone(self) -> bool:
        return self.is_gone

    def abort(self) -> None:
        self.is_aborted = True

    def ask(self, takes: int = MIB, most: int = 8 * MIB) -> None:
        """Ask for room, and take so many bytes of it, which stay pinned."""

        def begin(allowed: int) -> int:
            self.granted.append(allowed)
            self.world.order.append(self.name)
            if not allowed:
                return 0
            self.pinned_bytes += takes
            self.world.budget.pin_answer(takes)
            return takes

        self.world.room.ask(cast("Connection", self), most, begin)


class World:
    def __init__(self) -> None:
        self.budget = FrameBudget(LIMIT)
        self.loop = Turns()
        self.room = AnswerRoom(self.budget, cast("asyncio.AbstractEventLoop", self.loop))
        self.order: list[str] = []

    def connections(self, count: int) -> list[Asking]:
        return [Asking(self, f"c{number}") for number in range(count)]

    def run(self) -> None:
        """Run turns until nothing is due any more."""
        while self.loop.due:
            self.loop.turn()


def test_who_waits_for_memory_hears_each_time_that_some_is_given_back() -> None:
    world = World()
    (one,) = world.connections(1)
    world.budget.pin_answer(LIMIT - MIB)
    one.ask()
    for size in (MIB, MIB):
        world.run()
        world.budget.unpin_answer(size)
    world.run()
    assert one.granted == [], "that is too little still"
    world.budget.unpin_answer(LIMIT - 8 * MIB)
    world.run()
    assert len(one.granted) == 1


def test_a_client_that_asks_alone_is_served_at_once_and_for_all_that_it_wants() -> None:
    world = World()
    (one,) = world.connections(1)
    one.ask(most=8 * MIB)
    assert one.granted == [8 * MIB]
    assert not world.loop.due, "nothing is scheduled for it"


def test_only_some_bytes_are_begun_in_one_turn() -> None:
    world = World()
    for connection in world.connections(20):
        connection.ask(takes=TURN_BYTES // 2)
    in_a_turn = 2
    assert len(world.order) == in_a_turn
    world.loop.turn()
    assert len(world.order) == 2 * in_a_turn
    world.run()
    assert len(world.order) == 20


def test_what_many_ask_for_stays_within_the_budget_and_one_answer() -> None:
    world = World()
    connections = world.connections(100)
    for connection in connections:
        for _ in range(2 * FEW):
            connection.ask(takes=MIB)
    world.run()
    assert world.budget.used <= SIXTEENTH * ANSWER_SIXTEENTHS + MIB
    assert world.room.is_short
    assert world.room.waiting == 100 * 2 * FEW - len(world.order)


def test_a_request_that_waits_counts_until_it_is_served_or_its_connection_has_gone() -> None:
    world = World()
    one, other = world.connections(2)
    world.budget.pin_answer(LIMIT)
    one.ask()
    one.ask()
    other.ask()
    assert world.budget.used == LIMIT + 3 * WAITING_BYTES
    world.room.forget(cast("Connection", one))
    assert world.budget.used == LIMIT + WAITING_BYTES
    world.budget.unpin_answer(LIMIT)
    world.run()
    assert other.granted
    assert world.budget.used == other.pinned_bytes


def test_who_holds_least_is_served_first_when_memory_comes_free() -> None:
    world = World()
    world.budget.used = LIMIT
    world.budget.answers = EIGHTH
    rich, poor = Asking(world, "rich", pinned=3 * MIB), Asking(world, "poor")
    rich.ask()
    poor.ask()
    world.run()
    assert world.order == []
    world.budget.give_back(LIMIT // 2)
    world.run()
    assert world.order == ["poor", "rich"]


def test_of_those_who_hold_as_much_the_one_with_fewest_requests_is_first() -> None:
    world = World()
    world.budget.used = LIMIT
    world.budget.answers = EIGHTH
    flood, client = world.connections(2)
    for _ in range(10):
        flood.ask(takes=0)
    client.ask()
    world.run()
    world.budget.give_back(LIMIT // 2)
    world.loop.turn()
    assert world.order[0] == "c1"


def test_the_last_part_is_for_those_with_few_requests() -> None:
    world = World()
    world.budget.pin_answer(SIXTEENTH * ANSWER_SIXTEENTHS_OF_MANY)
    flood, client = world.connections(2)
    for _ in range(FEW + 1):
        flood.ask()
    client.ask()
    world.run()
    assert world.order == ["c1"], "the client has a part that the flood does not get"


def test_answers_have_an_eighth_whatever_else_is_pinned() -> None:
    world = World()
    world.budget.used = LIMIT
    (one,) = world.connections(1)
    one.ask(takes=MIB)
    world.run()
    assert len(one.granted) == 1
    assert one.granted[0] > 0


def test_a_connection_that_does_not_take_its_answers_gets_none_until_it_does() -> None:
    world = World()
    deaf, good = world.connections(2)
    deaf.is_choked = True
    deaf.pinned_bytes = MIB
    world.budget.pin_answer(MIB)
    deaf.ask()
    good.ask()
    world.run()
    assert world.order == ["c1"]
    assert not world.room.is_short, "memory is not what it waits for"
    deaf.is_choked = False
    world.budget.unpin_answer(MIB)
    world.run()
    assert world.order == ["c1", "c0"]


def test_who_waits_is_told_when_the_connection_goes() -> None:
    world = World()
    world.budget.pin_answer(LIMIT)
    (one,) = world.connections(1)
    one.ask()
    one.ask()
    world.run()
    assert world.room.is_short
    world.room.forget(cast("Connection", one))
    assert one.granted == [0, 0]
    assert world.room.waiting == 0
    assert not world.room.is_short


def test_nothing_is_read_for_a_peer_that_has_hung_up_meanwhile() -> None:
    world = World()
    world.budget.pin_answer(LIMIT)
    (one,) = world.connections(1)
    one.ask()
    one.is_gone = True
    world.budget.unpin_answer(LIMIT)
    world.run()
    assert one.granted == [0]
    assert one.is_aborted, "else nobody would notice where it is not read any more"


def test_one_that_fails_does_not_end_the_service_of_others() -> None:
    world = World()
    world.budget.pin_answer(LIMIT)
    bad, good = world.connections(2)

    def fail(_: int) -> int:
        raise ValueError

    world.room.ask(cast("Connection", bad), MIB, fail)
    good.ask()
    world.budget.unpin_answer(LIMIT)
    failures = 0
    while world.loop.due:
        try:
            world.loop.turn()
        except ValueError:
            failures += 1
    assert failures == 1
    assert world.order == ["c1"]


# --- with sockets ------------------------------------------------------------------------------


def preparing(connection: Connection, data: memoryview) -> None:
    """Answer with a mebibyte, once there is room for it."""
    slot = connection.reserve()

    def begin(most: int) -> int:
        if not most:
            return 0
        slot.send(frame(bytes(MIB - 4)))
        return MIB

    connection.ask_room(8 * MIB, begin)


LIMITS: dict[str, Any] = {"unfinished_bytes_max": 16 * MIB}


async def deaf(server: Server, count: int) -> None:
    for _ in range(count):
        peer = await server.connect()
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        peer.send(frame(b"x") * 64)


def test_many_that_never_read_stay_within_the_budget_and_give_it_back() -> None:
    async def scenario() -> None:
        async with serving(preparing, **LIMITS) as server:
            await deaf(server, 12)
            room = server.listener._context.room
            await until(lambda: room.is_short)
            budget = server.listener._budget
            assert budget.used <= budget.limit
            answers = sum(connection.pinned_bytes for connection in server.listener.connections)
            assert room.waiting
            assert budget.used == answers + room.waiting * WAITING_BYTES
            for connection in server.listener.connections:
                connection.abort()
            await until(lambda: not server.listener.connections)
            assert budget.used == budget.answers == 0
            assert room.waiting == 0

    run(scenario())


def test_a_client_that_reads_is_served_as_soon_as_those_who_do_not_are_ended() -> None:
    async def scenario() -> None:
        async with serving(preparing, **LIMITS) as server:
            await deaf(server, 12)
            room = server.listener._context.room
            await until(lambda: room.is_short)
            client = await server.connect()
            client.send(frame(b"x"))
            await until(lambda: len(server.listener.connections) == 13)
            await server.sweep(4)
            assert len(await client.answer()) == MIB - 4
            assert server.stats.closed[CloseKind.MEMORY] > 1, "as many as are in the way"

    run(scenario())
