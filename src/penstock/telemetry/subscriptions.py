"""What is asked of which client: the subscriptions that operators configure.

    metrics      prefixes of names; "*" for all of them
    interval.ms  how often; of several that a client matches the shortest counts
    match        which clients: all patterns have to match, none match everybody

What is asked of a client instance has a number. It is a function of what is asked and of the
instance's id alone, so that a client which goes on at another broker is understood there.

Source: KIP-714; Kafka `ClientMetricsManager` (CRC-32C of the metrics and the interval, XOR the id;
whoever matches nothing is asked for nothing, every five minutes),
`ClientMetricsInstanceMetadata` (which attributes, whole matches).
Departs from Kafka in the order of the metrics under the CRC, which is that of a hash set there.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from penstock.configs.keys import split_list
from penstock.configs.patterns import Pattern, compiled_pattern

SUBSCRIPTIONS_MAX: Final = 100
"""Those that count, in the order of their names: each costs a microsecond of every new client."""
INTERVAL_MS_DEFAULT: Final = 300_000
EVERYTHING: Final = "*"
KEPT_MAX: Final = 256
"""Sets of subscriptions of which is remembered what they ask for together."""


class Asked(NamedTuple):
    """What is asked of a client instance."""

    metrics: tuple[str, ...]
    """Prefixes, in order; EVERYTHING stands alone."""
    interval_ms: int
    subscription_id: int


class _Subscription(NamedTuple):
    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, Pattern]

    def matches(self, client: Mapping[str, str]) -> bool:
        """Whether it is about this client; one that does not say what is asked does not match."""
        return all(
            name in client and pattern.fullmatch(client[name]) is not None
            for name, pattern in self.patterns.items()
        )


class Subscriptions:
    """See the module; of one state of the configuration."""

    def __init__(self, kept: Mapping[str, Mapping[str, str]]) -> None:
        """`kept`: by name, the keys that are set."""
        self._all: list[_Subscription] = []
        self.left_out: list[str] = []
        """Names of those that do not count: too many, or with a pattern that RE2 does not know."""
        for name in sorted(kept):
            made = _read(kept[name])
            if made is None or len(self._all) >= SUBSCRIPTIONS_MAX:
                self.left_out.append(name)
            else:
                self._all.append(made)
        self._together: dict[tuple[int, ...], Asked] = {}

    def asked_of(self, instance_id: UUID, client: Mapping[str, str]) -> Asked:
        """Return what is asked of a client, which has these attributes beside its id."""
        client = {**client, "client_instance_id": id_text(instance_id)}
        found = tuple(at for at, one in enumerate(self._all) if one.matches(client))
        together = self._together.get(found)
        if together is None:
            if len(self._together) >= KEPT_MAX:
                self._together.clear()
            together = self._together[found] = _joined(self._all[at] for at in found)
        own = together.subscription_id ^ _folded(instance_id)
        return together._replace(subscription_id=own - (1 << 32) if own >> 31 else own)


def _read(values: Mapping[str, str]) -> _Subscription | None:
    """Return what was configured; None where a pattern is one of an earlier release."""
    patterns = {}
    for item in split_list(values.get("match", "")):
        name, _, pattern = item.partition("=")
        try:
            patterns[name.strip()] = compiled_pattern(pattern.strip())
        except ValueError:
            return None
    interval_ms = int(values.get("interval.ms", INTERVAL_MS_DEFAULT))
    return _Subscription(frozenset(split_list(values.get("metrics", ""))), interval_ms, patterns)


def _joined(found: Iterable[_Subscription]) -> Asked:
    """Return what several ask for; its number is not yet that of an instance."""
    metrics = set[str]()
    interval_ms = INTERVAL_MS_DEFAULT
    for one in found:
        metrics |= one.metrics
        interval_ms = min(interval_ms, one.interval_ms)
    if EVERYTHING in metrics:
        metrics = {EVERYTHING}
    names = tuple(sorted(metrics))
    number: int = crc32c("\n".join((*names, str(interval_ms))).encode())
    return Asked(names, interval_ms, number)


def id_text(instance_id: UUID) -> str:
    """Return an id as Kafka's clients and tools write it."""
    return base64.urlsafe_b64encode(instance_id.bytes).rstrip(b"=").decode()


def _folded(instance_id: UUID) -> int:
    """Return an id as 32 bits: its four parts, combined by XOR."""
    both = instance_id.int >> 64 ^ instance_id.int & (1 << 64) - 1
    return both >> 32 ^ both & (1 << 32) - 1
