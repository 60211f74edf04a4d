"""Connections of an address against its quota."""

import pytest

from penstock.quotas.entities import entity_of
from penstock.quotas.keys import QuotaKey
from penstock.quotas.table import SHORT_DELAY_MS_MAX, QuotaTable

HOST = "10.0.0.1"


def table_with(rate: float) -> QuotaTable:
    key: str = QuotaKey.CONNECTIONS
    table = QuotaTable({entity_of([("ip", None)]): {key: rate}})
    table.changed()
    return table


def test_connections_above_the_rate_are_refused_and_counted() -> None:
    table = table_with(3)
    delays = [table.connection_delay_ms(HOST, 0) for _ in range(5)]
    assert delays == [0, 0, 0, SHORT_DELAY_MS_MAX, SHORT_DELAY_MS_MAX]
    assert table.throttled[QuotaKey.CONNECTIONS] == 2
    assert table.connection_delay_ms("10.0.0.2", 0) == 0


def test_refused_connections_do_not_count_so_that_the_rate_comes_in() -> None:
    table = table_with(3)
    admitted = sum(not table.connection_delay_ms(HOST, now_ms) for now_ms in range(0, 30_000, 10))
    assert abs(admitted - 90) <= 4


def test_a_rate_of_nothing_lets_nobody_in() -> None:
    assert table_with(0).connection_delay_ms(HOST, 0) == SHORT_DELAY_MS_MAX


def test_addresses_without_a_quota_are_not_counted() -> None:
    table = QuotaTable({})
    assert table.connection_delay_ms(HOST, 0) == 0
    assert table.bucket_counts[QuotaKey.CONNECTIONS] == 0
    assert not table.limits_addresses


def test_an_address_of_ipv4_is_the_same_by_ipv6() -> None:
    key: str = QuotaKey.CONNECTIONS
    table = QuotaTable({entity_of([("ip", HOST)]): {key: 1.0}})
    assert table.connection_delay_ms(f"::ffff:{HOST}", 0) == 0
    assert table.connection_delay_ms(HOST, 0) > 0
    assert table.connection_delay_ms("::1", 0) == 0


def crowded(count: int) -> QuotaTable:
    """A table that has room for so many addresses, each of which may connect three times."""
    key: str = QuotaKey.CONNECTIONS
    table = QuotaTable({entity_of([("ip", None)]): {key: 3.0}}, buckets_max=count)
    table.changed()
    return table


def test_where_no_bucket_is_idle_the_one_that_was_found_longest_ago_gives_way() -> None:
    table = crowded(2)
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.3"):
        assert table.connection_delay_ms(host, 0) == 0
    assert table.bucket_counts[QuotaKey.CONNECTIONS] == 2
    assert table.connection_delay_ms("10.0.0.1", 0) > 0, "its three are counted still"


def test_an_idle_bucket_gives_way_before_one_that_is_not() -> None:
    table = crowded(2)
    table.connection_delay_ms("10.0.0.1", 0)
    for _ in range(3):
        assert table.connection_delay_ms("10.0.0.2", 12_000) == 0
    assert table.connection_delay_ms("10.0.0.3", 12_000) == 0
    assert table.connection_delay_ms("10.0.0.2", 12_000) > 0, "its three are counted still"


def test_what_is_limited_follows_the_quotas_both_ways() -> None:
    quotas = {entity_of([("ip", None)]): {str(QuotaKey.CONNECTIONS): 3.0}}
    table = QuotaTable(quotas)
    table.changed()
    assert (table.limits_addresses, table.limits_clients) == (True, False)
    quotas[entity_of([("user", "alice")])] = {str(QuotaKey.FETCH): 3.0}
    del quotas[entity_of([("ip", None)])]
    table.changed()
    assert (table.limits_addresses, table.limits_clients) == (False, True)
    quotas.clear()
    table.changed()
    assert (table.limits_addresses, table.limits_clients) == (False, False)


@pytest.mark.parametrize("alone", [QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.MUTATIONS])
def test_a_request_fills_its_time_and_what_it_is_under_and_nothing_else(alone: QuotaKey) -> None:
    own: str = alone
    time: str = QuotaKey.REQUEST
    table = QuotaTable({entity_of([("user", "alice")]): {own: 5.0, time: 7.0}})
    found = table.client("User:alice", "id", 0)
    bounds = {
        key: [(filled, bucket.bound) for filled, bucket in pairs]
        for key, pairs in found.by_key.items()
    }
    others = {QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.MUTATIONS, QuotaKey.REQUEST} - {alone}
    assert bounds == {
        alone: [(QuotaKey.REQUEST, 7.0), (alone, 5.0)],
        **{key: [(QuotaKey.REQUEST, 7.0)] for key in others},
    }
    assert not found.are_none


@pytest.mark.parametrize(
    "key", [QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.MUTATIONS, QuotaKey.REQUEST]
)
def test_a_client_with_one_quota_of_any_key_is_limited_and_one_without_is_not(
    key: QuotaKey,
) -> None:
    own: str = key
    table = QuotaTable({entity_of([("user", "alice")]): {own: 5.0}})
    assert not table.client("User:alice", "id", 0).are_none
    assert table.client("User:bob", "id", 0).are_none
