"""What is known of addresses whose clients shake hands: whose have proved who they are, lately.

    proved     a client of the address has proved who it is since it last left a handshake
    wasted     a handshake of it was begun, which costs a signature, and came to nothing
    (neither)  nothing is known, or one of each

What has happened last counts, and a waste takes back a proof before it counts itself: behind a
router there are both kinds. Both tables are bounded, and forget the oldest first.

Source: ours; the reputation of mail servers' greylists.
"""

from enum import IntEnum

ADDRESSES_MAX = 8_192
"""In each table: some 2 MB in both."""
REMEMBERED_TICKS = 600
"""Seconds. Who comes back later is treated as others are."""


class Rank(IntEnum):
    """Who shakes hands first."""

    PROVED = 0
    UNKNOWN = 1
    WASTED = 2


class Addresses:
    """See the module. Ticks are seconds."""

    __slots__ = ("_proved", "_wasted")

    def __init__(self) -> None:
        self._proved: dict[str, int] = {}
        self._wasted: dict[str, int] = {}
        """By address, when: the newest last."""

    def proved(self, host: str, tick: int) -> None:
        """Note that a client of the address has proved who it is."""
        self._wasted.pop(host, None)
        _note(self._proved, host, tick)

    def wasted(self, host: str, tick: int) -> None:
        """Note that a client has had this side sign, and has not gone on."""
        since = self._proved.pop(host, None)
        if since is None or tick - since > REMEMBERED_TICKS:
            _note(self._wasted, host, tick)

    def rank(self, host: str, tick: int) -> Rank:
        """Return when the address has its turn."""
        due = tick - REMEMBERED_TICKS
        if self._proved.get(host, due) > due:
            return Rank.PROVED
        return Rank.WASTED if self._wasted.get(host, due) > due else Rank.UNKNOWN


def _note(table: dict[str, int], host: str, tick: int) -> None:
    table.pop(host, None)
    table[host] = tick
    if len(table) > ADDRESSES_MAX:
        del table[next(iter(table))]
