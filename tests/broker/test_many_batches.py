"""A fetch gets so many batches, however small they are and however many its partitions."""

import pytest

from penstock.broker.fetch import operation
from penstock.protocol.api_keys import ApiKey
from tests.broker.fetches import counts, create, fill, request
from tests.live_node import LiveNode, RawClient


@pytest.mark.parametrize(("most", "got"), [(4, [3, 3, 0]), (3, [3, 0, 0]), (7, [3, 3, 3])])
def test_partitions_come_later_when_an_answer_has_enough_batches(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch, most: int, got: list[int]
) -> None:
    monkeypatch.setattr(operation, "BATCHES_MAX", most)
    create(node)
    fill(client, 3, 3, 3)
    answer = client.ask(ApiKey.FETCH, 11, request())
    assert [*counts(answer).values()] == got


def test_an_answer_with_enough_batches_waits_for_no_more_bytes(
    node: LiveNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "BATCHES_MAX", 4)
    create(node)
    fill(client, 3, 3, 3)
    parked = node.call(lambda: node.broker.stats.fetches_parked)
    answer = client.ask(ApiKey.FETCH, 11, request(min_bytes=1 << 19, max_wait_ms=30_000))
    assert [*counts(answer).values()] == [3, 3, 0]
    assert node.call(lambda: node.broker.stats.fetches_parked) == parked
