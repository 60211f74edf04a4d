"""What is known of a delegation token, and whether a broker may let it in.

    never      before it was made, or after the last time until which it may have been good
    must       where its last acknowledged state is known, before that state's end
    must not   where it is known that it was removed, or is over

A change without an answer may come later, so that a token has several possible states. Wall clocks
agree but for `SLACK_MS`; that is also how long an exchange may take.

Source: KIP-48; ADR 0118 (one that is over lets nobody in, removed or not).
"""

from dataclasses import dataclass, field

SLACK_MS = 50
REMOVED = 0
"""Until when a token is good that is gone."""


@dataclass(slots=True, kw_only=True)
class Token:
    """One token. Times are milliseconds of wall clocks."""

    token_id: str
    proof: bytes
    ends_ms: int
    expires_ms: int
    """By the last change that was acknowledged."""
    loose: set[int] = field(default_factory=set)
    """Until when it may be good by changes without an answer."""
    latest_ms: int = 0
    """Until when it may ever have been good."""

    def __post_init__(self) -> None:
        """It was good from the beginning."""
        self.latest_ms = self.expires_ms

    @property
    def may_be(self) -> set[int]:
        """Until when it may be good, by all that was asked for."""
        return {self.expires_ms, *self.loose}

    def changed(self, expires_ms: int) -> None:
        """Note a change that was acknowledged."""
        self.expires_ms = expires_ms
        self.latest_ms = max(self.latest_ms, expires_ms)

    def asked(self, expires_ms: int) -> None:
        """Note one that nobody has answered: it may be good for so long."""
        self.loose.add(expires_ms)
        self.latest_ms = max(self.latest_ms, expires_ms)

    def wrong_login(
        self, *, is_let_in: bool, began_ms: int, ended_ms: int, is_followed: bool
    ) -> str:
        """Say what is wrong with a login that took from `began_ms` to `ended_ms`; or nothing.

        `is_followed`: the broker has followed all that was acknowledged.
        """
        if is_let_in and began_ms > self.latest_ms + SLACK_MS:
            return f"is let in {began_ms - self.latest_ms} ms after its end"
        if not is_followed:
            return ""
        if is_let_in and began_ms > max(self.may_be) + SLACK_MS:
            return "is let in where it is known to be over or gone"
        if not is_let_in and ended_ms < min(self.may_be) - SLACK_MS:
            return "is not let in where it is known and good"
        return ""

    def wrong_description(self, told_ms: int | None, *, now_ms: int) -> str:
        """Say what is wrong with what a broker that has followed tells of it; or nothing.

        `told_ms`: until when it is good; None: there is no such token. One that is over is removed
        at some time.
        """
        if told_ms is None:
            is_lost = min(self.may_be) > now_ms + SLACK_MS
            return f"is not told, and good until {min(self.may_be)}" if is_lost else ""
        if not self.loose and told_ms != self.expires_ms:
            return f"is told to be good until {told_ms}, and not until {self.expires_ms}"
        return ""
