"""Look-ups for clients that need the disk or long work on a batch: a few at a time, fairly.

    ask ─► waits ─► its turn: addresses go round, then connections of one ─► begin(over) ─► over()
                └─► the client has gone ─► drop()

A few are in progress on the whole node, and never all of them for one address: however many
requests one client has sent, or one machine by many connections, another's look-up waits for one
of those in progress. What a client that has gone asked for is not begun.

A place rests after a look-up, for as long as that took, and longer where others are in progress:
together they work half of the time. Threads that always compute would keep the loop waiting for the
processor and the interpreter's lock.

Who asks counts what waits: its connection is not read meanwhile, and its memory is in the budget of
what clients pin (kafka/look_ups.py). The threads are those of the lane READ, where fetches from the
disk always find some (ADR 0084).

It does not know what is looked up. Source: ours; the round robin of fair queueing (Nagle, RFC 970).
"""

from collections import Counter, deque
from typing import NamedTuple, Protocol

from penstock.base.ports import Clock, Scheduler
from penstock.storage.read.needs_disk import Begin, Drop

AT_ONCE = 2
"""Look-ups in progress; half of a lane's threads, and about as many cores as a loop leaves."""
OF_ADDRESS = 1
"""Of these for one address."""
OF_TIER_AT_ONCE = 1
"""Look-ups that may need the object store: a queue of their own, where one that waits for a slow
store keeps the next one of these waiting and none for the disk."""
QUEUES = AT_ONCE, OF_TIER_AT_ONCE
"""Places of a broker's two queues: for the disk, and for what may need the object store."""
STEPS = 100
"""Look-ups begun or dropped in one turn: those that memory can answer end at once."""

REST_MS_MAX = 100
"""A look-up that waited for a slow disk took no processor."""

assert OF_ADDRESS < AT_ONCE


class Client(Protocol):
    """A connection that asks."""

    client_host: str

    def has_gone(self) -> bool:
        """Whether the peer has closed."""

    def abort(self) -> None:
        """End the connection now; what is queued is lost."""


class _Asked(NamedTuple):
    begin: Begin
    drop: Drop


class LookUps:
    """See the module. A broker has one for the disk, and one for the object store."""

    __slots__ = (
        "_at_once",
        "_clock",
        "_in_progress",
        "_is_due",
        "_of_address",
        "_scheduler",
        "_waiting",
    )

    def __init__(self, scheduler: Scheduler, clock: Clock, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._scheduler = scheduler
        self._clock = clock
        self._waiting: dict[str, dict[Client, deque[_Asked]]] = {}
        """By address and connection, both in the order of their turns; none is empty."""
        self._in_progress = 0
        self._of_address: Counter[str] = Counter()
        self._is_due = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(len(asked) for of in self._waiting.values() for asked in of.values())

    @property
    def in_progress(self) -> int:
        """How many are in progress."""
        return self._in_progress

    def ask(self, client: Client, begin: Begin, drop: Drop) -> None:
        """Call `begin(over)` in a later turn, or `drop()` if the client has gone by then.

        `begin` does not raise; `over` is called once, at once or later.
        """
        of_address = self._waiting.setdefault(client.client_host, {})
        of_address.setdefault(client, deque()).append(_Asked(begin, drop))
        self._give_soon()

    def _give_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self._give)

    def _give(self) -> None:
        self._is_due = False
        for _ in range(STEPS):
            address = self._next_address()
            if address is None:
                return
            self._serve(address)
        self._give_soon()

    def _next_address(self) -> str | None:
        """Return whose turn it is; None while nobody may begin."""
        if self._in_progress >= self._at_once:
            return None
        allowed = (one for one in self._waiting if self._of_address[one] < OF_ADDRESS)
        return next(allowed, None)

    def _serve(self, address: str) -> None:
        """Begin one look-up of the address, or drop those of a client of it; it is last then."""
        clients = self._waiting.pop(address)
        client, asked = next(iter(clients.items()))
        del clients[client]
        has_gone = client.has_gone()
        one = asked.popleft()
        if asked and not has_gone:
            clients[client] = asked
        if clients:
            self._waiting[address] = clients
        if has_gone:
            client.abort()  # it is not read while it waits, and nobody else would notice
            for dropped in (one, *asked):
                dropped.drop()
            return
        self._in_progress += 1
        self._of_address[address] += 1
        begun_ms = self._clock.monotonic_ms()
        one.begin(lambda: self._over(address, begun_ms))

    def _over(self, address: str, begun_ms: int) -> None:
        took_ms = self._clock.monotonic_ms() - begun_ms
        rest_ms = min(took_ms * (2 * self._in_progress - 1), REST_MS_MAX)
        if rest_ms:
            self._scheduler.call_later(rest_ms, lambda: self._free(address))
        else:
            self._free(address)

    def _free(self, address: str) -> None:
        self._in_progress -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
        if self._waiting:
            self._give_soon()
