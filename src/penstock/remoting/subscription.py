"""What a consumer wants of a topic: all messages, or those with one of its tags.

    *, empty        all
    a || b          messages whose tag is a or b, exactly; one without a tag is not wanted

Source: RocketMQ `FilterAPI.buildSubscriptionData`, `ExpressionType`. Departure: the server compares
tags and not their hash codes, so a client has nothing left to sort out. SQL-92 is not there yet.
"""

from typing import Final, NamedTuple

from penstock.remoting.errors import MalformedBody

_ALL: Final = "*"
_OR: Final = "||"
_TAG: Final = "TAG"
TAGS_MAX: Final = 1_000
"""Tags of an expression; each costs memory for as long as its pull waits."""


class TagFilter(NamedTuple):
    """The tags that are wanted; None for all messages."""

    tags: frozenset[str] | None = None

    def wants(self, tag: str | None) -> bool:
        """Whether a message with this tag is wanted; None is a message without one."""
        return self.tags is None or tag in self.tags


def read_filter(expression: str, kind: str = _TAG) -> TagFilter:
    """Return the filter of an expression.

    Raises MalformedBody for another kind, and for an expression that names no tag or too many.
    """
    if kind not in {_TAG, ""}:
        raise MalformedBody(f"expressions of kind {kind[:20]} are not supported, use {_TAG}")
    if expression in {_ALL, ""}:
        return TagFilter()
    tags = [tag for part in expression.split(_OR) if (tag := part.strip())]
    if not 0 < len(tags) <= TAGS_MAX:
        raise MalformedBody(f"an expression of {len(tags)} tags")
    return TagFilter(frozenset(tags))
