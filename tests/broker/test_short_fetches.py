"""Fetches that wait hold their partitions: of a connection, and of all, only so many."""

from contextlib import closing

import pytest

from penstock.broker.fetch import short_fetches
from penstock.broker.fetch.partition_shares import PARTITION_BYTES
from penstock.broker.fetch.short_fetches import FEW, OF_ONE_MAX
from penstock.protocol.api_keys import ApiKey
from tests.broker.fetches import counts, create, fill, request
from tests.live_node import LiveNode, RawClient

MANY = OF_ONE_MAX // 2


def waiting(node: LiveNode) -> int:
    return node.call(lambda: node.broker.short_fetches.waiting)


def test_a_connection_with_many_fetches_that_wait_is_read_on_when_they_are_answered(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=MANY)
    for _ in range(10):
        client.send(ApiKey.FETCH, 11, request(MANY - 20, max_wait_ms=30_000))
    assert node.until(lambda: node.broker.short_fetches.waiting == 3 * (MANY - 20))
    pinned = node.call(lambda: node.front.pinned_bytes - node.broker.groups.pinned_bytes)
    assert pinned == 3 * (MANY - 20) * PARTITION_BYTES
    assert node.call(lambda: node.broker.stats.fetches_parked) == 3
    with closing(node.connect()) as other:
        fill(other, 1)
    for _ in range(10):
        assert counts(client.receive(ApiKey.FETCH, 11))[0] == 1
    assert waiting(node) == 0
    assert not node.broker.short_fetches._of


def test_a_connection_is_read_on_as_soon_as_one_of_its_fetches_makes_room(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=MANY)
    client.send(ApiKey.FETCH, 11, request(MANY - 20, max_wait_ms=100))
    for _ in range(3):
        client.send(ApiKey.FETCH, 11, request(MANY - 20, max_wait_ms=60_000))
    assert set(counts(client.receive(ApiKey.FETCH, 11)).values()) == {0}
    assert node.until(lambda: node.broker.stats.fetches_parked == 4)
    assert waiting(node) == 3 * (MANY - 20)


def test_fetches_of_few_partitions_may_be_many(node: LiveNode, client: RawClient) -> None:
    create(node, partitions=FEW)
    for _ in range(30):
        client.send(ApiKey.FETCH, 11, request(FEW, max_wait_ms=30_000))
    assert node.until(lambda: node.broker.stats.fetches_parked == 30)
    assert waiting(node) == 0


def test_where_too_many_wait_the_next_fetch_is_answered_at_once(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(node, partitions=FEW + 1)
    monkeypatch.setattr(short_fetches, "ALL_MAX", 0)
    answer = client.ask(ApiKey.FETCH, 11, request(FEW + 1, max_wait_ms=30_000))
    assert set(counts(answer).values()) == {0}
    client.send(ApiKey.FETCH, 11, request(FEW, max_wait_ms=30_000))
    assert node.until(lambda: node.broker.stats.fetches_parked == 1)


def test_fetches_of_a_client_that_has_gone_are_counted_until_they_end(node: LiveNode) -> None:
    create(node, partitions=MANY)
    with closing(node.connect()) as client:
        for _ in range(3):
            client.send(ApiKey.FETCH, 11, request(MANY, max_wait_ms=30_000))
        assert node.until(lambda: node.broker.short_fetches.waiting == 3 * MANY)
    with closing(node.connect()) as other:
        fill(other, 1)
    assert node.until(lambda: not node.broker.short_fetches.waiting)
    assert not node.broker.short_fetches._held
