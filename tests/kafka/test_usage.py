"""What a client takes is counted where the totals of its APIs are: bytes in and out, and time."""

from itertools import count
from typing import NamedTuple

import pytest

from penstock.broker.api_stats import ApiStats
from penstock.broker.usage import CLIENT_ID_CHARACTERS_MAX, ClientKey, ClientUsages
from penstock.protocol.api_keys import ApiKey
from tests.broker.cluster import Asked, Cluster, Node, Wire, frames_of, produce_fields
from tests.kafka.gate_asks import fetch

CLIENT = ClientKey("User:ANONYMOUS", "test", Wire.client_host)


@pytest.fixture
def node() -> Node:
    cluster = Cluster(1)
    cluster.create("open")
    ticks = count(step=7)
    cluster.world.monotonic_us = lambda: next(ticks)  # type: ignore[method-assign]
    return cluster.nodes[0]


class Seen(NamedTuple):
    requests: int
    bytes_in: int
    bytes_out: int


def total(node: Node, key: ApiKey) -> Seen:
    stats = node.broker.stats.by_api[key]
    return Seen(stats.requests, stats.bytes_in, stats.bytes_out)


def followed(node: Node) -> ClientUsages:
    node.broker.stats.clients = clients = ClientUsages()
    return clients


def sent(asked: Asked) -> int:
    return sum(map(len, asked.wire.answers.values()))


def test_requests_and_answers_count_with_all_that_is_sent(node: Node) -> None:
    clients = followed(node)
    asked = node.produce(b"v", topic="open")
    node.cluster.world.run()
    size = len(next(frames_of([fields()], 11)))
    assert total(node, ApiKey.PRODUCE) == (1, size, sent(asked))
    assert seen(clients, "produce") == (1, size, sent(asked))


def test_a_fetch_counts_the_records_that_it_gets(node: Node) -> None:
    node.produce(b"v" * 1000, topic="open")
    node.cluster.world.run()
    clients = followed(node)
    asked = node.send(ApiKey.FETCH, 12, fetch("open"))
    assert sent(asked) > 1000
    assert seen(clients, "fetch").bytes_out == sent(asked)


def test_a_decoded_request_counts_like_others(node: Node) -> None:
    clients = followed(node)
    asked = node.send(ApiKey.HEARTBEAT, 0, {"group_id": "g", "generation_id": 1, "member_id": ""})
    assert seen(clients, "heartbeat").bytes_out == sent(asked) > 0


def test_a_run_counts_each_of_its_requests(node: Node) -> None:
    clients = followed(node)
    requests = [fields()] * 3
    asked = node.produce_together(*requests)
    node.cluster.world.run()
    answers = sum(map(len, asked.wire.answers.values()))
    came = sum(map(len, frames_of(requests, 11)))
    assert asked.taken == 3
    assert seen(clients, "produce") == total(node, ApiKey.PRODUCE) == (3, came, answers)


def fields() -> dict[str, object]:
    return produce_fields("open", (b"v",), -1, {})


def seen(clients: ClientUsages, api: str) -> Seen:
    usage = clients.of(CLIENT)[api]
    return Seen(usage.requests, usage.bytes_in, usage.bytes_out)


def test_an_answer_that_is_not_owed_takes_nothing(node: Node) -> None:
    clients = followed(node)
    node.produce(b"v", topic="open", acks=0)
    assert seen(clients, "produce").bytes_out == 0
    assert seen(clients, "produce").requests == 1


def test_a_request_behind_another_one_is_timed_only_where_somebody_asks(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wire, "enqueue", lambda *_: False)
    node.produce(b"v", topic="open")
    stats = node.broker.stats.by_api[ApiKey.PRODUCE]
    assert (stats.local.count, stats.requests) == (0, 1)
    clients = followed(node)
    node.produce(b"v", topic="open")
    usage = clients.of(CLIENT)["produce"]
    assert usage.loop_us == stats.local.total_us > 0


def test_slices_of_long_requests_take_time_of_the_loop() -> None:
    clients = ClientUsages()
    stats = ApiStats("metadata")
    clients.measure(Known("a"), stats).took_turn(30)
    clients.measure(Known("a"), stats).handled(12)
    clients.measure(Known("a"), stats).answered(1, 5_000)
    assert clients.of(Known("a").key)["metadata"].loop_us == 42
    assert (stats.turns.us, stats.remote.total_us) == (30, 5_000)


def test_without_anybody_who_asks_clients_are_not_told_apart(node: Node) -> None:
    node.produce(b"v", topic="open")
    assert node.broker.stats.clients is None
    assert total(node, ApiKey.PRODUCE).requests == 1


class Known(NamedTuple):
    client_id: str
    principal: str = "User:ANONYMOUS"
    host: str = "10.0.0.1"

    @property
    def key(self) -> ClientKey:
        return ClientKey(self.principal, self.client_id, self.host)


def test_clients_are_told_apart_and_the_totals_are_theirs_together() -> None:
    clients, stats = ClientUsages(), ApiStats("fetch")
    for client, size in (("a", 1), ("b", 20), ("a", 300)):
        clients.measure(Known(client), stats).received(size)
    took = [clients.of(key)["fetch"].bytes_in for key in clients]
    assert sorted(took) == [20, 301]
    assert sum(took) == stats.bytes_in


def test_of_a_long_client_id_the_beginning_is_kept() -> None:
    clients, stats = ClientUsages(), ApiStats("fetch")
    for end in ("a", "b"):
        clients.measure(Known("x" * 30_000 + end), stats).received(1)
    (key,) = clients
    assert key.client_id == "x" * CLIENT_ID_CHARACTERS_MAX
    assert clients.of(key)["fetch"].requests == 2


def test_the_client_that_was_seen_longest_ago_makes_room() -> None:
    clients, stats = ClientUsages(clients_max=2), ApiStats("fetch")
    for client in ("a", "b", "a", "c"):
        clients.measure(Known(client), stats).received(1)
    assert [key.client_id for key in clients] == ["a", "c"]
    assert (stats.requests, clients.of(Known("b").key)) == (4, {})
