"""What a client with a quota is told, when its connection is muted, and who is left alone."""

import dataclasses
from typing import Any

import pytest

from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange
from penstock.kafka.throttled import buckets_of, reply_of
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import RequestHeader
from penstock.quotas.entities import entity_of
from penstock.quotas.keys import QuotaKey
from penstock.quotas.table import ClientBuckets, QuotaTable
from tests.broker.cluster import (
    Asked,
    Cluster,
    Node,
    Wire,
    fetch_fields,
    fetched,
    frames_of,
    produce_fields,
    produced,
)

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
THIS = {"client-id": "test"}
"""The client of all requests here."""


@pytest.fixture
def node() -> Node:
    cluster = Cluster(1)
    cluster.create()
    return cluster.nodes[0]


def limit(
    node: Node, key: str, bound: float | None, entity: dict[str, str | None] | None = None
) -> None:
    whose = entity_of((THIS if entity is None else entity).items())
    change = QuotaChange(entity=whose, values={key: bound})
    (outcome,) = node.cluster.metadata.submit(AlterQuotas(changes=(change,)))
    assert outcome.error is None


def buckets_of_test_client(node: Node) -> ClientBuckets:
    table = node.broker.quotas
    assert table is not None
    return table.client("User:ANONYMOUS", "test", node.cluster.world.now_ms)


def told_ms(asked: Asked) -> int:
    told = asked.answer.throttle_time
    return round(told.total_seconds() * 1000)


def size_of_produce(value: bytes, version: int = 11) -> int:
    return len(next(frames_of([produce_fields("events", (value,), -1, {})], version)))


def sent(asked: Asked) -> int:
    return sum(map(len, asked.wire.answers.values()))


