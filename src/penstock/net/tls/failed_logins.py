"""Logs who was not let in, and why, within bounds.

    the first of a minute       a line each, LINES_MAX in all and LINES_OF_ADDRESS of an address
    further ones                counted; one line with the number when the minute is over

Anybody who reaches a port can fail there, thousands of times a second.

Source: ours; broker/denials.py does so for what is denied to those who are known.
"""

import logging
from collections import Counter
from typing import Final

from penstock.base.ports import Scheduler

LINES_MAX: Final = 100
LINES_OF_ADDRESS: Final = 10
"""So that one address leaves lines for the others."""
PERIOD_MS: Final = 60_000
ADDRESSES_MAX: Final = 1_000
"""Addresses without a line that are counted by themselves; of further ones the number is known."""

log = logging.getLogger(__name__)


class FailedLogins:
    """See the module; one for each listener, or for several."""

    __slots__ = ("_left_out", "_lines", "_lines_of", "_others", "_scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lines = 0
        self._lines_of: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        """Without a line, by address."""
        self._others = 0
        """The same, of addresses beyond ADDRESSES_MAX."""

    def note(self, address: str, why: str) -> None:
        """Log that a client was not let in, or count it."""
        if not self._lines:
            self._scheduler.call_later(PERIOD_MS, self._end)
        if self._lines < LINES_MAX and self._lines_of[address] < LINES_OF_ADDRESS:
            self._lines += 1
            self._lines_of[address] += 1
            log.info("client=%s %s", address, why)
        elif address in self._left_out or len(self._left_out) < ADDRESSES_MAX:
            self._left_out[address] += 1
        else:
            self._others += 1

    def _end(self) -> None:
        """Tell of those without a line, as the minute is over."""
        if self._left_out:
            ((worst, most),) = self._left_out.most_common(1)
            count = self._left_out.total() + self._others
            log.warning("not let in, without a line each: %d, most from %s=%d", count, worst, most)
        self._lines = self._others = 0
        self._lines_of.clear()
        self._left_out.clear()
