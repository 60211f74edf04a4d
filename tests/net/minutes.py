"""A scheduler for what happens once a minute, which ends when a test says so."""

from collections.abc import Callable

from penstock.base.ports import Cancellable
from penstock.net.tls.failed_logins import PERIOD_MS


class Minutes:
    """A scheduler whose time a test ends."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        raise AssertionError("nothing is due at once")

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        assert delay_ms == PERIOD_MS
        self.due.append(callback)
        return self

    def cancel(self) -> None:
        """Nothing is taken back."""

    def end_minute(self) -> None:
        (callback,) = self.due
        self.due.clear()
        callback()
