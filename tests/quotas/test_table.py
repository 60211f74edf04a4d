"""Connections of an address against its quota."""

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
