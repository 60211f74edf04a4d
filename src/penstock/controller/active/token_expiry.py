"""Delegation tokens that are over are removed by the active controller.

Source: Kafka `QuorumController` (maybeScheduleNextExpiredDelegationTokenSweep), which looks once an
hour by default. A token that is over lets nobody in before it is removed either.
"""

from penstock.controller.active.context import ActiveContext
from penstock.controller.commands.delegation.commands import RemoveExpiredTokens


class TokenExpiry:
    """See the module. One removal is under way at a time."""

    def __init__(self, context: ActiveContext) -> None:
        self._context = context
        self._not_before_ms = 0

    def forget(self) -> None:
        """Look at once when this controller leads again."""
        self._not_before_ms = 0

    def look(self) -> None:
        """Remove what is over, if it is time to look."""
        context = self._context
        if context.now_ms < self._not_before_ms:
            return
        self._not_before_ms = (
            context.now_ms + context.config.delegation_token_expiry_check_interval_ms
        )
        wall_ms = context.clock.wall_ms()
        if any(one.is_over(wall_ms) for one in context.image.configuration.tokens.values()):
            context.submit(RemoveExpiredTokens(), self._on_removed)

    def _on_removed(self, answer: object) -> None:
        """Go on soon where there may be more; an error waits for the next look."""
        if isinstance(answer, int) and answer > 0:
            self._not_before_ms = 0
