"""What a consumer wants of a topic: all messages, those with one of its tags, or by an expression.

    TAG, none   * or empty: all
                a || b: messages whose tag is a or b, exactly; one without a tag is not wanted
    SQL92       messages for which the expression is true (filters/)

Source: RocketMQ `FilterAPI.build`, `ExpressionType`. Departure: the server compares tags and not
their hash codes, so a client has nothing left to sort out.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.remoting.errors import MalformedBody
from penstock.remoting.filters.compiled import CompiledExpressions
from penstock.remoting.filters.verdicts import Judge, MessageFilter, Verdict
from penstock.remoting.system_names import TAGS

_ALL: Final = "*"
_OR: Final = "||"
_TAG: Final = "TAG"
_SQL: Final = "SQL92"
TAGS_MAX: Final = 1_000
"""Tags of an expression; each costs memory for as long as its pull waits."""
TAGS_CHARACTERS_MAX: Final = 256 << 10
"""Of such an expression, before it is taken apart."""


class TagFilter(NamedTuple):
    """The tags that are wanted; None for all messages."""

    tags: frozenset[str] | None = None

    @property
    def work(self) -> int:
        """What judging one message costs, in microseconds: nearly nothing."""
        return 0

    @property
    def wants_all(self) -> bool:
        """Whether no tag is asked for."""
        return self.tags is None

    def judge(self) -> Judge:
        """Return what judges messages."""
        return _wanted if self.tags is None else self._judge

    def _judge(self, properties: Mapping[str, str]) -> Verdict:
        assert self.tags is not None
        return Verdict.WANTED if properties.get(TAGS) in self.tags else Verdict.TAG


class SqlFilter(NamedTuple):
    """The messages for which an expression is true."""

    text: str
    compiled: CompiledExpressions

    @property
    def work(self) -> int:
        """What judging one message costs, in microseconds, about."""
        return self.compiled.get(self.text).work

    @property
    def wants_all(self) -> bool:
        """False: which messages are wanted only the expression says."""
        return False

    def judge(self) -> Judge:
        """Return what judges messages."""
        return self.compiled.get(self.text).judge


EVERYTHING: Final = TagFilter()


def is_by_tags(kind: str) -> bool:
    """Whether expressions of this kind are tags; those without a kind are."""
    return kind in {_TAG, ""}


def read_filter(expression: str, kind: str, compiled: CompiledExpressions) -> MessageFilter:
    """Return the filter of an expression.

    Raises MalformedBody for another kind, for an expression that names no tag or too many, and for
    one of SQL-92 that RocketMQ refuses, too, or that is too long.
    """
    if kind == _SQL:
        sql = SqlFilter(expression, compiled)
        sql.judge()
        return sql
    if not is_by_tags(kind):
        raise MalformedBody(f"expressions of kind {kind[:20]} are not known, use {_TAG} or {_SQL}")
    if expression in {_ALL, ""}:
        return EVERYTHING
    if len(expression) > TAGS_CHARACTERS_MAX:
        raise MalformedBody(f"an expression of {len(expression)} characters")
    tags = [tag for part in expression.split(_OR) if (tag := part.strip())]
    if not 0 < len(tags) <= TAGS_MAX:
        raise MalformedBody(f"an expression of {len(tags)} tags")
    return TagFilter(frozenset(tags))


def _wanted(_: Mapping[str, str]) -> Verdict:
    return Verdict.WANTED
