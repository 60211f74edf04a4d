"""Whether shares may begin, as a share fetch asks: a port, which admissions.py is behind.

Source: ADR 0105.
"""

from typing import Protocol

from penstock.base.ids import LeaderEpoch
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.state import ShareKey


class MayBegin(Protocol):
    """What the coordinators of groups have said of the shares of this broker's data."""

    def of(self, key: ShareKey, leader_epoch: LeaderEpoch) -> ErrorCode | None:
        """Return NONE if a share may begin, or why not; None while that is asked.

        Those who watch the share are told when it was answered, or was not in time.
        """

    def take(self, key: ShareKey, leader_epoch: LeaderEpoch) -> bool:
        """Return whether a share may begin now, in this turn; it is asked again for the next."""
