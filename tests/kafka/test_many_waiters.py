"""However many fetches wait for a partition, they look again in short turns of the loop."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.protocol.api_keys import ApiKey
from tests.broker.fetches import create, fill, request
from tests.live_node import LiveNode, RawClient
from tests.turn_calls import Turns

PIPELINED = 60
CONNECTIONS = 20
COUNT = PIPELINED * CONNECTIONS
CALLS_MAX = 5_000
"""In one turn: a portion of 22 answers comes to two fifths of it."""


@pytest.fixture
def clients(node: LiveNode) -> Iterator[list[RawClient]]:
    with ExitStack() as stack:
        clients = [node.connect() for _ in range(CONNECTIONS)]
        for client in clients:
            stack.callback(client.close)
        yield clients


def park(node: LiveNode, clients: list[RawClient], min_bytes: int) -> None:
    """Let each client have so many fetches wait at the start of the partition."""
    wanted = request(1, min_bytes=min_bytes, max_wait_ms=300_000)
    for client in clients:
        for _ in range(PIPELINED):
            client.send(ApiKey.FETCH, 11, wanted)
    assert node.until(lambda: node.broker.stats.fetches_parked == COUNT)


def test_a_record_for_a_thousand_waiting_fetches_is_given_to_some_in_each_turn(
    node: LiveNode, client: RawClient, clients: list[RawClient]
) -> None:
    create(node, partitions=1)
    park(node, clients, min_bytes=1)
    turns = Turns()
    node.call(turns.begin)
    try:
        fill(client, 1, 1)
        for waiting in clients:
            for _ in range(PIPELINED):
                answer = waiting.receive(ApiKey.FETCH, 11)
                assert answer.responses[0].partitions[0].records
    finally:
        node.call(turns.end)
    assert 0 < turns.longest < CALLS_MAX, f"{turns.longest} calls in {turns.begun_in}"
    wakes = node.broker.stats.fetch_wakes
    assert node.call(lambda: wakes.us) > 0


def test_a_record_is_too_little_for_a_thousand_waiting_fetches_in_short_turns(
    node: LiveNode, client: RawClient, clients: list[RawClient]
) -> None:
    create(node, partitions=1)
    park(node, clients, min_bytes=1 << 19)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    turns = Turns()
    node.call(turns.begin)
    try:
        fill(client, 1, 1)
        assert node.until(lambda: len(hosted.waiters) == COUNT)
    finally:
        node.call(turns.end)
    assert 0 < turns.longest < CALLS_MAX, f"{turns.longest} calls in {turns.begun_in}"


def test_a_deleted_topic_tells_a_thousand_waiting_fetches_in_short_turns(
    node: LiveNode, clients: list[RawClient]
) -> None:
    create(node, partitions=1)
    park(node, clients, min_bytes=1)
    turns = Turns()
    node.call(turns.begin)
    try:
        node.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
        for waiting in clients:
            for _ in range(PIPELINED):
                answer = waiting.receive(ApiKey.FETCH, 11)
                assert answer.responses[0].partitions[0].error_code
    finally:
        node.call(turns.end)
    assert 0 < turns.longest < CALLS_MAX, f"{turns.longest} calls in {turns.begun_in}"
