"""Long answers are begun where there is room for them, and whoever waits for it is in no one's way.

Connections here are stand-ins that grant room when they are told to.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker.api_stats import ApiStats
from penstock.broker.long_places import AWAY_BYTES_MAX, LONG_PLACES, LongPlaces
from penstock.broker.turns import Pace
from penstock.kafka.long_requests import BEGUN_BYTES, LongRequests
from penstock.kafka.registry import Api, load_apis
from penstock.kafka.request import Reply
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import RequestHeader
from penstock.protocol.messages import encode_request


class Turns:
    """Each turn comes at once; the number of them is counted."""

    @staticmethod
    def now_us() -> int:
        return 0

    async def next(self) -> None:
        await asyncio.sleep(0)

    async def run(self, slices: Iterator[None], note: Callable[[int], None]) -> Any:
        while True:
            try:
                next(slices)
            except StopIteration as end:
                return end.value


class Connection:
    """Grants room at once, or keeps who asks waiting."""

    def __init__(self, *, is_choked: bool = False, is_short: bool = False) -> None:
        self.is_choked = is_choked
        self.is_short = is_short
        self.is_closed = False
        self.asked: list[Callable[[int], int]] = []

    def has_gone(self) -> bool:
        return self.is_closed

    def ask_room(self, most: int, begin: Callable[[int], int]) -> None:
        assert most == BEGUN_BYTES
        self.asked.append(begin)
        if not self.is_choked and not self.is_short:
            begin(most)


class Told:
    """The reply of a request; notes what became of it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.made = 0
        self.answers: list[Any] = []

    async def make(self, pace: Pace) -> dict[str, Any]:
        self.made += 1
        return {"members": []}

    async def in_turns(self, turns: Turns, fields: Any) -> None:
        self.answers.append(fields)

    def note_turn(self, us: int) -> None:
        """Nobody looks at it."""


class Room:
    """Long requests over stand-ins."""

    def __init__(self) -> None:
        self.places = LongPlaces()
        broker = SimpleNamespace(turns=Turns(), long_places=self.places)
        self.requests = LongRequests(cast("Any", SimpleNamespace(broker=broker)))

    async def tell(self, told: Told) -> "asyncio.Task[None]":
        return await self.begin(self.requests.tell(cast("Reply", told), told.make))

    async def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        await until_all_wait()
        return task


async def until_all_wait() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_an_answer_is_made_when_there_is_room_for_it() -> None:
    async def story() -> None:
        room, told = Room(), Told(Connection(is_short=True))
        task = await room.tell(told)
        assert not told.made, "what it holds would not count"
        told.connection.asked[0](BEGUN_BYTES)
        await task
        assert (told.made, len(told.answers)) == (1, 1)

    run(story())


def test_those_who_wait_for_memory_begin_one_after_the_other() -> None:
    # If all of them were granted room in one moment, all would make their answers.
    async def story() -> None:
        room = Room()
        waiting = [Told(Connection(is_short=True)) for _ in range(3 * LONG_PLACES)]
        for told in waiting:
            await room.tell(told)
        assert [len(told.connection.asked) for told in waiting] == [1] * LONG_PLACES + [
            0
        ] * 2 * LONG_PLACES

    run(story())


def test_who_does_not_take_answers_keeps_no_place_and_asks_again_in_the_next() -> None:
    async def story() -> None:
        room = Room()
        choked = [Told(Connection(is_choked=True)) for _ in range(3 * LONG_PLACES)]
        for told in choked:
            await room.tell(told)
        other = Told(Connection())
        await room.tell(other)
        assert len(other.answers) == 1
        one = choked[0]
        one.connection.asked[0](BEGUN_BYTES)
        await until_all_wait()
        assert len(one.connection.asked) == 2
        assert not one.made
        one.connection.is_choked = False
        one.connection.asked[1](BEGUN_BYTES)
        await until_all_wait()
        assert len(one.answers) == 1

    run(story())


@pytest.mark.parametrize("is_choked", [False, True])
def test_nothing_is_made_for_a_connection_that_goes_while_it_waits(is_choked: bool) -> None:
    async def story() -> None:
        room = Room()
        told = Told(Connection(is_choked=is_choked, is_short=True))
        task = await room.tell(told)
        told.connection.is_closed = True
        told.connection.asked[0](0)
        await task
        assert not told.made
        assert room.places.is_idle

    run(story())


def test_what_is_encoded_of_an_answer_counts_until_it_is_sent() -> None:
    kept: list[int] = []
    sent: list[int] = []
    connection = SimpleNamespace(
        enqueue=lambda *_: True,
        keep=kept.append,
        let_go=lambda size: kept.append(-size),
        answered=lambda _, buffers, size: sent.append(size),
    )
    members = [{"member_id": "m", "metadata": bytes(60_000)} for _ in range(20)]

    async def story() -> None:
        header = RequestHeader(ApiKey.JOIN_GROUP, 7, 1, None, 0)
        stats = ApiStats("join_group")
        reply = Reply(cast("Any", connection), header, cast("Any", None), stats, 0)
        await reply.in_turns(cast("Any", Turns()), {"members": members})

    run(story())
    *grown, given_back = kept
    assert len(grown) > 1
    assert min(grown) > 0
    assert sum(grown) == -given_back >= 15 * 60_000
    assert sent[0] > -given_back


def long_request(key: ApiKey, version: int, fields: dict[str, Any]) -> tuple[Api, Any, Any, bytes]:
    api = load_apis()[key]
    header = RequestHeader(key, version, 1, None, 0)
    return api, None, header, encode_request(key, version, fields)


def test_a_large_request_leaves_its_place_as_nothing_of_it_is_decoded_yet() -> None:
    async def story() -> None:
        room = Room()
        fields = {"groups_names": ["g" * 1_000] * (AWAY_BYTES_MAX // 1_000 + 1)}
        request = long_request(ApiKey.DELETE_GROUPS, 1, fields)
        for _ in range(LONG_PLACES):
            reply = cast("Reply", Told(Connection(is_choked=True)))
            await room.begin(room.requests.answer(*request, reply))
        other = Told(Connection())
        await room.tell(other)
        assert len(other.answers) == 1

    run(story())


def test_what_is_answered_when_it_is_due_needs_no_room_to_be_heard() -> None:
    # A leader's assignment must reach its group also while memory is short.
    async def story() -> None:
        room, heard = Room(), list[Any]()
        fields = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": []}
        api, _, header, frame = long_request(ApiKey.SYNC_GROUP, 2, fields)
        api = api._replace(handle=lambda _, request, __: heard.append(request.body.group_id))
        room.requests._broker.clock = cast("Any", SimpleNamespace(monotonic_us=int))
        told = Told(Connection(is_choked=True))
        await (
            await room.begin(
                room.requests.answer(api, cast("Any", None), header, frame, cast("Reply", told))
            )
        )
        assert heard == ["g"]
        assert not told.connection.asked

    run(story())
