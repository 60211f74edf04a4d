"""When producers are asked about half messages, and how many there may be.

Source: RocketMQ `BrokerConfig`: `transactionTimeOut` 6 s, `transactionCheckInterval` 30 s,
`transactionCheckMax` 15; it gives up without a trace after `fileReservedTime`, 72 h.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.remoting.errors import IllegalMessage

IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
KEPT_MS: Final = 72 * 3_600_000
"""A half message that nobody was asked about, as no producer of its group lives, is discarded."""
ABSENT_MS: Final = 5_000
"""No producer of the group is here, or takes anything: looked for again after so long. It is no
check: none was sent."""
HALVES_MAX: Final = 100_000
"""Half messages that wait in the sets that are led here, 50 MB of memory."""
OF_TOPIC_MAX: Final = 75_000
"""Of them those for one topic, so that who may write to it leaves room for others."""
OF_GROUP_MAX: Final = 20_000
"""Of one producer group for one topic, in one set."""
CHECKS_A_LOOK: Final = 100
"""Ten looks a second: 1,000 checks."""
LOOKED_AT: Final = 1_000
"""Half messages that are looked at in one turn: a few milliseconds."""
MOVED_BEHIND: Final = 100_000
"""A half message with so many records behind it moves to the end: what a new master reads is no
more than these, and disks are freed."""
_DIGITS_MAX: Final = 10


class Times(NamedTuple):
    """Settings of checks."""

    first_ms: int = 6_000
    interval_ms: int = 30_000
    checks_max: int = 15

    def first_check_ms(self, properties: Mapping[str, str]) -> int:
        """Return after how long a message is checked. Raises IllegalMessage.

        As with RocketMQ: what it says itself, in seconds; below 0 it says nothing.
        """
        text = properties.get(IMMUNITY)
        if text is None or text == "-1":
            return self.first_ms
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
            raise IllegalMessage(f"{IMMUNITY} is no number of seconds")
        return min(int(text) * 1_000, KEPT_MS)