@pytest.mark.parametrize("version", range(3, 13))
def test_a_produce_over_its_quota_is_appended_answered_and_muted(node: Node, version: int) -> None:
    size = size_of_produce(b"v" * 1000, version)
    limit(node, PRODUCE, size / 2 // 1)
    asked = node.produce(b"v" * 1000, version=version)
    assert asked.wire.mutes == [None]
    node.cluster.world.run()
    assert produced(asked).error_code == ErrorCode.NONE
    assert 2_000 <= told_ms(asked) <= 2_005
    assert asked.wire.mutes == [None, told_ms(asked)]


def test_a_produce_within_its_quota_is_neither_told_nor_muted(node: Node) -> None:
    limit(node, PRODUCE, size_of_produce(b"v"))
    asked = node.produce(b"v")
    node.cluster.world.run()
    assert (told_ms(asked), asked.wire.mutes) == (0, [])
    again = node.produce(b"v")
    node.cluster.world.run()
    assert told_ms(again) > 0


def test_the_rate_of_an_obedient_producer_is_its_quota(node: Node) -> None:
    size = size_of_produce(b"v" * 1000)
    limit(node, PRODUCE, 20_000)
    world, total, start_ms = node.cluster.world, 0, node.cluster.world.now_ms
    while world.now_ms - start_ms < 30_000:
        asked = node.produce(b"v" * 1000)
        world.run()
        total += size
        world.now_ms += max(1, told_ms(asked))
    assert total / 30 == pytest.approx(20_000, rel=0.05)


def test_a_run_of_requests_counts_whole_and_each_answer_tells(node: Node) -> None:
    requests = [produce_fields("events", (b"v" * 500,), -1, {})] * 3
    size = sum(map(len, frames_of(requests, 11)))
    limit(node, PRODUCE, size // 3)
    asked = node.produce_together(*requests)
    assert asked.taken == 3
    node.cluster.world.run()
    assert [code for _, code, _ in asked.outcomes] == [0, 0, 0]
    (delay_ms,) = [one for one in asked.wire.mutes if one is not None]
    assert asked.wire.mutes == [None, delay_ms]
    assert 3_000 <= delay_ms <= 3_020
    assert asked.throttles_ms == [delay_ms] * 3


@pytest.mark.parametrize("key", [PRODUCE, FETCH])
def test_quotas_of_bytes_neither_count_nor_delay_other_requests(node: Node, key: str) -> None:
    limit(node, key, 10)
    metadata: dict[str, Any] = {"topics": None}
    assert [told_ms(node.send(ApiKey.METADATA, 9, metadata)) for _ in range(2)] == [0, 0]
    buckets = buckets_of_test_client(node)
    now_ms = node.cluster.world.now_ms
    bucket = buckets.produce if key == PRODUCE else buckets.fetch
    assert bucket is not None
    assert bucket.is_idle(now_ms)
    bucket.record(100_000, now_ms)
    other = node.send(ApiKey.METADATA, 9, metadata)
    assert (told_ms(other), other.wire.mutes) == (0, [])


def test_a_refused_batch_counts_as_well(node: Node) -> None:
    limit(node, PRODUCE, 10)
    asked = node.produce(b"v", topic="absent", version=9)
    assert asked.answer.responses[0].partition_responses[0].error_code
    assert told_ms(asked) > 0
    assert asked.wire.mutes == [None, told_ms(asked)]


def test_a_produce_without_an_answer_is_muted_all_the_same(node: Node) -> None:
    limit(node, PRODUCE, 10)
    asked = node.produce(b"v", acks=0)
    assert asked.wire.mutes[0] is None
    assert len(asked.wire.mutes) == 2
    assert asked.wire.mutes[1]


def filled(node: Node) -> None:
    for _ in range(3):
        node.produce(b"v" * 2000)
        node.cluster.world.run()


def test_a_fetch_counts_what_it_gets_and_the_next_one_gets_nothing_at_once(node: Node) -> None:
    filled(node)
    limit(node, FETCH, 1_000)
    asked = node.fetch(0)
    size = sent(asked)
    assert size > 2_000
    delay_ms = told_ms(asked)
    assert delay_ms == pytest.approx(size, abs=20)
    assert asked.wire.mutes == [delay_ms]
    early = node.fetch(1, wait_ms=10_000)
    assert early.answer.responses == ()
    assert early.answer.session_id == 0
    assert told_ms(early) == pytest.approx(delay_ms, abs=100)
    node.cluster.world.now_ms += told_ms(early)
    late = node.fetch(1)
    assert fetched(late).records is not None


def test_a_fetch_gets_a_seconds_worth_at_most(node: Node) -> None:
    filled(node)
    limit(node, FETCH, 2_100)
    assert 2_000 < len(fetched(node.fetch(0)).records) < 4_000
    limit(node, FETCH, None)
    assert len(fetched(node.fetch(0)).records) > 6_000


def test_over_the_quota_no_session_begins_and_an_old_one_goes_on(node: Node) -> None:
    filled(node)
    fields = fetch_fields("events", 0, 0, -1, -1) | {"rack_id": "", "session_epoch": 0}
    session_id = node.ask(ApiKey.FETCH, 12, fields).session_id
    assert session_id
    limit(node, FETCH, 100)
    assert told_ms(node.fetch(0)) > 0
    new = node.ask(ApiKey.FETCH, 12, fields)
    assert (new.session_id, new.responses, new.error_code) == (0, (), 0)
    assert len(node.front.fetch_sessions) == 1
    going = {"session_id": session_id, "session_epoch": 1, "topics": []}
    on = node.ask(ApiKey.FETCH, 12, fields | going)
    assert (on.session_id, on.responses, on.error_code) == (session_id, (), 0)
    on = node.ask(ApiKey.FETCH, 12, fields | going)
    assert on.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_loop_time_counts_for_every_api_and_delays_a_second_at_most(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(node, REQUEST, 1)
    ticks = iter(range(0, 10**9, 20_000))
    monkeypatch.setattr(node.cluster.world, "monotonic_us", lambda: next(ticks))
    heartbeat = {"group_id": "g", "generation_id": 1, "member_id": ""}
    first = node.send(ApiKey.HEARTBEAT, 1, heartbeat)
    assert (told_ms(first), first.wire.mutes) == (0, [])
    second = node.send(ApiKey.HEARTBEAT, 1, heartbeat)
    assert told_ms(second) == 1_000
    assert second.wire.mutes == [1_000]
    versions = {"client_software_name": "a", "client_software_version": "1"}
    assert told_ms(node.send(ApiKey.API_VERSIONS, 3, versions)) == 1_000


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.METADATA, 9, {"topics": None}),
        (ApiKey.METADATA, 0, {"topics": []}),
        (ApiKey.FIND_COORDINATOR, 3, {"key": "g", "key_type": 0}),
        (ApiKey.LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": []}),
        (ApiKey.API_VERSIONS, 0, {}),
    ],
)
def test_answers_of_every_form_are_whole_with_a_delay(
    node: Node, key: ApiKey, version: int, fields: dict[str, Any]
) -> None:
    plain = node.ask(key, version, fields)
    limit(node, REQUEST, 0)
    table = node.broker.quota_table
    bucket = table.client("User:ANONYMOUS", "test", 0).request
    assert bucket is not None
    bucket.record(5, node.cluster.world.now_ms)
    asked = node.send(key, version, fields)
    node.cluster.world.run()
    assert asked.wire.mutes == [1_000]
    if hasattr(plain, "throttle_time"):
        assert told_ms(asked) == 1_000
    assert dataclasses.replace(asked.answer, **without_delay(plain)) == plain


def without_delay(plain: Any) -> dict[str, Any]:
    return {"throttle_time": plain.throttle_time} if hasattr(plain, "throttle_time") else {}


def test_a_change_of_quotas_counts_from_the_next_request_on(node: Node) -> None:
    limit(node, PRODUCE, 10)
    assert node.broker.quotas is not None
    assert node.produce(b"v").wire.mutes == [None]
    limit(node, PRODUCE, 1e9)
    assert node.produce(b"v").wire.mutes == []
    limit(node, PRODUCE, 10, {"user": "ANONYMOUS"})
    assert node.produce(b"v").wire.mutes == [None]
    limit(node, PRODUCE, None, {"user": "ANONYMOUS"})
    limit(node, PRODUCE, None)
    assert node.broker.quotas is None
    assert node.produce(b"v").wire.mutes == []


def test_a_connection_goes_by_a_change_too(node: Node) -> None:
    limit(node, PRODUCE, 10)
    context = node.produce(b"v").wire.state
    table = node.broker.quota_table
    bucket = buckets_of(table, context, 0).produce
    assert bucket is not None
    limit(node, PRODUCE, 1_000)
    assert buckets_of(table, context, 0).produce is bucket
    assert bucket.bound == 1_000
    limit(node, PRODUCE, None)
    assert buckets_of(table, context, 0).produce is None


def test_quotas_of_others_and_of_addresses_leave_a_client_alone(node: Node) -> None:
    limit(node, "connection_creation_rate", 1, {"ip": None})
    assert node.broker.quotas is None
    limit(node, PRODUCE, 10, {"user": "alice"})
    limit(node, PRODUCE, 10, {"client-id": "another"})
    assert node.produce(b"v").wire.mutes == []


def test_a_client_is_limited_by_whom_it_has_proved_to_be(node: Node) -> None:
    limit(node, PRODUCE, 10, {"user": "alice"})
    asked = node.produce(b"v")
    assert asked.wire.mutes == []
    asked.wire.state.principal = "User:alice"
    table, now_ms = node.broker.quota_table, node.cluster.world.now_ms
    found = buckets_of(table, asked.wire.state, now_ms)
    assert found.produce is not None
    assert buckets_of(table, asked.wire.state, now_ms) is found


def test_each_slice_of_a_request_counts_as_its_time(node: Node) -> None:
    limit(node, REQUEST, 1)
    asked = node.send(ApiKey.METADATA, 9, {"topics": None})
    table, clock, wire = node.broker.quotas, node.broker.clock, asked.wire
    assert table is not None
    header = RequestHeader(ApiKey.METADATA, 9, 1, "test", 0)
    measure = node.broker.stats.by_api[ApiKey.METADATA]
    reply = reply_of(table, wire.state, wire, header, clock, measure, 0, 100)  # type: ignore[arg-type]
    for _ in range(2):
        reply.note_turn(100_000)
    bucket = buckets_of_test_client(node).request
    assert bucket is not None
    assert bucket.rate(node.cluster.world.now_ms) == pytest.approx(20)


class Lets:
    """A guard that lets everything through, as before a client has said who it is."""

    def lets(self, frame: memoryview) -> bool:
        return len(frame) > 0


def test_before_a_client_has_said_who_it_is_nothing_counts(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(node, PRODUCE, 10)
    monkeypatch.setattr(Wire, "guard", Lets())
    assert node.produce(b"v").wire.mutes == []
    monkeypatch.setattr(Wire, "guard", None)
    assert node.produce(b"v").wire.mutes == [None]


def test_who_is_watched_on_since_its_session_has_an_end_has_quotas(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(node, PRODUCE, 10, {"user": "alice"})
    monkeypatch.setattr(Wire, "guard", Lets())
    monkeypatch.setattr(Wire, "principal", "User:alice")
    assert node.produce(b"v").wire.mutes == [None]


def test_what_was_throttled_is_counted(node: Node) -> None:
    limit(node, PRODUCE, 10)
    asked = node.produce(b"v")
    node.cluster.world.run()
    table = node.broker.quota_table
    assert table.throttled[QuotaKey.PRODUCE] == 1
    assert table.delayed_ms[QuotaKey.PRODUCE] == told_ms(asked)
    assert table.throttled[QuotaKey.REQUEST] == 0


def test_a_long_client_id_is_cut(node: Node) -> None:
    limit(node, PRODUCE, 10, {"client-id": None})
    context = node.produce(b"v").wire.state
    table = QuotaTable(node.broker.metadata.configuration.quotas)
    for end in ("a", "b"):
        context.client_id, context.buckets = "x" * 30_000 + end, None
        buckets_of(table, context, 0)
    assert table.bucket_counts[QuotaKey.PRODUCE] == 1
