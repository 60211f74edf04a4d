"""Answers of groups that keep the order, for who asks again under the same attempt id.

A call whose answer is lost leaves its messages with nobody, and what is behind them in their
message groups waits for their time to end. Clients give such a call an id, and ask again with it:
they get the same answer, with the same receipts, as long as its messages are theirs and nothing was
said of them.

    answered ─► kept ─► asked again: the same ─► acknowledged, given back, time over: forgotten

All of this is in memory: after a failover messages come again when their time ends.

Source: RocketMQ `ConsumerOrderInfoManager` (attemptId), which keeps it for each queue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition
    from penstock.shares.state import ShareKey

ATTEMPTS_MAX: Final = 2_000
BYTES_MAX: Final = 16 << 20
"""Of all answers together; the oldest ones are forgotten first."""
ID_CHARS_MAX: Final = 255


class Attempt(NamedTuple):
    """Who asks for what."""

    client_id: str
    group: str
    topic: str
    attempt_id: str


class Kept(NamedTuple):
    """An answer."""

    hosted: HostedPartition
    place: tuple[ShareKey, int]
    """The share, and the number of the hand-out."""
    messages: Sequence[bytes]
    until_ms: int
    """When the time of its messages ends."""


class Attempts:
    """See the module; one for each node. Times are monotonic."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Attempt, Kept] = OrderedDict()
        self._of: dict[tuple[ShareKey, int], Attempt] = {}
        self.bytes_now = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, attempt: Attempt, kept: Kept) -> None:
        """Keep an answer, in place of what was kept for the attempt before."""
        self._forget(attempt)
        self._kept[attempt] = kept
        self._of[kept.place] = attempt
        self.bytes_now += sum(map(len, kept.messages))
        while len(self._kept) > ATTEMPTS_MAX or self.bytes_now > BYTES_MAX:
            self._forget(next(iter(self._kept)))

    def again(self, attempt: Attempt, now_ms: int) -> Kept | None:
        """Return the answer of an attempt; None if there is none, or none that is good any more."""
        kept = self._kept.get(attempt)
        if kept is None:
            return None
        if now_ms < kept.until_ms and _is_led(kept.hosted):
            return kept
        self._forget(attempt)
        return None

    def said(self, key: ShareKey, nonce: int) -> None:
        """Forget an answer: its client has it, since it says what becomes of a message."""
        attempt = self._of.get((key, nonce))
        if attempt is not None:
            self._forget(attempt)

    def leave(self, client_id: str) -> None:
        """Forget the answers of a client that ends: it gives back what it has."""
        for attempt in [one for one in self._kept if one.client_id == client_id]:
            self._forget(attempt)

    def _forget(self, attempt: Attempt) -> None:
        kept = self._kept.pop(attempt, None)
        if kept is not None:
            del self._of[kept.place]
            self.bytes_now -= sum(map(len, kept.messages))


def _is_led(hosted: HostedPartition) -> bool:
    try:
        hosted.check_still_led()
    except PlatformError:
        return False
    return True
