"""Why a mastership began or ended, as in records, metrics and status.

Code decides by the cause; the detail is for people and is never parsed. The texts are permanent:
they are in metadata logs.

Source: our own. Earlier releases wrote one text for both, "cause: detail".
"""

from enum import StrEnum


class Cause(StrEnum):
    """Why a set has its current master, or none."""

    UNKNOWN = ""
    """Written by a release without causes, or with a cause that this release does not know."""
    FIRST = "first"
    """The set's first mastership."""
    EVICTION = "eviction"
    """The master was found dead."""
    FAILED = "log failed"
    """The master reported that its log has failed."""
    RETURN = "return"
    """The set had no master, and a member that can lead it is back."""
    OPERATOR = "operator"
    """An operator asked for an election."""
    UNCLEAN = "unclean"
    """Elected from members that may lack records; other members are truncated to its log."""
    TRANSFER = "transfer"
    """An operator moved the mastership."""
    PREFERRED = "preferred"
    """The set was moved back to its preferred master."""
    DRAIN = "drain"
    """The master was drained, was shutting down, or is to leave the set."""
    RESTART = "restart"
    """The master's process was restarted: it leads nothing until it is elected again."""
    LOG_LOST = "log lost"
    """The master registered another log: it has lost the earlier one."""
    OWN_CONTROLLER = "start"
    """A node that is its own controller began, or ended, the mastership of its set."""


def read_old(text: str) -> tuple[Cause, str]:
    """Return cause and detail of a text written by an older release."""
    name, _, detail = text.partition(": ")
    try:
        return Cause(name), detail
    except ValueError:
        return Cause.UNKNOWN, text
