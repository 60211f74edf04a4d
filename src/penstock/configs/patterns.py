"""Regular expressions that are configured, in time linear in what they are compared with.

Source: Kafka 4.5 `ClientMatchPattern` (RE2/J); RE2's syntax.
"""

from typing import Final, Protocol

import re2

PATTERN_CHARACTERS_MAX: Final = 256
_MEMORY_BYTES: Final = 1 << 18
"""Of one compiled expression; RE2 refuses those that need more."""


class Pattern(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str, /) -> object:
        """Return something where the whole text matches, else None."""


def compiled_pattern(text: str) -> Pattern:
    """Return the compiled form of an expression. Raises ValueError, which says why it has none."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"a pattern has {PATTERN_CHARACTERS_MAX} characters at most")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        made: Pattern = re2.compile(text, options)
    except re2.error as error:
        why = error.args[0] if error.args else "not understood"
        reason = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise ValueError(f"{text[:100]!r} is no regular expression of RE2: {reason}") from error
    return made
