"""The time that retention goes by: a wall clock that jumps ahead is not believed at once.

    wall clock   ──────────┐ +30 days ┌─────────      retention: as if it had not jumped
                           └──────────┘               after HOLD_MS of it: as the clock says

Every member of a set deletes by its own clock, and what it has deleted no master brings back. A
clock set wrong, by hand or by a broken time service, would empty the log within a minute. The
monotonic clock does not jump, and goes on in a suspend: where the two part by more than JUMP_MS
the wall clock has jumped, or a virtual machine was paused. Either way an hour more of old records
harms nobody, and whoever looks after the clock has that hour. A clock that goes back only keeps
more, and is believed.

What it can not tell: a clock that was wrong when the process began. ADR 0030.

Source: ours; CockroachDB stops on such jumps, which is more than retention needs.
"""

import logging

from penstock.base.ports import Clock

JUMP_MS = 60_000
"""More than any time service corrects at once on a machine whose clock was about right."""
HOLD_MS = 3_600_000

log = logging.getLogger(__name__)


class RetentionClock:
    """Gives the time for retention; ask at least every few minutes."""

    __slots__ = ("_clock", "_lead_ms", "_since_ms", "jumps")

    def __init__(self, clock: Clock) -> None:
        """Believe what the wall clock says now."""
        self._clock = clock
        self._lead_ms = clock.wall_ms() - clock.monotonic_ms()
        """How far the wall clock that is believed is ahead of the monotonic one."""
        self._since_ms: int | None = None
        """When, by the monotonic clock, a jump was seen that is not believed yet."""
        self.jumps = 0
        """How often the wall clock has jumped ahead."""

    @property
    def is_held(self) -> bool:
        """Whether the wall clock has jumped ahead and is not believed yet."""
        return self._since_ms is not None

    def now_ms(self) -> int:
        """Return the time that records are old by, ms."""
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
                "the wall clock has jumped ahead by %d s: retention does not go by it for %d min",
                jump_ms // 1000,
                HOLD_MS // 60_000,
            )
        elif monotonic_ms - self._since_ms >= HOLD_MS:
            log.warning("the wall clock is %d s ahead: retention goes by it", jump_ms // 1000)
            self._since_ms = None
            self._lead_ms = lead_ms
        return monotonic_ms + self._lead_ms
