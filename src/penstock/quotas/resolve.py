"""Which quota applies to a client: of eight levels the first that has the key.

    1  user, client id             5  default user, default client id
    2  user, default client id     6  default user
    3  user                        7  client id
    4  default user, client id     8  default client id

A default applies to each by itself: two users under the default user have a bucket each, named by
what the level names. Each key is looked up alone, so that a client may be produced for by one level
and fetched for by another.

Source: KIP-55; Kafka `DefaultClientQuotaCallback.quotaMetricTags`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.quotas.entities import QuotaEntity, QuotaKind, QuotaPart

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""All quotas: values by key, by entity."""


class Applied(NamedTuple):
    """A quota that applies, and whose bucket it fills: "" where the level does not name it."""

    user: str
    client_id: str
    bound: float


_USER_DEFAULT: Final = QuotaPart(QuotaKind.USER, None)
_CLIENT_DEFAULT: Final = QuotaPart(QuotaKind.CLIENT_ID, None)
_IP_DEFAULT: Final = QuotaPart(QuotaKind.IP, None)


class Levels:
    """The levels of one client, most specific first. `user` is a principal's name."""

    __slots__ = ("_levels",)

    def __init__(self, user: str, client_id: str) -> None:
        named, client = QuotaPart(QuotaKind.USER, user), QuotaPart(QuotaKind.CLIENT_ID, client_id)
        both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
        self._levels: tuple[tuple[QuotaEntity, tuple[str, str]], ...] = (
            ((client, named), both),
            ((_CLIENT_DEFAULT, named), both),
            ((named,), of_user),
            ((client, _USER_DEFAULT), both),
            ((_CLIENT_DEFAULT, _USER_DEFAULT), both),
            ((_USER_DEFAULT,), of_user),
            ((client,), of_client),
            ((_CLIENT_DEFAULT,), of_client),
        )

    def find(self, quotas: Quotas, key: str) -> Applied | None:
        """Return the quota of this key; None where nothing limits the client."""
        for entity, (user, client_id) in self._levels:
            bound = quotas.get(entity, {}).get(key)
            if bound is not None:
                return Applied(user, client_id, bound)
        return None


def of_address(quotas: Quotas, address: str, key: str) -> float | None:
    """Return the quota of an address, or that of all by default."""
    for part in (QuotaPart(QuotaKind.IP, address), _IP_DEFAULT):
        bound = quotas.get((part,), {}).get(key)
        if bound is not None:
            return bound
    return None
