"""An independent count of when an internal partition is due for a rewrite.

After a rewrite that freed nothing, the next 1, 2, 4, ... 64 checks are skipped.
"""

from dataclasses import dataclass

WAIT_MAX = 64


@dataclass(slots=True)
class RewriteTimes:
    """What was appended to one partition since its last rewrite."""

    threshold_bytes: int
    appended_bytes: int = 0
    live_bytes: int = 0
    failures: int = 0
    wait: int = 0

    def forget(self) -> None:
        """It is read anew."""
        self.appended_bytes = self.live_bytes = self.failures = self.wait = 0

    def appended(self, size_bytes: int) -> None:
        """Take note of more."""
        self.appended_bytes += size_bytes

    def rewritten(self, live_bytes: int) -> None:
        """Take note of a rewrite."""
        self.forget()
        self.live_bytes = live_bytes

    def failed(self) -> None:
        """Take note of a rewrite that cut nothing off."""
        self.wait = min(2**self.failures, WAIT_MAX)
        self.failures += 1

    def is_due(self) -> bool:
        """Ask once; that is one of the times that are waited for."""
        is_grown = self.appended_bytes >= max(self.threshold_bytes, self.live_bytes)
        is_over = self.wait == 0
        self.wait = max(0, self.wait - 1)
        return is_grown and is_over
