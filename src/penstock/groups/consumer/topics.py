"""The topics whose names match a regular expression that members subscribe by.

Source: KIP-848.
"""

import functools
from collections.abc import Iterable

import re2

from penstock.base.ports import Clock
from penstock.coordinator.portions import Steps

REGEX_CHARACTERS_MAX = 256
_REGEX_MEMORY_BYTES = 1 << 18
"""Memory of one compiled expression; RE2 refuses those that need more."""
NAMES_TOGETHER, STEP_US = 100, 1_000
"""Most names matched per step, about 1 us each, and when a step ends before."""
REFUSALS_KEPT = 256
"""Expressions whose outcome is remembered: refusing one takes longer than compiling one."""


class InvalidRegex(Exception):
    """A regular expression that RE2 does not take; the text says why."""


def compiled(regex: str) -> "re2._Regexp[str]":
    """Return the compiled form of an expression. Raises InvalidRegex.

    RE2 needs time linear in the length of a name, whatever the expression.
    """
    made = _compiled(regex)
    if isinstance(made, str):
        raise InvalidRegex(made)
    return made


@functools.lru_cache(maxsize=REFUSALS_KEPT)
def _compiled(regex: str) -> "re2._Regexp[str] | str":
    """Return the compiled form, or why there is none."""
    if len(regex) > REGEX_CHARACTERS_MAX:
        return f"{len(regex)} characters, at most {REGEX_CHARACTERS_MAX} are taken"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _REGEX_MEMORY_BYTES
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not understood"
        return _text(reason)


def _text(reason: object) -> str:
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def matching(regex: str, names: Iterable[str], found: list[str], clock: Clock) -> Steps:
    """Append the names that match as a whole to `found`, for about a millisecond per step; sort.

    Some expressions take a hundred times as long as others, so the steps go by the clock.
    """
    pattern = compiled(regex)
    began_us = clock.monotonic_us()
    for number, name in enumerate([*names], start=1):
        if pattern.fullmatch(name):
            found.append(name)
        took_us = clock.monotonic_us() - began_us
        if took_us >= STEP_US or number % NAMES_TOGETHER == 0:
            yield max(NAMES_TOGETHER // 10, took_us // 10)
            began_us = clock.monotonic_us()
    found.sort()
