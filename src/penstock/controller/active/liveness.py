"""Who lives, as one controller sees it: sessions and heartbeats of brokers.

A broker lives while its newest session is open and was heard within the timeout. A closed session
counts at once. Every controller keeps this, so that the one that becomes active knows already;
a broker that it never heard of gets a full timeout from then on.

Sessions have ids: the close or the heartbeat of an older session changes nothing (RocketMQ #11045
and #11046: a late close evicted a live master). If this process itself was stopped for a while,
nobody was silent: the time is taken out (`tick`), or else whoever comes back from a pause would
evict everybody.

Source: RIP-44 and RocketMQ's heartbeat manager (to every controller, 1 s); KIP-631. It reads no
clock: times come as arguments, in ms of one monotonic clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

NO_SESSION = 0


@dataclass(slots=True, kw_only=True)
class BrokerSession:
    """The newest session of one broker. `incarnation` is empty until its first heartbeat.

    `set_ids` are the replica sets that its heartbeats have named, the open ones of its process.
    """

    session_id: int
    heard_ms: int
    is_open: bool = True
    incarnation: str = ""
    set_ids: set[int] = field(default_factory=set)


class Liveness:
    """The sessions of all brokers that this controller has heard of."""

    __slots__ = ("_sessions", "_tick_ms", "_timeout_ms", "_woke_ms")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}
        self._tick_ms = -1
        self._woke_ms = -timeout_ms

    def opened(self, broker_id: int, session_id: int, now_ms: int) -> None:
        """A session was opened; it takes the place of an older one."""
        self._sessions[broker_id] = BrokerSession(session_id=session_id, heard_ms=now_ms)

    def closed(self, broker_id: int, session_id: int) -> bool:
        """A session was closed. Returns whether it was the newest, so that the broker is dead."""
        session = self._newest(broker_id, session_id)
        if session is None:
            return False
        session.is_open = False
        return True

    def heard(self, broker_id: int, session_id: int, incarnation: str, now_ms: int) -> bool:
        """A heartbeat came. Returns whether it counts: it is of the newest session, and open."""
        session = self._newest(broker_id, session_id)
        if session is None:
            return False
        session.heard_ms = now_ms
        session.incarnation = incarnation
        return True

    def names_first(self, broker_id: int, set_ids: Iterable[int]) -> bool:
        """Take note of the sets that a heartbeat which counts names; whether one is new in it.

        A process that has just opened its log is what an election may have looked for in vain.
        """
        named = self._sessions[broker_id].set_ids
        count = len(named)
        named.update(set_ids)
        return len(named) > count

    def _newest(self, broker_id: int, session_id: int) -> BrokerSession | None:
        session = self._sessions.get(broker_id)
        if session is None or session.session_id != session_id or not session.is_open:
            return None
        return session

    def expect(self, broker_id: int, now_ms: int) -> None:
        """Give a broker that was never heard of a full timeout from now on."""
        if broker_id not in self._sessions:
            self._sessions[broker_id] = BrokerSession(session_id=NO_SESSION, heard_ms=now_ms)

    def is_awaited(self, broker_id: int) -> bool:
        """Whether the broker is within its time to be heard of for the first time."""
        session = self._sessions.get(broker_id)
        return session is not None and session.session_id == NO_SESSION and session.is_open

    def refused(self, broker_id: int) -> None:
        """Nobody listens where the broker should: an awaited one is dead, without more waiting."""
        if self.is_awaited(broker_id):
            self._sessions[broker_id].is_open = False

    def forget(self, broker_id: int) -> None:
        """The broker was removed from the cluster. One that runs has its session: it is told."""
        session = self._sessions.get(broker_id)
        if session is not None and not (session.is_open and session.session_id != NO_SESSION):
            del self._sessions[broker_id]

    def tick(self, now_ms: int, interval_ms: int) -> None:
        """Take note of the time, at least every `interval_ms`; a longer gap was our own pause."""
        paused_ms = now_ms - self._tick_ms - 2 * interval_ms
        if self._tick_ms >= 0 and paused_ms > 0:
            for session in self._sessions.values():
                session.heard_ms = min(now_ms, session.heard_ms + paused_ms)
        if self._is_late(now_ms):
            self._woke_ms = now_ms
        self._tick_ms = now_ms

    def was_asleep(self, now_ms: int) -> bool:
        """Whether this process stood still within the last timeout, half of one or longer.

        It may have been replaced meanwhile and not know it: nobody may rely on its word yet.
        """
        return self._is_late(now_ms) or now_ms - self._woke_ms < self._timeout_ms

    def _is_late(self, now_ms: int) -> bool:
        return self._tick_ms >= 0 and now_ms - self._tick_ms > self._timeout_ms // 2

    def is_live(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker's process lives, or has not had the time to show it."""
        session = self._sessions.get(broker_id)
        if session is None or not session.is_open:
            return False
        return now_ms - session.heard_ms <= self._timeout_ms

    def is_connected(self, broker_id: int, now_ms: int) -> bool:
        """Whether it lives and has a session, so that it can be asked."""
        session = self._sessions.get(broker_id)
        is_there = session is not None and session.session_id != NO_SESSION
        return is_there and self.is_live(broker_id, now_ms)

    def incarnation(self, broker_id: int) -> str:
        """Return the process that the newest session is of, empty while that is unknown."""
        session = self._sessions.get(broker_id)
        return "" if session is None else session.incarnation

    def heard_ms_ago(self, broker_id: int, now_ms: int) -> int:
        """Return how long the broker has been silent, -1 where it never was heard."""
        session = self._sessions.get(broker_id)
        if session is None or session.session_id == NO_SESSION:
            return -1
        return max(0, now_ms - session.heard_ms)
