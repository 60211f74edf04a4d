"""A meter of RocketMQ's fronts: what it counts, when it mutes, and what rows it adds to."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.audit.fold import Fold
from penstock.audit.row import RowKey, Who
from penstock.broker.metering import Kind, RequestMeter, meter_of, who_is
from penstock.quotas.entities import entity_of
from penstock.quotas.keys import QuotaKey
from penstock.quotas.table import SHORT_DELAY_MS_MAX, QuotaTable

ALICE = "User:alice"


class Clock:
    """Time stands still until it is moved."""

    def __init__(self) -> None:
        self.us = 10_000_000

    def monotonic_us(self) -> int:
        return self.us

    def monotonic_ms(self) -> int:
        return self.us // 1000


class Client:
    """A client that keeps when it was muted."""

    principal, host = ALICE, "10.0.0.7"
    client_id, software = "app-1", ("rocketmq-java", "485")

    def __init__(self) -> None:
        self.buckets: Any = None
        self.mutes: list[int | None] = []

    def mute(self, delay_ms: int | None) -> None:
        self.mutes.append(delay_ms)


class World:
    """A broker's quotas and audit."""

    def __init__(self, *, is_audited: bool = False, user: str | None = "alice", **bounds: float):
        self.clock = Clock()
        self.quotas_now: dict[Any, dict[str, float]] = {}
        self.table = QuotaTable(self.quotas_now)
        if bounds:
            self.quotas_now[entity_of([("user", user)])] = bounds
        self.table.changed()
        audit = SimpleNamespace(fold=Fold(0)) if is_audited else None
        self.broker: Any = SimpleNamespace(
            clock=self.clock,
            quotas=self.table if self.table.limits_clients else None,
            quota_table=self.table,
            audit=audit,
        )
        self.client = Client()

    def begin(self, kind: Kind, size: int = 100) -> RequestMeter:
        return RequestMeter(self.broker, self.client, "send_message", kind, size)

    def rows(self) -> dict[RowKey, Any]:
        return self.broker.audit.fold.take(0).rows


def test_where_nothing_is_counted_there_is_no_meter() -> None:
    world = World()
    assert meter_of(world.broker, world.client, "send_message", Kind.SEND, 1) is None
    world = World(is_audited=True)
    assert meter_of(world.broker, world.client, "send_message", Kind.SEND, 1) is not None


def test_a_send_over_its_quota_mutes_at_once_and_for_the_delay_behind_its_answer() -> None:
    world = World(producer_byte_rate=50)
    meter = world.begin(Kind.SEND, 150)
    assert world.client.mutes == [None]
    meter.answered(10, failed=False)
    assert world.client.mutes == [None, 3_000]
    assert world.table.throttled[QuotaKey.PRODUCE] == 1
    assert world.table.delayed_ms[QuotaKey.PRODUCE] == 3_000


def test_a_send_within_its_quota_is_left_alone() -> None:
    world = World(producer_byte_rate=500)
    world.begin(Kind.SEND, 150).answered(10_000, failed=False)
    assert world.client.mutes == [0]
    assert not world.table.throttled[QuotaKey.PRODUCE]


def test_an_answer_with_messages_counts_for_the_other_quota_alone() -> None:
    world = World(consumer_byte_rate=50, producer_byte_rate=1)
    world.begin(Kind.READ, 10_000).answered(150, failed=False)
    assert world.client.mutes == [3_000]
    assert not world.table.throttled[QuotaKey.PRODUCE]
    assert world.table.throttled[QuotaKey.FETCH] == 1


@pytest.mark.parametrize("kind", [Kind.OTHER, Kind.SEND])
def test_what_is_no_message_counts_for_no_quota_of_bytes(kind: Kind) -> None:
    world = World(consumer_byte_rate=1)
    world.begin(kind).answered(10_000, failed=False)
    assert world.client.mutes == []


def test_loop_time_counts_for_every_request_and_delays_a_second_at_most() -> None:
    world = World(request_percentage=1)
    meter = world.begin(Kind.OTHER)
    world.clock.us += 500_000
    meter.handled()
    meter.answered(10, failed=False)
    assert world.client.mutes == [SHORT_DELAY_MS_MAX]
    assert world.table.throttled[QuotaKey.REQUEST] == 1


def test_others_have_their_own() -> None:
    world = World(user="bob", producer_byte_rate=1)
    world.begin(Kind.SEND, 10_000).answered(10, failed=False)
    assert world.client.mutes == []


def test_a_changed_quota_holds_from_the_next_request_on() -> None:
    world = World(producer_byte_rate=1_000_000)
    world.begin(Kind.SEND, 100)
    world.quotas_now[entity_of([("user", "alice")])] = {"producer_byte_rate": 1}
    world.table.changed()
    world.begin(Kind.SEND, 100)
    assert world.client.mutes == [None]


def test_rows_tell_the_client_and_the_partition() -> None:
    world = World(is_audited=True, producer_byte_rate=50)
    meter = world.begin(Kind.SEND, 150)
    meter.about("orders", 3)
    world.clock.us += 700
    meter.answered(20, records=2, payload=90, failed=False)
    who = Who(ALICE, "app-1", "rocketmq-java", "485", "10.0.0.7")
    rows = world.rows()
    assert rows.keys() == {RowKey(who, "send_message"), RowKey(who, "send_message", "orders", 3)}
    own, part = (rows[RowKey(who, "send_message")], rows[RowKey(who, "send_message", "orders", 3)])
    assert (own.requests, own.records, own.bytes_in, own.bytes_out) == (1, 0, 150, 20)
    assert (own.throttle_ms, own.timed, own.latency_us, own.latency_us_max) == (3_000, 1, 700, 700)
    assert (part.requests, part.records, part.bytes_in, part.bytes_out) == (1, 2, 90, 0)
    assert (own.errors, part.errors) == (0, 0)


def test_what_is_read_is_what_leaves() -> None:
    world = World(is_audited=True)
    meter = world.begin(Kind.READ, 150)
    meter.about("orders", 0)
    meter.answered(500, records=1, payload=400, failed=False)
    part = world.rows()[RowKey(who_is(world.client), "send_message", "orders", 0)]
    assert (part.requests, part.records, part.bytes_in, part.bytes_out) == (1, 1, 0, 400)


def test_a_failure_is_one_of_the_partition_where_there_is_one_and_else_of_the_client() -> None:
    world = World(is_audited=True)
    meter = world.begin(Kind.SEND)
    meter.about("orders", 0)
    meter.answered(20, failed=True)
    world.begin(Kind.SEND).answered(20, failed=True)
    rows = world.rows()
    who = who_is(world.client)
    part = rows[RowKey(who, "send_message", "orders", 0)]
    assert (part.errors, part.requests) == (1, 0)
    assert (
        rows[RowKey(who, "send_message")].errors,
        rows[RowKey(who, "send_message")].requests,
    ) == (1, 2)


def test_a_read_that_finds_nothing_makes_no_row_of_a_partition() -> None:
    world = World(is_audited=True)
    meter = world.begin(Kind.READ)
    meter.about("orders", 0)
    meter.answered(20, failed=False)
    assert list(world.rows()) == [RowKey(who_is(world.client), "send_message")]


def test_texts_of_clients_are_cut() -> None:
    world = World()
    world.client.client_id = "x" * 300
    assert len(who_is(world.client).client_id) == 255
