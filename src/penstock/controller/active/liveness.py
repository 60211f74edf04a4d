"""Liveness of brokers, as one controller sees it by their sessions and heartbeats.

A broker is alive while its newest session is open and had a heartbeat within the timeout. A closed
session makes it dead at once. Every controller tracks this, so that the one that becomes active
knows it already; a broker without any session gets a full timeout from then on.

Sessions have ids: the close or the heartbeat of an older session changes nothing (RocketMQ #11045
and #11046: a late close evicted a live master). If this process itself was suspended, that time
does not count as silence of the brokers (`excuse`): otherwise it would fence all of them on
resuming.

Source: RIP-44 and RocketMQ's heartbeat manager (to every controller, 1 s); KIP-631. It reads no
clock: times come as arguments, in ms of one monotonic clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.base.ids import BrokerId, ReplicaSetId, SessionId
from penstock.controller.active.own_pauses import OwnPauses

NO_SESSION = SessionId(0)


@dataclass(slots=True, kw_only=True)
class BrokerSession:
    """The newest session of one broker. `incarnation` is empty until its first heartbeat.

    `set_ids` are the replica sets that its heartbeats have named, the open ones of its process.
    """

    session_id: SessionId
    heard_ms: int
    is_open: bool = True
    incarnation: str = ""
    set_ids: set[ReplicaSetId] = field(default_factory=set)

    def names_first(self, set_ids: Iterable[ReplicaSetId]) -> bool:
        """Note the sets named in a heartbeat; returns whether one of them is new.

        A process that has just opened a log may be the candidate that an election was missing.
        """
        count = len(self.set_ids)
        self.set_ids.update(set_ids)
        return len(self.set_ids) > count


class Liveness:
    """The sessions of all brokers that this controller has heard of."""

    __slots__ = ("_pauses", "_sessions", "_timeout_ms")

    def __init__(self, timeout_ms: int, pauses: OwnPauses) -> None:
        self._timeout_ms = timeout_ms
        self._pauses = pauses
        self._sessions: dict[BrokerId, BrokerSession] = {}

    def opened(self, broker_id: BrokerId, session_id: SessionId, now_ms: int) -> None:
        """Note a new session; it replaces an older one."""
        self._sessions[broker_id] = BrokerSession(session_id=session_id, heard_ms=now_ms)

    def closed(self, broker_id: BrokerId, session_id: SessionId) -> bool:
        """Note a closed session. Returns whether it was the newest one: the broker is dead then."""
        session = self._newest(broker_id, session_id)
        if session is None:
            return False
        session.is_open = False
        return True

    def heard(
        self, broker_id: BrokerId, session_id: SessionId, incarnation: str, now_ms: int
    ) -> BrokerSession | None:
        """Note a heartbeat, and return its session; None, and no effect, unless that is the
        newest one, and open.
        """
        session = self._newest(broker_id, session_id)
        if session is not None:
            session.heard_ms = now_ms
            session.incarnation = incarnation
        return session

    def _newest(self, broker_id: BrokerId, session_id: SessionId) -> BrokerSession | None:
        session = self._sessions.get(broker_id)
        if session is None or session.session_id != session_id or not session.is_open:
            return None
        return session

    def expect(self, broker_id: BrokerId, now_ms: int) -> None:
        """Give a broker without any session a full timeout from now on."""
        if broker_id not in self._sessions:
            self._sessions[broker_id] = BrokerSession(session_id=NO_SESSION, heard_ms=now_ms)

    def is_awaited(self, broker_id: BrokerId) -> bool:
        """Whether the broker had no session yet and its first timeout is still running."""
        session = self._sessions.get(broker_id)
        return session is not None and session.session_id == NO_SESSION and session.is_open

    def refused(self, broker_id: BrokerId) -> None:
        """Note a refused connection: an awaited broker is dead then, without waiting any longer."""
        if self.is_awaited(broker_id):
            self._sessions[broker_id].is_open = False

    def forget(self, broker_id: BrokerId) -> None:
        """Drop a removed broker. A running one keeps its session, and is answered through it."""
        session = self._sessions.get(broker_id)
        if session is not None and not (session.is_open and session.session_id != NO_SESSION):
            del self._sessions[broker_id]

    def excuse(self, paused_ms: int, now_ms: int) -> None:
        """Do not count a pause of this process (OwnPauses) as silence of the brokers."""
        for session in self._sessions.values():
            session.heard_ms = min(now_ms, session.heard_ms + paused_ms)

    def is_live(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Whether the broker is alive, or still within its first timeout.

        After a pause it may be asked before the next tick: by a timer or a call that was due first.
        """
        session = self._sessions.get(broker_id)
        if session is None or not session.is_open:
            return False
        return now_ms - session.heard_ms - self._pauses.since_tick_ms(now_ms) <= self._timeout_ms

    def is_connected(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Whether the broker is alive and has a session, so that it can be sent requests."""
        session = self._sessions.get(broker_id)
        is_there = session is not None and session.session_id != NO_SESSION
        return is_there and self.is_live(broker_id, now_ms)

    def incarnation(self, broker_id: BrokerId) -> str:
        """Return the process of the newest session, empty before its first heartbeat."""
        session = self._sessions.get(broker_id)
        return "" if session is None else session.incarnation

    def heard_ms_ago(self, broker_id: BrokerId, now_ms: int) -> int:
        """Return the time since the last heartbeat in ms, -1 if the broker never had a session."""
        session = self._sessions.get(broker_id)
        if session is None or session.session_id == NO_SESSION:
            return -1
        return max(0, now_ms - session.heard_ms)
