"""The buckets of a node, and what of them a client fills.

    (user, client id) ─► levels ─► ClientBuckets: produce, fetch, request time, mutations
                                        └─► shared by all clients that the level names together

A client's buckets are found once, and again after a change of quotas (`generation`). A bucket stays
when its quota changes: what was taken counts under the new one. There are BUCKETS_MAX of each key
at most, and idle ones make room first; where none is idle, the one found longest ago does.

Source: Kafka `ClientQuotaManager` (sensors by tags, updateQuotaMetricConfigs), KIP-13, KIP-124.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from penstock.quotas.keys import QuotaKey
from penstock.quotas.resolve import Applied, Levels, Quotas, of_address
from penstock.quotas.tokens import TokenBucket
from penstock.quotas.windows import WINDOW_MS, Windows

BUCKETS_MAX: Final = 10_000
"""Of each key; a bucket takes about 500 bytes, so 25 MB of all five."""
IDLE_LOOKED_AT: Final = 4
"""Buckets that are looked at for an idle one when there is no room."""
SHORT_DELAY_MS_MAX: Final = WINDOW_MS
"""Longest delay for request time and for connections, as in Kafka."""
CLIENT_KEYS: Final = frozenset(QuotaKey) - {QuotaKey.CONNECTIONS}


class Bucket(Protocol):
    """What is taken under one quota."""

    bound: float

    def is_idle(self, now_ms: int) -> bool: ...


B = TypeVar("B", bound=Bucket)


class _Buckets(Generic[B]):
    """The buckets of one key, by whom they are of."""

    def __init__(self, make: Callable[[float], B], most: int) -> None:
        self._make = make
        self._most = most
        self._by_owner: OrderedDict[tuple[str, str], B] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_owner)

    def of(self, owner: tuple[str, str], bound: float, now_ms: int) -> B:
        """Return the bucket of an owner, under this quota from now on."""
        bucket = self._by_owner.get(owner)
        if bucket is None:
            if len(self._by_owner) >= self._most:
                self._make_room(now_ms)
            bucket = self._by_owner[owner] = self._make(bound)
        else:
            self._by_owner.move_to_end(owner)
            bucket.bound = bound
        return bucket

    def _make_room(self, now_ms: int) -> None:
        """Forget an idle bucket among the oldest; those that are not become the youngest."""
        for _ in range(IDLE_LOOKED_AT):
            owner, bucket = next(iter(self._by_owner.items()))
            if bucket.is_idle(now_ms):
                break
            self._by_owner.move_to_end(owner)
        self._by_owner.popitem(last=False)


class ClientBuckets:
    """What a client fills; None where nothing limits it.

    Made anew when quotas change, so what each request asks for is found out once.
    """

    __slots__ = (
        "are_none",
        "by_key",
        "fetch",
        "generation",
        "mutations",
        "principal",
        "produce",
        "request",
    )

    def __init__(
        self,
        *,
        principal: str,
        generation: int,
        produce: Windows | None,
        fetch: Windows | None,
        request: Windows | None,
        mutations: TokenBucket | None,
    ) -> None:
        self.principal = principal
        self.generation = generation
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self.mutations = mutations
        own: dict[QuotaKey, Windows | TokenBucket | None] = {
            QuotaKey.REQUEST: None,
            QuotaKey.PRODUCE: produce,
            QuotaKey.FETCH: fetch,
            QuotaKey.MUTATIONS: mutations,
        }
        self.by_key: Mapping[QuotaKey, Sequence[tuple[QuotaKey, Windows | TokenBucket]]] = {
            key: _that_are((QuotaKey.REQUEST, request), (key, bucket))
            for key, bucket in own.items()
        }
        """What a request under each of the keys fills, its time first."""
        self.are_none = not any(self.by_key.values())
        """Whether nothing limits the client."""


def _that_are(
    *pairs: tuple[QuotaKey, Windows | TokenBucket | None],
) -> Sequence[tuple[QuotaKey, Windows | TokenBucket]]:
    return tuple((key, bucket) for key, bucket in pairs if bucket is not None)


class QuotaTable:
    """See the module. `quotas` is the image's, which changes; `changed` says so."""

    def __init__(self, quotas: Quotas, *, buckets_max: int = BUCKETS_MAX) -> None:
        self._quotas = quotas
        self.generation = 0
        self.limits_clients = False
        """Whether a user or a client id has a quota at all."""
        self.limits_addresses = False
        self.throttled: dict[QuotaKey, int] = dict.fromkeys(QuotaKey, 0)
        """Answers with a delay, or connections that were refused, by what was over its quota."""
        self.delayed_ms: dict[QuotaKey, int] = dict.fromkeys(QuotaKey, 0)
        self._produce = _Buckets(Windows, buckets_max)
        self._fetch = _Buckets(Windows, buckets_max)
        self._request = _Buckets(_short, buckets_max)
        self._mutations = _Buckets(TokenBucket, buckets_max)
        self._connections = _Buckets(_short, buckets_max)

    def changed(self) -> None:
        """Go by the quotas as they are now."""
        self.generation += 1
        keys = {key for values in self._quotas.values() for key in values}
        self.limits_clients = not CLIENT_KEYS.isdisjoint(keys)
        self.limits_addresses = QuotaKey.CONNECTIONS in keys

    def note(self, key: QuotaKey, delay_ms: int) -> None:
        """Count a delay."""
        self.throttled[key] += 1
        self.delayed_ms[key] += delay_ms

    @property
    def bucket_counts(self) -> dict[QuotaKey, int]:
        """Buckets by key."""
        return {
            QuotaKey.PRODUCE: len(self._produce),
            QuotaKey.FETCH: len(self._fetch),
            QuotaKey.REQUEST: len(self._request),
            QuotaKey.MUTATIONS: len(self._mutations),
            QuotaKey.CONNECTIONS: len(self._connections),
        }

    def client(self, principal: str, client_id: str, now_ms: int) -> ClientBuckets:
        """Return what a client fills; valid for this generation."""
        levels = Levels(principal.partition(":")[2], client_id)

        def find(key: QuotaKey, buckets: _Buckets[B]) -> B | None:
            applied: Applied | None = levels.find(self._quotas, key)
            if applied is None:
                return None
            return buckets.of((applied.user, applied.client_id), applied.bound, now_ms)

        return ClientBuckets(
            principal=principal,
            generation=self.generation,
            produce=find(QuotaKey.PRODUCE, self._produce),
            fetch=find(QuotaKey.FETCH, self._fetch),
            request=find(QuotaKey.REQUEST, self._request),
            mutations=find(QuotaKey.MUTATIONS, self._mutations),
        )

    def connection_delay_ms(self, address: str, now_ms: int) -> int:
        """Count a connection that is made now; above 0 it is to be closed after this delay.

        A refused one does not count. An address of IPv4 is the same by IPv6.
        """
        if "." in address:
            address = address.rpartition(":")[2]
        bound = of_address(self._quotas, address, QuotaKey.CONNECTIONS)
        if bound is None:
            return 0
        bucket = self._connections.of((address, ""), bound, now_ms)
        bucket.record(1, now_ms)
        delay_ms = bucket.delay_ms(now_ms)
        if delay_ms:
            bucket.record(-1, now_ms)
            self.note(QuotaKey.CONNECTIONS, delay_ms)
        return delay_ms


def _short(bound: float) -> Windows:
    return Windows(bound, SHORT_DELAY_MS_MAX)
