"""Clients that wait to shake hands, and whose turn is next.

    by rank of the address     who has proved who it is first, who has failed most last
    one turn in eight          the other way round, so that nobody waits for ever
    within a rank              addresses go round
    where a crowd waits        every second turn of a rank is that of the address that has come last
                               and has had none: those who were there before it cost it no wait

Source: ours; round robin (Nagle, RFC 970), and last in, first out under overload.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from penstock.net.tls.addresses import RANKS

OTHER_WAY_ROUND = 8
"""One turn in so many is given to the last rank that waits."""
CROWD = 64
"""Addresses of a rank beyond which the newest and the oldest take turns: a fraction of a second."""


class Waiter(Protocol):
    """A client that waits."""

    host: str


W = TypeVar("W", bound=Waiter)


class _Lane(Generic[W]):
    """Those of one rank."""

    __slots__ = ("by_host", "fresh", "turn")

    def __init__(self) -> None:
        self.by_host: dict[str, deque[W]] = {}
        """Whose turn is next first; none is empty."""
        self.fresh: dict[str, None] = {}
        """Addresses that have had no turn since they wait, the newest last."""
        self.turn = 0


class Waiting(Generic[W]):
    """See the module."""

    __slots__ = ("_lanes", "_turn")

    def __init__(self) -> None:
        self._lanes: list[_Lane[W]] = [_Lane() for _ in RANKS]
        self._turn = 0

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(all_) for lane in self._lanes for all_ in lane.by_host.values())

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return any(lane.by_host for lane in self._lanes)

    def add(self, waiter: W, rank: int) -> None:
        """Let one more wait, as the last of its address."""
        lane = self._lanes[rank]
        if waiter.host not in lane.by_host:
            lane.by_host[waiter.host] = deque()
            lane.fresh[waiter.host] = None
        lane.by_host[waiter.host].append(waiter)

    def remove(self, waiter: W) -> bool:
        """Forget one, and say whether it was waiting."""
        for lane in self._lanes:
            of_host = lane.by_host.get(waiter.host, ())
            if waiter in of_host:
                lane.by_host[waiter.host].remove(waiter)
                if not of_host:
                    del lane.by_host[waiter.host]
                    lane.fresh.pop(waiter.host, None)
                return True
        return False

    def take(self, may_begin: Callable[[str, int], bool]) -> W | None:
        """Remove and return whose turn it is, if its address may begin one."""
        last_first = self._turn % OTHER_WAY_ROUND == OTHER_WAY_ROUND - 1
        ranks = reversed(RANKS) if last_first else RANKS
        rank = next((one for one in ranks if self._lanes[one].by_host), None)
        if rank is None:
            return None
        host = self._next_host(self._lanes[rank])
        return self._take(self._lanes[rank], host) if may_begin(host, rank) else None

    @staticmethod
    def _next_host(lane: _Lane[W]) -> str:
        if len(lane.by_host) > CROWD and lane.turn % 2 and lane.fresh:
            return next(reversed(lane.fresh))
        return next(iter(lane.by_host))

    def _take(self, lane: _Lane[W], host: str) -> W:
        """Take the next of an address, which is last in the order from here on."""
        self._turn += 1
        lane.turn += 1
        lane.fresh.pop(host, None)
        of_host = lane.by_host.pop(host)
        waiter = of_host.popleft()
        if of_host:
            lane.by_host[host] = of_host
        return waiter
