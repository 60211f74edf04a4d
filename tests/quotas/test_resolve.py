"""Which quota applies to a client, compared with the list of the specification read aloud."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.quotas.entities import QuotaEntity, QuotaKind, entity_of
from penstock.quotas.keys import QuotaKey
from penstock.quotas.resolve import Applied, Levels, of_address
from penstock.quotas.table import QuotaTable

NAMES = st.sampled_from(["a", "b", None])
KEYS = ("producer_byte_rate", "consumer_byte_rate")


@st.composite
def entities(draw: st.DrawFn) -> QuotaEntity:
    kinds = draw(st.sampled_from([["user"], ["client-id"], ["user", "client-id"]]))
    return entity_of((kind, draw(NAMES)) for kind in kinds)


QUOTAS = st.dictionaries(
    entities(), st.dictionaries(st.sampled_from(KEYS), st.floats(1, 1e6), min_size=1)
)


def model(
    quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str, key: str
) -> Applied | None:
    """Of all that fit, the first in Kafka's order; entities are compared part by part."""
    order = [
        ({"user": user, "client-id": client_id}, (user, client_id)),
        ({"user": user, "client-id": None}, (user, client_id)),
        ({"user": user}, (user, "")),
        ({"user": None, "client-id": client_id}, (user, client_id)),
        ({"user": None, "client-id": None}, (user, client_id)),
        ({"user": None}, (user, "")),
        ({"client-id": client_id}, ("", client_id)),
        ({"client-id": None}, ("", client_id)),
    ]
    for wanted, owner in order:
        for entity, values in quotas.items():
            parts = {str(part.kind): part.name for part in entity}
            if parts == wanted and key in values:
                return Applied(*owner, values[key])
    return None


@given(QUOTAS, st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from(KEYS))
def test_the_most_specific_level_with_the_key_applies(
    quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str, key: str
) -> None:
    assert Levels(user, client_id).find(quotas, key) == model(quotas, user, client_id, key)


LEVELS: list[tuple[list[tuple[str, str | None]], float]] = [
    ([("user", "u"), ("client-id", "c")], 1),
    ([("user", "u"), ("client-id", None)], 2),
    ([("user", "u")], 3),
    ([("user", None), ("client-id", "c")], 4),
    ([("user", None), ("client-id", None)], 5),
    ([("user", None)], 6),
    ([("client-id", "c")], 7),
    ([("client-id", None)], 8),
]


def test_eight_levels_are_set_at_once_and_taken_away_one_by_one() -> None:
    quotas = {entity_of(parts): {"producer_byte_rate": bound} for parts, bound in LEVELS}
    table = QuotaTable(quotas)
    for parts, bound in LEVELS:
        table.changed()
        bucket = table.client("User:u", "c", 0).produce
        assert bucket is not None
        assert bucket.bound == bound
        del quotas[entity_of(parts)]
    table.changed()
    assert table.client("User:u", "c", 0).produce is None
    assert not table.limits_clients


def test_a_default_is_for_each_by_itself_and_a_named_level_for_all_together() -> None:
    quotas = {
        entity_of([("user", None)]): {"producer_byte_rate": 5.0},
        entity_of([("client-id", "c")]): {"consumer_byte_rate": 7.0},
    }
    table = QuotaTable(quotas)
    one, other = table.client("User:one", "c", 0), table.client("User:other", "c", 0)
    same = table.client("User:one", "d", 0)
    assert one.produce is same.produce
    assert one.produce is not other.produce
    assert one.fetch is other.fetch
    assert same.fetch is None


def test_a_bucket_stays_when_its_quota_changes_and_goes_by_the_new_one() -> None:
    user = entity_of([("user", "u")])
    quotas = {user: {"producer_byte_rate": 1000.0}}
    table = QuotaTable(quotas)
    bucket = table.client("User:u", "c", 0).produce
    assert bucket is not None
    bucket.record(2000, 0)
    assert bucket.delay_ms(0) == 2000
    quotas[user] = {"producer_byte_rate": 4000.0}
    table.changed()
    assert table.client("User:u", "c", 0).produce is bucket
    assert bucket.delay_ms(0) == 0


def test_an_address_has_its_own_quota_or_the_one_of_all() -> None:
    key: str = QuotaKey.CONNECTIONS
    quotas = {entity_of([("ip", "10.0.0.1")]): {key: 3.0}, entity_of([("ip", None)]): {key: 5.0}}
    assert of_address(quotas, "10.0.0.1", QuotaKey.CONNECTIONS) == 3
    assert of_address(quotas, "10.0.0.2", QuotaKey.CONNECTIONS) == 5
    assert entity_of([("ip", "::0:1")])[0] == (QuotaKind.IP, "::1")


@pytest.mark.parametrize("text", ["::ffff:10.0.0.1", "::FFFF:a00:1", "0:0:0:0:0:ffff:10.0.0.1"])
def test_a_quota_of_an_address_of_ipv4_by_ipv6_counts_for_that_of_ipv4(text: str) -> None:
    table = QuotaTable({entity_of([("ip", text)]): {QuotaKey.CONNECTIONS: 1.0}})
    delays = [table.connection_delay_ms(one, 0) for one in ("10.0.0.1", "::ffff:10.0.0.1")]
    assert delays == [0, 1000]


def test_buckets_are_bounded_and_idle_ones_make_room_first() -> None:
    quotas = {entity_of([("client-id", None)]): {"producer_byte_rate": 10.0}}
    table = QuotaTable(quotas, buckets_max=3)
    busy = table.client("User:u", "busy", 0).produce
    assert busy is not None
    busy.record(100, 0)
    for number in range(20):
        table.client("User:u", f"c-{number}", 0)
    assert table.bucket_counts[QuotaKey.PRODUCE] == 3
    assert table.client("User:u", "busy", 0).produce is busy


def test_where_no_bucket_is_idle_the_one_found_longest_ago_makes_room() -> None:
    quotas = {entity_of([("client-id", None)]): {"producer_byte_rate": 10.0}}
    table = QuotaTable(quotas, buckets_max=2)
    for number in range(5):
        bucket = table.client("User:u", f"c-{number}", 0).produce
        assert bucket is not None
        bucket.record(100, 0)
    assert table.bucket_counts[QuotaKey.PRODUCE] == 2
