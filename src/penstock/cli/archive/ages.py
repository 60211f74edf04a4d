"""How long records are kept, as written on a command line: 5y, 90d, 12h, forever."""

import re

from penstock.base.errors import ConfigError
from penstock.cli.values import quoted

FOREVER = "forever"
_MS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000, "y": 365 * 86_400_000}
_AGE = re.compile(r"([1-9]\d{0,5})([hdwy])", re.ASCII)


def age_ms(text: str) -> int:
    """Return an age in ms; 0 for one without end. Raises ConfigError."""
    if text == FOREVER:
        return 0
    match = _AGE.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--keep {quoted(text)}: write a number and h, d, w or y (of 365 days), such as 5y, or"
            f" {FOREVER}"
        )
    return int(match[1]) * _MS[match[2]]


def age_text(age: int) -> str:
    """Return an age as it is written: in the largest unit of which it is a whole number."""
    if not age:
        return FOREVER
    unit = next(one for one in ("y", "w", "d", "h") if age % _MS[one] == 0 or one == "h")
    return f"{age // _MS[unit]}{unit}"
