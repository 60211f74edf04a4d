"""Places of long requests: few are decoded, and who waits for others is in nobody's way."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.base.memory import FreeLists
from penstock.broker.long_places import AWAY_BYTES_MAX, LET_GO_BYTES, LONG_PLACES, LongPlaces
from penstock.controller.commands.command import CreateTopics
from penstock.kafka.front import FEW_BYTES
from penstock.kafka.long_requests import LONG_FRAME_BYTES
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import encode_request
from tests.live_node import UNTIL_SECONDS, LiveNode, RawClient


async def until_all_wait() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Requests:
    """Long requests that wait until they are let go: `away`, or in their place."""

    def __init__(self) -> None:
        self.places = LongPlaces()
        self.inside: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, *, size: int = 10, is_away: bool = False) -> None:
        self.gates[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, size, is_away))
        await until_all_wait()

    async def end(self, name: str) -> None:
        self.gates[name].set()
        await until_all_wait()

    async def _run(self, name: str, size: int, is_away: bool) -> None:
        async with self.places.place(size):
            self.inside.add(name)
            if is_away:
                async with self.places.away():
                    await self.gates[name].wait()
                self.inside.add(f"{name} is back")
            await self.gates[name].wait()
        self.inside.discard(name)


def test_only_so_many_are_decoded_at_a_time() -> None:
    async def run() -> None:
        requests = Requests()
        names = [f"request-{number}" for number in range(LONG_PLACES + 1)]
        for name in names:
            await requests.begin(name)
        assert requests.inside == set(names[:-1])
        await requests.end(names[0])
        assert requests.inside == set(names[1:])

    asyncio.run(run())


def test_who_waits_for_others_gives_the_place_away_and_takes_one_again() -> None:
    async def run() -> None:
        requests = Requests()
        for number in range(5 * LONG_PLACES):
            await requests.begin(f"away-{number}", is_away=True)
        for number in range(LONG_PLACES + 1):
            await requests.begin(f"next-{number}")
        last = f"next-{LONG_PLACES}"
        assert "next-0" in requests.inside
        assert last not in requests.inside
        await requests.end("away-0")
        assert "away-0 is back" not in requests.inside, "there is no place for it yet"
        await requests.end("next-0")
        assert last in requests.inside, "it came first"
        await requests.end(last)
        assert "away-0 is back" in requests.inside

    asyncio.run(run())


def test_those_who_are_large_keep_their_places() -> None:
    async def run() -> None:
        requests = Requests()
        for number in range(LONG_PLACES):
            await requests.begin(f"large-{number}", size=AWAY_BYTES_MAX + 1, is_away=True)
        await requests.begin("next")
        assert "next" not in requests.inside
        await requests.end("large-0")
        assert "next" in requests.inside

    asyncio.run(run())


def test_the_bytes_of_those_who_came_back_count_no_more() -> None:
    async def run() -> None:
        requests = Requests()
        for number in range(3 * LONG_PLACES):
            await requests.begin(f"large-{number}", size=AWAY_BYTES_MAX, is_away=True)
            await requests.end(f"large-{number}")
        for number in range(LONG_PLACES):
            await requests.begin(f"next-{number}")
        assert {"next-0", f"next-{LONG_PLACES - 1}"} <= requests.inside

    asyncio.run(run())


@pytest.mark.parametrize("is_back", [False, True])
def test_a_request_that_is_cancelled_leaves_all_places_to_others(is_back: bool) -> None:
    async def run() -> None:
        requests = Requests()
        await requests.begin("cancelled", is_away=True)
        for number in range(LONG_PLACES):
            await requests.begin(f"holder-{number}")
        if is_back:
            await requests.end("cancelled")  # it waits for a place to come back to
        requests.tasks["cancelled"].cancel()
        for number in range(LONG_PLACES):
            await requests.end(f"holder-{number}")
        with pytest.raises(asyncio.CancelledError):
            await requests.tasks["cancelled"]
        for number in range(LONG_PLACES + 1):
            await requests.begin(f"next-{number}")
        assert requests.inside >= {f"next-{number}" for number in range(LONG_PLACES)}
        assert f"next-{LONG_PLACES}" not in requests.inside

    asyncio.run(run())


def test_a_task_without_a_place_may_be_away_too() -> None:
    async def run() -> None:
        places = LongPlaces()
        async with places.away():
            pass
        for _ in range(LONG_PLACES):
            await places.place(1).__aenter__()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(places.place(1).__aenter__(), 0.01)

    asyncio.run(run())


def test_it_is_told_once_when_much_was_decoded_and_is_gone() -> None:
    async def run() -> None:
        requests = Requests()
        await requests.begin("small", size=LET_GO_BYTES - 1)
        await requests.end("small")
        assert not requests.places.has_let_go()
        await requests.begin("one", size=1)
        assert not requests.places.has_let_go(), "it is still there"
        await requests.end("one")
        assert requests.places.has_let_go()
        assert not requests.places.has_let_go()

    asyncio.run(run())


def test_memory_is_given_back_when_a_long_request_has_gone(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = threading.Event()
    monkeypatch.setattr(FreeLists, "free", lambda _: freed.set())
    names = [{"topic_id": None, "name": "n" * 200 + str(number)} for number in range(6_000)]
    wanted = {"topics": names, "allow_auto_topic_creation": False}
    assert len(encode_request(ApiKey.METADATA, 12, wanted)) > LET_GO_BYTES
    assert not freed.is_set()
    assert len(client.ask(ApiKey.METADATA, 12, wanted).topics) == 6_000
    assert freed.wait(UNTIL_SECONDS)


def test_what_groups_have_left_behind_is_not_looked_through_for_memory(node: LiveNode) -> None:
    pinned = node.broker.groups._table.pinned
    assert not node.call(lambda: node.front.has_long_work)
    pinned.offsets = FEW_BYTES + 1
    assert node.call(lambda: node.front.has_long_work)
    pinned.offsets, pinned.total = 0, FEW_BYTES + 1
    assert node.call(lambda: node.front.has_long_work)
    pinned.total = 0
    assert not node.call(lambda: node.front.has_long_work)


def test_nor_is_what_transactional_ids_have_left_behind(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(node.broker.transactions)
    monkeypatch.setattr(kind, "pinned_bytes", property(lambda _: FEW_BYTES + 1))
    assert node.call(lambda: node.front.has_long_work)


@pytest.fixture
def silent_controller(node: LiveNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody answers to new topics until the test is over."""
    over = asyncio.Event()
    submit = node.broker.controller.submit

    async def wait(command: Any) -> Any:
        if isinstance(command, CreateTopics):
            await over.wait()
        return await submit(command)

    monkeypatch.setattr(node.broker.controller, "submit", wait)
    yield
    node.call(over.set)


def test_long_requests_are_answered_while_others_wait_for_the_controllers(
    node: LiveNode, client: RawClient, silent_controller: None
) -> None:
    topics = [
        {
            "name": f"new-{number}",
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        for number in range(500)
    ]
    fields = {"topics": topics, "timeout": 5_000, "validate_only": False}
    assert len(encode_request(ApiKey.CREATE_TOPICS, 4, fields)) > LONG_FRAME_BYTES
    waiting = [node.connect() for _ in range(3 * LONG_PLACES)]
    for one in waiting:
        one.send(ApiKey.CREATE_TOPICS, 4, fields)
    names = [{"topic_id": None, "name": f"absent-{number}"} for number in range(1_000)]
    wanted = {"topics": names, "allow_auto_topic_creation": False}
    assert len(client.ask(ApiKey.METADATA, 12, wanted).topics) == 1_000
    for one in waiting:
        one.close()
