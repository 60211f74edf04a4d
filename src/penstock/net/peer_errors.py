"""Errors of peer links, and logging them once rather than with each attempt.

    PeerLinkError
      PeerRefused        one side refuses the other: secret, cluster, purpose, version
      PeerFrameTooLarge  a frame that the other side would not accept

Peers that cannot be reached at all are OSErrors.
"""

import logging
from dataclasses import dataclass

from penstock.base.errors import PlatformError

_LOG_EVERY_SECONDS = 30.0
ADDRESSES_MAX = 200
"""Addresses that are remembered; refusals of others are not logged until some have expired."""
REASONS_MAX = 4
"""Reasons of one address that are logged: it may send a new one each time."""

log = logging.getLogger(__name__)


class PeerLinkError(PlatformError):
    """Any error of links between peers."""


class PeerRefused(PeerLinkError):
    """No link, and a retry is useless until a setting is changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PeerFrameTooLarge(PeerLinkError):
    """Nothing was sent: the other side would close the link."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a frame of {size} bytes; the other side takes {limit}")
        self.size = size
        self.limit = limit


class RefusalLog:
    """Logs a few reasons of each address in half a minute, and later how many it has omitted.

    Addresses are counted rather than claimed identities, which an attacker can choose freely.
    """

    def __init__(self) -> None:
        self._of: dict[str, _Lately] = {}

    def note(
        self, address: str, place: str, reason: str, now_s: float, *, what: str = "refused"
    ) -> bool:
        """Log "peer link `place` `what`: `reason`" if that is due; return whether it was."""
        lately = self._of.get(address)
        if lately is None and len(self._of) >= ADDRESSES_MAX:
            self._of = {key: one for key, one in self._of.items() if one.until_s > now_s}
            if len(self._of) >= ADDRESSES_MAX:
                return False
        if lately is None or now_s >= lately.until_s:
            before = 0 if lately is None else lately.untold
            lately = self._of[address] = _Lately(now_s + _LOG_EVERY_SECONDS, set(), before)
        if reason in lately.told or len(lately.told) >= REASONS_MAX:
            lately.untold += 1
            return False
        more = f" ({lately.untold} more before)" if lately.untold else ""
        lately.told.add(reason)
        lately.untold = 0
        log.warning("peer link %s %s: %s%s", place, what, reason, more)
        return True


@dataclass(slots=True)
class _Lately:
    """What was logged for an address, and how often it was not."""

    until_s: float
    told: set[str]
    untold: int
