"""What a filter says to a message, and what a filter is.

A filter is kept as long as a pull waits, so it has its text alone; its judge is made, or found,
when there are messages.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol


class Verdict(Enum):
    """Whether a message is wanted, and else why not; the value is the name in metrics."""

    WANTED = "wanted"
    TAG = "tag"
    """It has another tag."""
    SQL = "sql"
    """The expression is false or null for it."""
    SQL_ERROR = "sql_error"
    """The expression has no verdict: it compares a number with a property that is none."""


Judge = Callable[[Mapping[str, str]], Verdict]
"""Of the properties of a message."""


class MessageFilter(Protocol):
    """Which messages of a topic a consumer wants."""

    @property
    def wants_all(self) -> bool:
        """Whether each message is wanted, so that none has to be judged."""

    def judge(self) -> Judge:
        """Return what judges messages in this turn of the loop; not to be kept."""

    @property
    def work(self) -> int:
        """About how many microseconds a message costs, beside reading it."""
