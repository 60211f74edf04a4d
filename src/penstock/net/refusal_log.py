"""Logs once a minute who was refused, had to wait, or gave way: how many, where, by which setting.

Refused clients retry many times a second; each is counted, and the first one of a minute is logged
together with those since the last line. Each reason has a line of its own for each listener.
"""

import logging
from collections import Counter

from penstock.net.errors import RefuseKind, WaitKind, YieldKind

EVERY_TICKS = 60
ADDRESSES_MAX = 1_000
"""Addresses that are counted individually; of others only the number is known."""

LimitKind = RefuseKind | WaitKind | YieldKind

_IN_ALL = "net.connections_max (or `ulimit -n`)"
_SETTINGS: dict[LimitKind, str] = {
    RefuseKind.TOO_MANY: _IN_ALL,
    RefuseKind.TOO_MANY_AT_LISTENER: "connections_max of the listener in net.listeners",
    RefuseKind.TOO_MANY_FROM_ADDRESS: "net.connections_per_address_max",
    RefuseKind.OVER_OVERRIDE: "net.connections_per_address_overrides",
    RefuseKind.TOO_FAST_FROM_ADDRESS: "net.connection_rate_per_address_max",
    RefuseKind.NO_DESCRIPTOR: "`ulimit -n`",
    RefuseKind.QUOTA: "the quota connection_creation_rate",
    WaitKind.TOO_FAST: "net.connection_rate_max",
    WaitKind.TOO_FAST_AT_LISTENER: "connection_rate_max of the listener in net.listeners",
    YieldKind.FULL: _IN_ALL,
    YieldKind.LISTENER_FULL: "connections_max of the listener in net.listeners",
    YieldKind.UNPROVEN: "net.unproven_max (or half of net.connections_max)",
    YieldKind.UNPROVEN_FROM_ADDRESS: "net.unproven_per_address_max (or a quarter of"
    " net.connections_max)",
    YieldKind.IDLE: _IN_ALL,
}
assert set(_SETTINGS) == {*RefuseKind, *WaitKind, *YieldKind}, "every reason has its limit"

log = logging.getLogger(__name__)


class _Lines:
    """What one reason at one listener has to tell."""

    __slots__ = ("by_address", "count", "logged_tick")

    def __init__(self) -> None:
        self.by_address: Counter[str] = Counter()
        self.count = 0
        self.logged_tick = -EVERY_TICKS


class RefusalLog:
    """The log of one Listener; ticks are seconds."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[tuple[LimitKind, str], _Lines] = {}

    def note(self, kind: LimitKind, address: str, tick: int, listener: str) -> None:
        """Count a connection from `address`; log it if the last line is a minute old."""
        lines = self._lines.setdefault((kind, listener), _Lines())
        lines.count += 1
        if address in lines.by_address or len(lines.by_address) < ADDRESSES_MAX:
            lines.by_address[address] += 1
        self._tell_if_due(kind, listener, lines, tick)

    def tell_due(self, tick: int) -> None:
        """Log what has gathered since the last line of a reason, once that is a minute old."""
        for (kind, listener), lines in self._lines.items():
            if lines.count:
                self._tell_if_due(kind, listener, lines, tick)

    def _tell_if_due(self, kind: LimitKind, listener: str, lines: _Lines, tick: int) -> None:
        if tick - lines.logged_tick < EVERY_TICKS:
            return
        ((worst, most),) = lines.by_address.most_common(1)
        log.warning(
            "connections %s=%d listener=%s reason=%s%s; the limit is %s",
            _what(kind),
            lines.count,
            listener,
            kind,
            f" most from {worst}={most}" if worst else "",
            _SETTINGS[kind],
        )
        lines.logged_tick, lines.count = tick, 0
        lines.by_address.clear()


def _what(kind: LimitKind) -> str:
    if isinstance(kind, RefuseKind):
        return "refused"
    return "closed for others" if isinstance(kind, YieldKind) else "accepted later"
