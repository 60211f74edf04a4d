"""What is known of addresses whose clients shake hands: who goes first when there is a crowd.

    rank 0        a client of the address has proved who it is, and nothing has failed since
    1             nothing is known
    2, 3          so many have asked and were not served, or went before that
    4             more of them, or one that was answered, which costs a signature, and did not go on

A failure takes back a proof before it counts itself: behind a router there are both kinds. A flood
from many addresses has failed often wherever it has been for some seconds, so those who come later
are before all of it. Both tables are bounded, and forget the oldest first.

Source: ours; least attained service first (Kleinrock), reputation of mail servers' greylists.
"""

PROVED, UNKNOWN, LAST = 0, 1, 4
RANKS = range(LAST + 1)
ADDRESSES_MAX = 8_192
"""In each table: some 2 MB in both."""
REMEMBERED_TICKS = 600
"""Seconds. Who comes back later is treated as others are."""


class Addresses:
    """See the module. Ticks are seconds."""

    __slots__ = ("_failed", "_proved")

    def __init__(self) -> None:
        self._proved: dict[str, tuple[int, int]] = {}
        self._failed: dict[str, tuple[int, int]] = {}
        """By address, rank and when: the newest last."""

    def proved(self, host: str, tick: int) -> None:
        """Note that a client of the address has proved who it is."""
        self._failed.pop(host, None)
        _note(self._proved, host, PROVED, tick)

    def failed(self, host: str, tick: int, *, is_answered: bool) -> None:
        """Note that a handshake came to nothing; `is_answered` is whether this side has signed."""
        rank = self.rank(host, tick)
        if self._proved.pop(host, None) is None or rank != PROVED:
            _note(self._failed, host, LAST if is_answered else min(rank + 1, LAST), tick)

    def rank(self, host: str, tick: int) -> int:
        """Return when the address has its turn."""
        rank, since = self._proved.get(host) or self._failed.get(host) or (UNKNOWN, tick)
        return rank if tick - since < REMEMBERED_TICKS else UNKNOWN


def _note(table: dict[str, tuple[int, int]], host: str, rank: int, tick: int) -> None:
    table.pop(host, None)
    table[host] = rank, tick
    if len(table) > ADDRESSES_MAX:
        del table[next(iter(table))]
