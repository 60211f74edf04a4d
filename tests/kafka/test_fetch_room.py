"""A fetch reads nothing before there is room for what it finds, and then no more than that."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from penstock.broker.fetch.long_fetch import PARTITIONS_HERE
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.storage.commit_log.set_log import NeedsDisk
from penstock.storage.errors import ReadFailed
from tests.broker.fetches import SIZE, counts, create, fill, request
from tests.live_node import LiveNode, RawClient


class HeldRoom:
    """Stands for the room of all connections: whoever asks waits for the test."""

    is_short = False

    def __init__(self, node: LiveNode) -> None:
        self.node = node
        self.asked: list[tuple[Any, Callable[[int], int]]] = []
        self.kept_bytes = 0

    def ask(self, connection: Any, most: int, begin: Callable[[int], int]) -> None:
        self.asked.append((connection, begin))

    def forget(self, connection: Any) -> None:
        """Nobody is told."""

    def wait_for(self, count: int) -> None:
        assert self.node.until(lambda: len(self.asked) >= count)

    def give(self, size: int) -> int:
        """Let the first who asked begin; returns what it has found, and notes what it keeps."""
        connection, begin = self.asked.pop(0)

        def give() -> int:
            found = begin(size)
            self.kept_bytes = connection.kept_bytes
            return found

        return self.node.call(give)


@pytest.fixture
def room(node: LiveNode) -> HeldRoom:
    held = HeldRoom(node)
    listener = node.node._listener
    assert listener is not None
    listener._context.room = held  # type: ignore[assignment]
    return held


def test_an_answer_holds_no_more_than_there_is_room_for(
    node: LiveNode, client: RawClient, room: HeldRoom
) -> None:
    create(node)
    fill(client, 5)
    client.send(ApiKey.FETCH, 11, request())
    room.wait_for(1)
    assert room.give(2 * SIZE) == 2 * SIZE
    assert counts(client.receive(ApiKey.FETCH, 11))[0] == 2


def test_one_batch_is_answered_however_little_room_there_is(
    node: LiveNode, client: RawClient, room: HeldRoom
) -> None:
    create(node)
    fill(client, 3)
    client.send(ApiKey.FETCH, 11, request(min_bytes=1 << 19, max_wait_ms=300_000))
    room.wait_for(1)
    assert room.give(1) == SIZE
    assert counts(client.receive(ApiKey.FETCH, 11)) == {0: 1, 1: 0, 2: 0}


def test_a_parked_fetch_that_is_woken_asks_once_and_reads_when_it_may(
    node: LiveNode, client: RawClient, room: HeldRoom
) -> None:
    create(node)
    client.send(ApiKey.FETCH, 11, request(max_wait_ms=300_000))
    room.wait_for(1)
    assert room.give(1 << 20) == 0
    with closing(node.connect()) as producer:
        fill(producer, 3, 3)
    room.wait_for(1)
    assert len(room.asked) == 1
    assert room.give(1 << 20) == 6 * SIZE
    assert counts(client.receive(ApiKey.FETCH, 11)) == {0: 3, 1: 3, 2: 0}


def test_a_fetch_whose_time_ends_while_it_waits_is_answered_when_there_is_room(
    node: LiveNode, client: RawClient, room: HeldRoom
) -> None:
    create(node)
    fill(client, 1)
    client.send(ApiKey.FETCH, 11, request(min_bytes=1 << 19, max_wait_ms=20))
    room.wait_for(1)
    assert room.give(1 << 20) == SIZE, "too little, so it parks"
    room.wait_for(1)  # at its deadline
    assert room.give(1 << 20) == SIZE
    assert counts(client.receive(ApiKey.FETCH, 11)) == {0: 1, 1: 0, 2: 0}


def test_a_fetch_whose_peer_has_gone_leaves_its_partitions(
    node: LiveNode, client: RawClient, room: HeldRoom
) -> None:
    create(node, partitions=1)
    client.send(ApiKey.FETCH, 11, request(1, max_wait_ms=300_000))
    room.wait_for(1)
    room.give(1 << 20)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    (waiting,) = node.call(lambda: list(hosted.waiters))
    node.call(waiting.on_changed)
    assert room.give(0) == 0
    assert node.call(lambda: list(hosted.waiters)) == []
    node.call(waiting.on_changed)
    assert room.asked == [], "it never looks again"


def test_a_fetch_of_many_partitions_keeps_its_room_until_it_is_answered(
    node: LiveNode, client: RawClient, room: HeldRoom
) -> None:
    create(node, partitions=PARTITIONS_HERE + 1)
    fill(client, 3)
    client.send(ApiKey.FETCH, 11, request(PARTITIONS_HERE + 1))
    room.wait_for(1)
    connection, _ = room.asked[0]
    assert room.give(2 * SIZE) == 2 * SIZE
    assert room.kept_bytes == 2 * SIZE
    found = counts(client.receive(ApiKey.FETCH, 11))
    assert found[0] == 2
    assert sum(found.values()) == 2
    while node.call(lambda: connection.kept_bytes):
        pass
    assert node.call(lambda: connection._context.buffers.budget.answers) == 0


def test_what_a_disk_is_asked_for_is_kept_until_it_has_answered(
    node: LiveNode, client: RawClient, room: HeldRoom
) -> None:
    create(node, partitions=1)
    fill(client, 1)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    loads: list[Any] = []
    hosted.member.log.read = lambda *_: NeedsDisk(5 * SIZE, loads.append)  # type: ignore[method-assign]
    client.send(ApiKey.FETCH, 11, request(1))
    room.wait_for(1)
    connection, _ = room.asked[0]
    assert room.give(1 << 20) == 5 * SIZE
    assert node.call(lambda: connection.pinned_bytes) == 5 * SIZE
    node.call(lambda: loads[0](None, ReadFailed("broken")))
    answer = client.receive(ApiKey.FETCH, 11)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.call(lambda: connection.pinned_bytes) == 0
