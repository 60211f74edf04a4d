"""What a Listener asks about each connection, with what is counted and logged of it.

    a port has somebody ─► wait_seconds ─► accept ─► may_come ─► lets_in ─► came ─► arrived ─► gone
                              └► later        └► refused    └► others give way └► others give way

Decisions are those of Admission and GivingWay; nothing is decided here.
"""

from collections.abc import Callable, Iterable

from penstock.net.admission.admission import Admission
from penstock.net.admission.giving_way import GIVEN_WAY_FOR, GivingWay, Idler
from penstock.net.admission.unproven import Client
from penstock.net.errors import RefuseKind, YieldKind
from penstock.net.limits import NetLimits
from penstock.net.refusal_log import RefusalLog
from penstock.net.stats import NetStats

CONNECTIONS_GONE = 500
"""Connections fewer than there were after which memory is worth giving back: OpenSSL has 20 KiB of
each, which no budget counts."""


class Doorkeeper:
    """See the module. `tick` is the second that the listener is in."""

    def __init__(
        self,
        limits: NetLimits,
        stats: NetStats,
        connections: Callable[[], Iterable[Idler]],
        now: Callable[[], float],
        proved: Callable[[Client], None],
    ) -> None:
        """`now` returns seconds of a clock that does not go back; `proved` is GivingWay's."""
        self.tick = 0
        self._most_open = 0
        """Most connections that there were since `have_gone` was last true."""
        self._stats = stats
        self._now = now
        self._log = RefusalLog()
        self._leaving: set[Idler | Client] = set()
        """Those that have given way, until they are gone: their places are taken already."""
        self._admission = Admission(limits, now())
        self.giving_way = GivingWay(connections, self._gave_way, proved)
        self.go_by(limits, limits.connections_max)

    @property
    def open_count(self) -> int:
        """Open connections, from being accepted on until they are gone."""
        return self._admission.open_count + len(self._leaving)

    def go_by(self, limits: NetLimits, most: int) -> None:
        """Go by other limits, with `most` connections in all; nobody is closed for that."""
        self._admission.go_by(limits, most, self._now())
        self.giving_way.go_by(limits, most)

    def wait_seconds(self, listener: str) -> float:
        """Return for how long a port at which somebody waits accepts nothing; 0: it accepts."""
        seconds, kind = self._admission.wait(listener, self._now())
        if seconds:
            self._stats.waits_at[listener, kind] += 1
            self._log.note(kind, "", self.tick, listener)
        return seconds

    def waited(self, listener: str, seconds: float) -> None:
        """Count for how long a port has accepted nothing, which a busy loop makes longer."""
        self._stats.waited_seconds_at[listener] += seconds

    def may_accept(self, listener: str) -> bool:
        """Whether the rates permit one more connection now."""
        return not self._admission.wait(listener, self._now())[0]

    def may_come(self, listener: str, address: str) -> bool:
        """Whether the limits of its address permit a connection that was accepted."""
        self._admission.tried(listener, address, self._now())
        refusal = self._admission.refusal(listener, address)
        if refusal is None or refusal in GIVEN_WAY_FOR:
            return True
        self.refused(refusal, listener, address)
        return False

    def lets_in(self, listener: str, address: str) -> bool:
        """Whether there is a place for a connection that may come, maybe another one's."""
        refusal = self._admission.refusal(listener, address)
        if refusal is None or self.giving_way.make_room(refusal, listener):
            return True
        self.refused(refusal, listener, address)
        return False

    def refused(self, kind: RefuseKind, listener: str, address: str) -> None:
        """Count a connection that was refused."""
        self._stats.refused[kind] += 1
        self._stats.refused_at[listener, kind] += 1
        self._log.note(kind, address, self.tick, listener)

    def came(self, listener: str, address: str) -> None:
        """Count a connection that was let in."""
        self._stats.accepted += 1
        self._admission.came(listener, address)
        self._stats.open_at[listener] += 1

    def gone(self, client: Client) -> None:
        """Count a connection no more, whatever it came to."""
        self.giving_way.left(client)
        self._stats.open_at[client.listener_name] -= 1
        if client in self._leaving:
            self._leaving.remove(client)
        else:
            self._admission.gone(client.listener_name, client.client_host)

    def have_gone(self) -> bool:
        """Whether many connections have gone since this was last true; asked once a second."""
        count = self.open_count
        self._most_open = max(self._most_open, count)
        if self._most_open - count < CONNECTIONS_GONE:
            return False
        self._most_open = count
        return True

    def sweep(self, tick: int, bytes_max: int) -> None:
        """Begin a second: end clients that have not proved who they are in time, or that hold more
        than `bytes_max` together.
        """
        self.tick = tick
        self._admission.next_second()
        counts = self.giving_way.sweep(tick, bytes_max)
        for listener in self._stats.open_at:
            self._stats.unproven_at[listener] = counts.get(listener, 0)
        self._log.tell_due(tick)

    def _gave_way(self, kind: YieldKind, client: Idler | Client) -> None:
        listener, address = client.listener_name, client.client_host
        self._admission.gone(listener, address)
        self._leaving.add(client)
        self._stats.gave_way_at[listener, kind] += 1
        self._log.note(kind, address, self.tick, listener)
