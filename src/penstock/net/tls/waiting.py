"""Clients that wait to shake hands, and whose turn is next.

    by rank of the address     who has proved who it is, before others, before who has wasted some
    one turn in eight          the other way round, so that nobody waits for ever
    within a rank              addresses go round
    where the first of a rank  every second turn is that of the address that has come last and has
    has waited too long        had none: a crowd that was there before it costs it no wait

Source: ours; round robin (Nagle, RFC 970), and last in, first out under overload.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from penstock.net.tls.addresses import Rank

OTHER_WAY_ROUND = 8
"""One turn in so many is given to the last rank that waits."""
OVERDUE_TICKS = 2
"""Once the first of a rank has been connected for so long, newest and oldest take turns."""


class Waiter(Protocol):
    """A client that waits."""

    host: str
    began_tick: int


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
        self._lanes: list[_Lane[W]] = [_Lane() for _ in Rank]
        self._turn = 0

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(all_) for lane in self._lanes for all_ in lane.by_host.values())

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return any(lane.by_host for lane in self._lanes)

    def add(self, waiter: W, rank: Rank) -> None:
        """Let one more wait, as the last of its address."""
        lane = self._lanes[rank]
        if waiter.host not in lane.by_host:
            lane.by_host[waiter.host] = deque()
            lane.fresh[waiter.host] = None
        lane.by_host[waiter.host].append(waiter)

    def remove(self, waiter: W) -> None:
        """Forget one that may be waiting."""
        for lane in self._lanes:
            of_host = lane.by_host.get(waiter.host)
            if of_host is None or waiter not in of_host:
                continue
            of_host.remove(waiter)
            if not of_host:
                del lane.by_host[waiter.host]
                lane.fresh.pop(waiter.host, None)

    def take(self, may_begin: Callable[[str, Rank], bool], tick: int) -> W | None:
        """Remove and return whose turn it is, if its address may begin one."""
        last_first = self._turn % OTHER_WAY_ROUND == OTHER_WAY_ROUND - 1
        ranks = sorted(Rank, reverse=last_first)
        rank = next((one for one in ranks if self._lanes[one].by_host), None)
        if rank is None:
            return None
        host = self._next_host(self._lanes[rank], tick)
        return self._take(self._lanes[rank], host) if may_begin(host, rank) else None

    @staticmethod
    def _next_host(lane: _Lane[W], tick: int) -> str:
        first = next(iter(lane.by_host))
        is_overdue = tick - lane.by_host[first][0].began_tick >= OVERDUE_TICKS
        if is_overdue and lane.turn % 2 and lane.fresh:
            return next(reversed(lane.fresh))
        return first

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
