"""Why a mastership began, or ended: what stands in records, metrics and status.

A cause is decided by; its detail is for people and is not read. The texts stand in logs for ever.

Source: our own. Releases before wrote one text for both, "cause: detail".
"""

from enum import StrEnum


class Cause(StrEnum):
    """Why a set has the master that it has, or none."""

    UNKNOWN = ""
    """Of a release that did not say, or that said what this one does not know."""
    FIRST = "first"
    """The set's first mastership."""
    EVICTION = "eviction"
    """The master was found dead."""
    FAILED = "log failed"
    """The master said that its log takes no more writes."""
    RETURN = "return"
    """The set had no master, and somebody who can lead it is back."""
    OPERATOR = "operator"
    """An operator asked for an election."""
    UNCLEAN = "unclean"
    """Elected from members that may lack records, which are cut off everywhere then."""
    TRANSFER = "transfer"
    """An operator moved the mastership."""
    PREFERRED = "preferred"
    """The preferred master got its set back."""
    DRAIN = "drain"
    """The master is to have no duties."""
    RESTART = "restart"
    """The master's process is a new one: it leads nothing until it is elected again."""
    LOG_LOST = "log lost"
    """The master came with another log."""
    OWN_CONTROLLER = "start"
    """A node that is its own controller took its set, or gave it up."""


def read_old(text: str) -> tuple[Cause, str]:
    """Return cause and detail of a text that an older release wrote."""
    name, _, detail = text.partition(": ")
    try:
        return Cause(name), detail
    except ValueError:
        return Cause.UNKNOWN, text
