"""What a quota limits: its keys, the entities that may have them, and values that are taken.

    producer_byte_rate         bytes of produce requests a second           user, client-id
    consumer_byte_rate         bytes of answers to fetches a second         user, client-id
    request_percentage         loop time in percent of one thread           user, client-id
    controller_mutation_rate   partitions made and deleted a second         user, client-id
    connection_creation_rate   new connections a second                     ip

Source: Kafka `QuotaConfig`, `ClientQuotaControlManager.validateQuotaKeyValue` and its texts.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from penstock.quotas.entities import QuotaEntity, QuotaKind
from penstock.quotas.errors import InvalidQuota

_FRACTION_MAX: Final = 1e-6


class QuotaKey(StrEnum):
    """What is limited; the texts are Kafka's."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATIONS = "controller_mutation_rate"
    CONNECTIONS = "connection_creation_rate"


class _Values(NamedTuple):
    """Values of a key: whole numbers or not, and their range, both inclusive."""

    is_whole: bool
    least: float
    most: float


_VALUES: Final[Mapping[str, _Values]] = {
    QuotaKey.PRODUCE: _Values(True, 1, 2.0**63 - 1024),
    QuotaKey.FETCH: _Values(True, 1, 2.0**63 - 1024),
    QuotaKey.REQUEST: _Values(False, 0, 1e9),
    QuotaKey.MUTATIONS: _Values(False, 1e-3, 1e9),
    QuotaKey.CONNECTIONS: _Values(True, 0, 2.0**31 - 1),
}
assert set(_VALUES) == set(QuotaKey), "every key has its values"


def check_value(entity: QuotaEntity, key: str, value: float | None) -> None:
    """Refuse a key that the entity has not, or a value; None takes the quota away.

    Raises InvalidQuota.
    """
    is_address = any(kind is QuotaKind.IP for kind, _ in entity)
    values = _VALUES.get(key)
    if values is None or is_address is not (key == QuotaKey.CONNECTIONS):
        raise InvalidQuota(f"Invalid configuration key {key[:100]}")
    if value is None:
        return
    if not math.isfinite(value) or not values.least <= value <= values.most:
        raise InvalidQuota(f"{key} is from {values.least:g} to {values.most:g}, not {value:g}")
    if values.is_whole and abs(value - round(value)) > _FRACTION_MAX:
        raise InvalidQuota(f"{key} cannot be a fractional value.")
