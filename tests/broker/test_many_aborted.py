"""What a fetch tells of aborted transactions has a bound, and none that matters is left out."""

from collections.abc import Callable
from functools import partial

import pytest

from penstock.broker.fetch import committed as committed_fetch
from penstock.broker.fetch import operation
from penstock.protocol.api_keys import ApiKey
from tests.broker.cluster import fetch_fields
from tests.broker.transactional import (
    ABORT,
    EVENTS,
    ask_fetch,
    committed,
    end,
    events,
    told_aborted,
    write,
)

P = 7
NAMES = (EVENTS, "more", "most")


@pytest.mark.parametrize(("most", "told"), [(2, [2, 0, 0]), (5, [2, 2, 0]), (6, [2, 2, 2])])
def test_partitions_that_would_tell_of_too_many_aborted_transactions_come_later(
    most: int, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "ABORTED_MAX", most)
    cluster = events()
    for name in NAMES:
        if name != EVENTS:
            cluster.create(name)
        for producer_id in (P, P + 1):
            write(cluster.nodes[0], producer_id, b"v", topic=name)
            end(cluster.nodes[0], producer_id, ABORT, topic=name)
    cluster.replicate()
    wanted = fetch_fields(EVENTS, 0, 0, -1, -1) | {"isolation_level": 1}
    partitions = wanted["topics"][0]["partitions"]
    wanted["topics"] = [{"topic": name, "partitions": partitions} for name in NAMES]
    answer = cluster.nodes[0].ask(ApiKey.FETCH, 12, wanted)
    found = [one.partitions[0] for one in answer.responses]
    assert [len(one.aborted_transactions) for one in found] == told
    assert [bool(one.records) for one in found] == [bool(count) for count in told]


def test_what_is_told_of_aborted_transactions_counts_while_others_are_being_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = events()
    cluster.create("more")
    node = cluster.nodes[0]
    for name in (EVENTS, "more"):
        for producer_id in (P, P + 1, P + 2):
            write(node, producer_id, b"v", topic=name)
            end(node, producer_id, ABORT, topic=name)
    cluster.replicate()
    waiting: list[Callable[[], None]] = []
    find = committed_fetch.find_aborted
    monkeypatch.setattr(
        operation, "find_aborted", lambda *asked: waiting.append(partial(find, *asked))
    )
    wanted = fetch_fields(EVENTS, 0, 0, -1, -1) | {"isolation_level": 1}
    partitions = wanted["topics"][0]["partitions"]
    wanted["topics"] = [{"topic": name, "partitions": partitions} for name in (EVENTS, "more")]
    asked = node.send(ApiKey.FETCH, 12, wanted)
    records = asked.wire.kept_bytes
    assert records > 0
    waiting[0]()
    assert asked.wire.kept_bytes == records + 3 * operation.ABORTED_BYTES
    waiting[1]()
    assert asked.answer is not None
    assert asked.wire.kept_bytes == 0


def test_a_partition_alone_is_told_all_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "ABORTED_MAX", 1)
    cluster = events()
    node = cluster.nodes[0]
    for producer_id in range(3):
        write(node, producer_id, b"aborted")
    for producer_id in range(3):
        end(node, producer_id, ABORT)
    write(node, -1, b"plain")
    cluster.replicate()
    answer = ask_fetch(node, 0)
    assert told_aborted(answer) == [(0, 0), (1, 1), (2, 2)]
    assert [value for _, value in committed(answer, 0)[0]] == [b"plain"]
