"""What requests cost is counted once: for their API, and for their client where audited."""

from itertools import count
from typing import NamedTuple

import pytest

from penstock.audit.counts import Counts
from penstock.audit.fold import Fold
from penstock.broker.audit.audit_log import AuditLog
from penstock.node.access.audit import start_audit
from penstock.protocol.api_keys import ApiKey
from penstock.runtime.io.randomness import SystemRandomness
from tests.broker.cluster import (
    Asked,
    Cluster,
    Node,
    Wire,
    frames_of,
    produce_fields,
    run_at_once,
)
from tests.kafka.gate_asks import fetch


@pytest.fixture
def node() -> Node:
    cluster = Cluster(1, audit=True)
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


def audited(node: Node) -> Fold:
    start_audit(node.front, run_at_once, SystemRandomness())
    assert isinstance(node.broker.audit, AuditLog)
    return node.broker.audit.fold


def row(fold: Fold, api: str) -> Counts:
    """Return the row of the one client and the API, over all partitions."""
    (found,) = (counts for key, counts in fold.take(0).rows.items() if key[1:] == (api, "", -1))
    return found


def seen(fold: Fold, api: str) -> Seen:
    counts = row(fold, api)
    return Seen(counts.requests, counts.bytes_in, counts.bytes_out)


def sent(asked: Asked) -> int:
    return sum(map(len, asked.wire.answers.values()))


def fields() -> dict[str, object]:
    return produce_fields("open", (b"v",), -1, {})


def test_requests_and_answers_count_with_all_that_is_sent(node: Node) -> None:
    fold = audited(node)
    asked = node.produce(b"v", topic="open")
    node.cluster.world.run()
    size = len(next(frames_of([fields()], 11)))
    assert total(node, ApiKey.PRODUCE) == (1, size, sent(asked))
    assert seen(fold, "produce") == (1, size, sent(asked))


def test_a_fetch_counts_the_records_that_it_gets(node: Node) -> None:
    node.produce(b"v" * 1000, topic="open")
    node.cluster.world.run()
    fold = audited(node)
    asked = node.send(ApiKey.FETCH, 12, fetch("open"))
    assert sent(asked) > 1000
    assert seen(fold, "fetch").bytes_out == sent(asked)


def test_a_decoded_request_counts_like_others(node: Node) -> None:
    fold = audited(node)
    asked = node.send(ApiKey.HEARTBEAT, 0, {"group_id": "g", "generation_id": 1, "member_id": ""})
    assert seen(fold, "heartbeat").bytes_out == sent(asked) > 0


def test_a_run_counts_each_of_its_requests(node: Node) -> None:
    fold = audited(node)
    requests = [fields()] * 3
    asked = node.produce_together(*requests)
    node.cluster.world.run()
    answers = sum(map(len, asked.wire.answers.values()))
    came = sum(map(len, frames_of(requests, 11)))
    assert asked.taken == 3
    assert seen(fold, "produce") == total(node, ApiKey.PRODUCE) == (3, came, answers)


def test_an_answer_that_is_not_owed_takes_nothing(node: Node) -> None:
    fold = audited(node)
    node.produce(b"v", topic="open", acks=0)
    taken = seen(fold, "produce")
    assert (taken.requests, taken.bytes_out) == (1, 0)


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_request_behind_another_one_is_counted_and_not_timed(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, is_behind: bool
) -> None:
    monkeypatch.setattr(Wire, "enqueue", lambda *_: not is_behind)
    fold = audited(node)
    node.produce(b"v", topic="open")
    stats, counts = node.broker.stats.by_api[ApiKey.PRODUCE], row(fold, "produce")
    assert (stats.requests, counts.requests) == (1, 1)
    assert stats.local.count == counts.timed == (0 if is_behind else 1)
    assert (stats.local.total_us > 0) is (counts.latency_us > 0) is not is_behind
