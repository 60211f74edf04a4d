"""Expressions that are compiled, so many as a bound of memory permits; the oldest go first.

    text ──► found, or compiled (some ms at most) ──► judges messages

Waiting pulls and members of groups keep texts; what is compiled is here alone. It takes up to 130
times the memory of its text, so it would be nobody's if each pull had its own.

Source: ours. RocketMQ keeps one hundred parsed expressions (`SelectorParser.PARSE_CACHE`), and
those of its consumers without a bound.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.remoting.filters.parser import Parsed, parse
from penstock.remoting.filters.parts import Evaluate
from penstock.remoting.filters.values import NoVerdict
from penstock.remoting.filters.verdicts import Verdict

BYTES_MAX: Final = 1 << 20
"""Where nobody has said more: 400 expressions of usual length, or one of the longest."""
EXPRESSION_BYTES: Final = 2_500
TOKEN_BYTES: Final = 350
MEMBER_BYTES: Final = 160
CHARACTER_BYTES: Final = 8
"""Upper bounds of memory: of an expression, of each token, of each text of IN, of a character."""
SEARCH_WORK: Final = 4
"""A CONTAINS counts as so many tokens."""


class Compiled(NamedTuple):
    """An expression that judges messages."""

    evaluate: Evaluate
    work: int
    size: int

    def judge(self, properties: Mapping[str, str]) -> Verdict:
        """Judge a message by its properties."""
        try:
            is_wanted = self.evaluate(properties) is True
        except NoVerdict:
            return Verdict.SQL_ERROR
        return Verdict.WANTED if is_wanted else Verdict.SQL


class CompiledExpressions:
    """See the module; one for each front."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes_now = 0
        self._found: OrderedDict[str, Compiled] = OrderedDict()

    @property
    def count(self) -> int:
        """Expressions that are kept."""
        return len(self._found)

    def get(self, text: str) -> Compiled:
        """Return an expression. Raises MalformedBody for a text that is none."""
        found = self._found.get(text)
        if found is not None:
            self._found.move_to_end(text)
            return found
        found = _compiled(text, parse(text))
        if found.size <= self.bytes_max:
            self._found[text] = found
            self.bytes_now += found.size
        while self.bytes_now > self.bytes_max:
            _, gone = self._found.popitem(last=False)
            self.bytes_now -= gone.size
        return found


def _compiled(text: str, parsed: Parsed) -> Compiled:
    size = EXPRESSION_BYTES + CHARACTER_BYTES * len(text)
    size += TOKEN_BYTES * parsed.tokens + MEMBER_BYTES * parsed.members
    work = 1 + parsed.tokens // 2 + SEARCH_WORK * parsed.searches
    return Compiled(parsed.part.evaluate, work, size)
