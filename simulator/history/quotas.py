"""What a client was let through and told, judged by the quota it had.

    let through    only if what was certainly taken before is not above the quota
    told           a delay if what was certainly taken is above it, at least so long and at most
                   as long as all that may have been taken needs; none if that is within a second's

A client sees when it sent and when it was answered, and what counts was counted in between. So each
sum has two sides: what surely counts, and what may. A broker's clock may go up to `DRIFT` too fast
or too slow, and stands still with a broker that is suspended: only the sides that this does not
move are judged.

Source: KIP-13, KIP-124, KIP-219; ADR 0115 (the mean over at most 11 windows of a second).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

DRIFT = 0.03
WINDOWS_S = (10.0, 11.0)
"""So long what was taken counts at least, and at most."""
WHOLE_SECOND = 1.0
"""As if at least so much time had passed."""
ROUNDING_MS = 2.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A request that was answered. Times are virtual seconds."""

    sent_s: float
    answered_s: float
    size: int
    """Bytes that count."""
    told_ms: float
    is_let_through: bool = True
    """Whether the client got what it wanted; a fetch beyond the quota is answered empty."""


@dataclass(slots=True, kw_only=True)
class Meter:
    """What one client took of one process under one quota."""

    quota: float
    is_fresh: bool = True
    """Whether nothing was ever taken under this quota before."""
    taken: list[Taken] = field(default_factory=list)
    _is_changed: bool = False

    def change(self, quota: float) -> None:
        """Go by another quota; what was taken counts under the new one."""
        self.quota = quota
        self._is_changed = True

    def add(self, burst: list[Taken]) -> Iterator[str]:
        """Add requests that were sent together; yield what is wrong with their answers."""
        yield from self._let_through(burst)
        before = self.taken[:]
        self.taken += burst
        for one in burst:
            yield from self._told(one, [*before, one])
        if len(burst) > 1:
            longest = max(burst, key=lambda one: one.told_ms)
            at_the_end = replace(longest, answered_s=burst[-1].answered_s)
            yield from self._told(at_the_end, self.taken)
        self._is_changed = False

    def _let_through(self, burst: list[Taken]) -> Iterator[str]:
        """A burst may be taken as one, so that only what came before it counts.

        What was sent before a change was in order: no delay was due to whoever sends next.
        """
        passed = [one for one in burst if one.is_let_through]
        if not passed or self._is_changed:
            return
        at_s = passed[0].answered_s
        surely = self._surely(self.taken, at_s)
        allowed = self.quota * max(WHOLE_SECOND, self._elapsed_s(at_s)) * (1 + DRIFT)
        if surely > allowed:
            yield f"let through after {surely} bytes, with {self.quota:g} a second"

    def _told(self, one: Taken, counted: list[Taken]) -> Iterator[str]:
        """`counted`: what was taken when the delay was found.

        Fetches that were sent together are read in any order, and answered in theirs: each counts
        what came before all of them and itself, and one of them counts them all.
        """
        surely = self._surely(counted, one.answered_s)
        elapsed_s = self._elapsed_s(one.answered_s)
        due_ms = (surely / self.quota * (1 - DRIFT) - elapsed_s) * 1_000 - ROUNDING_MS
        if surely > self.quota * max(WHOLE_SECOND, elapsed_s) * (1 + DRIFT):
            if one.told_ms <= 0:
                yield f"told no delay after {surely} bytes, with {self.quota:g} a second"
            elif one.told_ms < due_ms:
                yield f"told {one.told_ms} ms, and {due_ms:.0f} are due"
        if not self.is_fresh or not one.told_ms:
            return
        perhaps = sum(each.size for each in self.taken)
        most_ms = perhaps / self.quota * 1_000 + ROUNDING_MS
        if perhaps <= self.quota * WHOLE_SECOND:
            yield f"told {one.told_ms} ms after {perhaps} bytes, with {self.quota:g} a second"
        elif one.told_ms > most_ms:
            yield f"told {one.told_ms} ms, and {most_ms:.0f} are due at most"

    def _surely(self, taken: list[Taken], at_s: float) -> int:
        since_s = at_s - WINDOWS_S[0] * (1 - DRIFT)
        return sum(one.size for one in taken if one.sent_s >= since_s)

    def _elapsed_s(self, at_s: float) -> float:
        """Return how long ago the first of what counts was taken, at most, by a fast clock."""
        began_s = self.taken[0].sent_s if self.is_fresh and self.taken else -math.inf
        return min(at_s - began_s, WINDOWS_S[1]) * (1 + DRIFT)
