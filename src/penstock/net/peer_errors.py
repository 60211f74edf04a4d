"""What can be wrong with a peer link, and saying so once rather than with each attempt.

    PeerLinkError
      PeerRefused        one side does not want the other: secret, cluster, purpose, version
      PeerFrameTooLarge  a frame that the other side would not take

Peers that can not be reached at all are OSErrors.
"""

import logging

from penstock.base.errors import PlatformError

_LOG_EVERY_SECONDS = 30.0
_REMEMBERED_MAX = 200

log = logging.getLogger(__name__)


class PeerLinkError(PlatformError):
    """Anything about links between peers."""


class PeerRefused(PeerLinkError):
    """No link, and trying again changes nothing until somebody changes a setting."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PeerFrameTooLarge(PeerLinkError):
    """Nothing was sent: the other side would end the link."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a frame of {size} bytes; the other side takes {limit}")
        self.size = size
        self.limit = limit


class RefusalLog:
    """Writes a refusal to the log at most every 30 seconds for each place and reason."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], float] = {}

    def note(self, place: str, reason: str, now_s: float) -> bool:
        """Log the refusal unless it was logged lately; returns whether it was."""
        seen = (place, reason)
        if now_s < self._due.get(seen, now_s):
            return False
        if len(self._due) >= _REMEMBERED_MAX:
            self._due = {key: due for key, due in self._due.items() if due > now_s}
            if len(self._due) >= _REMEMBERED_MAX:
                return False
        self._due[seen] = now_s + _LOG_EVERY_SECONDS
        log.warning("peer link %s refused: %s", place, reason)
        return True
