"""Values at the bounds of each key, and names at theirs."""

import math

import pytest

from penstock.quotas.entities import NAME_CHARACTERS_MAX, entity_of
from penstock.quotas.errors import InvalidQuota
from penstock.quotas.keys import QuotaKey, check_value

USER = entity_of([("user", "a")])
ADDRESS = entity_of([("ip", None)])
BOUNDS = {
    QuotaKey.PRODUCE: (1, 2.0**63 - 1024),
    QuotaKey.FETCH: (1, 2.0**63 - 1024),
    QuotaKey.REQUEST: (0, 1e9),
    QuotaKey.MUTATIONS: (1e-3, 1e9),
    QuotaKey.CONNECTIONS: (0, 2.0**31 - 1),
}


@pytest.mark.parametrize("key", QuotaKey)
def test_both_bounds_of_a_key_are_taken_and_the_next_numbers_are_not(key: QuotaKey) -> None:
    entity = ADDRESS if key is QuotaKey.CONNECTIONS else USER
    least, most = BOUNDS[key]
    for value in (least, most, None):
        check_value(entity, key, value)
    beyond = (math.nextafter(least, -math.inf), math.nextafter(most, math.inf))
    for refused in (*beyond, math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidQuota, match=f"{key} is from"):
            check_value(entity, key, refused)


@pytest.mark.parametrize("key", QuotaKey)
def test_a_fraction_is_taken_where_the_key_has_no_whole_numbers(key: QuotaKey) -> None:
    entity = ADDRESS if key is QuotaKey.CONNECTIONS else USER
    if key in {QuotaKey.REQUEST, QuotaKey.MUTATIONS}:
        check_value(entity, key, 1.5)
        return
    check_value(entity, key, 2 + 5e-7)
    for value in (1.5, 2 + 2e-6, 2 - 2e-6):
        with pytest.raises(InvalidQuota, match="fractional"):
            check_value(entity, key, value)


@pytest.mark.parametrize("value", [1.0, None])
def test_a_key_belongs_to_addresses_or_to_clients(value: float | None) -> None:
    for key in QuotaKey:
        entity = USER if key is QuotaKey.CONNECTIONS else ADDRESS
        with pytest.raises(InvalidQuota, match=f"Invalid configuration key {key}"):
            check_value(entity, key, value)
    for entity in (USER, ADDRESS):
        with pytest.raises(InvalidQuota, match="Invalid configuration key other"):
            check_value(entity, "other", value)


def test_a_name_has_as_many_characters_as_is_said_and_no_more() -> None:
    assert entity_of([("user", "é" * NAME_CHARACTERS_MAX)])
    with pytest.raises(InvalidQuota, match=f"{NAME_CHARACTERS_MAX} characters at most"):
        entity_of([("user", "é" * (NAME_CHARACTERS_MAX + 1))])
