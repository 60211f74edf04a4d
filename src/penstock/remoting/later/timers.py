"""Times of a message's own, as remoting clients of RocketMQ 5 ask for them.

    TIMER_DELAY_SEC, TIMER_DELAY_MS     so long after it is taken, by the clock of its master
    TIMER_DELIVER_MS                    at that time
    DELAY                               a level: then there is no time beside it

The first of them counts. A time that is over is now; one that is further away than the node takes
is refused. A consumer that sends a message back as a new one leaves its properties as they are and
adds a level: so a level counts before a time.

Source: RocketMQ `HookUtils.checkIfTimerMessage`, `transformTimerMessage`, with its text.
"""

from collections.abc import Mapping
from typing import Final

from penstock.remoting.errors import IllegalMessage
from penstock.remoting.later.delayed import level_of
from penstock.remoting.system_names import DELIVER_MS

DELAY_SECONDS: Final = "TIMER_DELAY_SEC"
DELAY_MS: Final = "TIMER_DELAY_MS"
_NAMES: Final = (DELAY_SECONDS, DELAY_MS, DELIVER_MS)
_DIGITS_MAX: Final = 18
"""Fewer than an int64 may have."""


def is_late(properties: Mapping[str, str]) -> bool:
    """Whether a message asks for a level or for a time. Raises IllegalMessage."""
    return bool(level_of(properties)) or any(name in properties for name in _NAMES)


def until_ms(properties: Mapping[str, str], now_ms: int, most_ms: int) -> int:
    """Return when a message is to be delivered that names no level; 0: at once.

    Raises IllegalMessage for what is no time, and for one that is more than `most_ms` away.
    """
    name = next((one for one in _NAMES if one in properties), None)
    if name is None:
        return 0
    told = _number(name, properties[name])
    if name == DELAY_SECONDS:
        told *= 1_000
    until = told if name == DELIVER_MS else now_ms + told
    if until - now_ms > most_ms:
        why = f"the delay time should not be bigger than the max delay {most_ms}ms"
        raise IllegalMessage(f"timer message illegal, {why}")
    return until if until > now_ms else 0


def _number(name: str, text: str) -> int:
    """Return a number as Java reads a long, if it is no longer than a time can be."""
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX):
        raise IllegalMessage(f"timer message illegal, {name} is no number")
    return int(text)
