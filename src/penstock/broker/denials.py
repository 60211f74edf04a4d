"""What was denied to clients: counted for the metrics, and logged without end to nobody's harm.

    first denial of a minute     a line at once: who, from where, what, on which resource
    the same again               counted; one line with the count when the minute is over
    more than NAMED_MAX kinds,   counted together, one line when the minute is over
    NAMED_OF_PRINCIPAL of one

A kind is a principal, an operation and a resource. What a list leaves out is not counted: the
client did not ask for it.

Source: Kafka's authorizer log (`logIfDenied`), which has a line for each denial.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.base.ports import Clock
from penstock.broker.access import Operation, Requester, Resource

NAMED_MAX: Final = 100
"""Kinds of denials that have lines of their own in a minute."""
NAMED_OF_PRINCIPAL: Final = 75
"""Of them those of one principal, so that it leaves lines for others."""
PERIOD_MS: Final = 60_000
TEXT_CHARACTERS_MAX: Final = 100
"""Of principals and names in lines."""

OnDenied = Callable[[Requester, Operation, Resource, str], None]

log = logging.getLogger(__name__)


class _Kind(NamedTuple):
    principal: str
    operation: Operation
    resource: Resource
    name: str

    def __str__(self) -> str:
        operation, resource = self.operation.name.lower(), self.resource.name.lower()
        return f"principal={self.principal!r} operation={operation} {resource}={self.name!r}"


class Denials:
    """See the module; one for each broker."""

    __slots__ = ("_clock", "_ends_ms", "_kinds", "_named", "_others", "counts", "on_denied")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.counts: dict[tuple[Operation, Resource], int] = {}
        """Since the start."""
        self._kinds: dict[_Kind, int] = {}
        self._named: Counter[str] = Counter()
        """Kinds by principal."""
        self._others = 0
        self._ends_ms = 0
        self.on_denied: OnDenied | None = None
        """Told of each denial: the audit."""

    def note(self, who: Requester, operation: Operation, resource: Resource, name: str) -> None:
        """Count a denial."""
        counted = (operation, resource)
        self.counts[counted] = self.counts.get(counted, 0) + 1
        if self.on_denied is not None:
            self.on_denied(who, operation, resource, name)
        if not self._kinds:
            self._ends_ms = self._clock.monotonic_ms() + PERIOD_MS
        most = TEXT_CHARACTERS_MAX
        kind = _Kind(who.principal[:most], operation, resource, name[:most])
        if kind in self._kinds:
            self._kinds[kind] += 1
        elif len(self._kinds) < NAMED_MAX and self._named[kind.principal] < NAMED_OF_PRINCIPAL:
            self._kinds[kind] = 1
            self._named[kind.principal] += 1
            log.warning("denied host=%s %s", who.host, kind)
        else:
            self._others += 1

    def expire(self, now_ms: int) -> None:
        """Log what was counted, if the minute is over."""
        if not self._kinds or now_ms < self._ends_ms:
            return
        for kind, count in self._kinds.items():
            if count > 1:
                log.warning("denied again times=%d %s", count - 1, kind)
        if self._others:
            log.warning("denied others times=%d", self._others)
        self._kinds.clear()
        self._named.clear()
        self._others = 0
