"""Logs refused connections once a minute: the address with most of them, how many, which setting.

Refused clients retry many times a second; each refusal is counted, and the first one of a minute is
logged together with those since the last line.
"""

import logging
from collections import Counter

from penstock.net.errors import RefuseKind

EVERY_TICKS = 60
ADDRESSES_MAX = 1_000
"""Addresses that are counted individually; of others only the number is known."""

_SETTINGS = {
    RefuseKind.TOO_MANY: "net.connections_max (or `ulimit -n`)",
    RefuseKind.TOO_MANY_FROM_ADDRESS: "net.connections_per_address_max",
    RefuseKind.TOO_FAST_FROM_ADDRESS: "net.connection_rate_per_address_max",
    RefuseKind.NO_DESCRIPTOR: "`ulimit -n`",
    RefuseKind.QUOTA: "the quota connection_creation_rate",
}
assert set(_SETTINGS) == set(RefuseKind), "every reason has its limit"

log = logging.getLogger(__name__)


class RefusalLog:
    """The log of one listener; ticks are seconds."""

    __slots__ = ("_by_address", "_count", "_logged_tick")

    def __init__(self) -> None:
        self._by_address: dict[RefuseKind, Counter[str]] = {kind: Counter() for kind in RefuseKind}
        self._count: Counter[RefuseKind] = Counter()
        self._logged_tick = dict.fromkeys(RefuseKind, -EVERY_TICKS)

    def note(self, kind: RefuseKind, address: str, tick: int) -> None:
        """Count a refused connection from `address`; log it if the last line is a minute old."""
        self._count[kind] += 1
        by_address = self._by_address[kind]
        if address in by_address or len(by_address) < ADDRESSES_MAX:
            by_address[address] += 1
        if tick - self._logged_tick[kind] >= EVERY_TICKS:
            self._tell(kind, tick)

    def tell_due(self, tick: int) -> None:
        """Log the refusals since the last line of a kind, once that is a minute old."""
        for kind, count in list(self._count.items()):
            if count and tick - self._logged_tick[kind] >= EVERY_TICKS:
                self._tell(kind, tick)

    def _tell(self, kind: RefuseKind, tick: int) -> None:
        by_address = self._by_address[kind]
        ((worst, most),) = by_address.most_common(1)
        log.warning(
            "connections refused=%d reason=%s most from %s=%d; the limit is %s",
            self._count[kind],
            kind,
            worst,
            most,
            _SETTINGS[kind],
        )
        self._logged_tick[kind] = tick
        self._count[kind] = 0
        by_address.clear()
