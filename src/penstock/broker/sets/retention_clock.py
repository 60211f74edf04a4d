"""The clock of retention: a jump of the wall clock is ignored for a while.

    wall clock   ──────────┐ +30 days ┌─────────      retention: as without the jump
                           └──────────┘               after HOLD_MS: the wall clock

Every member of a set deletes by its own clock, and no master can restore what it has deleted. A
clock set wrong, by hand or by a broken time service, would empty the log within a minute. The
monotonic clock does not jump, and continues in a suspend: if the two differ by more than JUMP_MS,
the wall clock has jumped, or a virtual machine was paused. Either way another hour of old records
is harmless, and the operator has that hour to correct the clock. A clock that goes back only keeps
more and is accepted at once.

Not detected: a clock that was wrong when the process began. ADR 0030.

Source: ours; CockroachDB stops on such jumps, which is more than retention needs.
"""

import logging

from penstock.base.ports import Clock

JUMP_MS = 60_000
"""More than any time service corrects at once if the clock was about right."""
HOLD_MS = 3_600_000

log = logging.getLogger(__name__)


class RetentionClock:
    """The time for retention; read it at least every few minutes."""

    __slots__ = ("_clock", "_lead_ms", "_since_ms", "jumps")

    def __init__(self, clock: Clock) -> None:
        """Accept the current wall clock."""
        self._clock = clock
        self._lead_ms = clock.wall_ms() - clock.monotonic_ms()
        """How far the accepted wall clock is ahead of the monotonic one."""
        self._since_ms: int | None = None
        """Monotonic time at which a jump was seen that is not accepted yet."""
        self.jumps = 0
        """Number of forward jumps of the wall clock."""

    @property
    def is_held(self) -> bool:
        """Whether the wall clock has jumped ahead and is not accepted yet."""
        return self._since_ms is not None

    def now_ms(self) -> int:
        """Return the time by which the age of records is computed, in ms."""
        monotonic_ms = self._clock.monotonic_ms()
        lead_ms = self._clock.wall_ms() - monotonic_ms
        jump_ms = lead_ms - self._lead_ms
        if jump_ms <= JUMP_MS:
            self._since_ms = None
            self._lead_ms = lead_ms
        elif self._since_ms is None:
            self._since_ms = monotonic_ms
            self.jumps += 1
            log.critical(
                "the wall clock has jumped ahead by %d s: retention ignores it for %d min",
                jump_ms // 1000,
                HOLD_MS // 60_000,
            )
        elif monotonic_ms - self._since_ms >= HOLD_MS:
            log.warning("the wall clock is %d s ahead: retention uses it now", jump_ms // 1000)
            self._since_ms = None
            self._lead_ms = lead_ms
        return monotonic_ms + self._lead_ms
