"""The fetch sessions of a broker: admission, expiry and eviction.

    room left                           every client that asks gets a session
    idle for `idle_ms_max`              it ends
    its connection closed               it ends `GONE_MS` after its last use: clients return soon,
                                        and otherwise with a new session
    no room: another host holds more    that host's largest session ends
    no room: the own host holds most    its largest one ends, if it is more than twice as large
    otherwise                           no session: the client names all partitions every time

So many consumers cannot evict one another in a circle: a client that returns after an eviction
could only evict one that holds more than it did. The limit of memory is in bytes, most of which are
partitions: clients may name any number of partitions that do not exist.

Source: KIP-227, Kafka `FetchSession.scala`. Departures: sessions expire, and are limited by bytes
rather than by slots; there is one class of sessions, since followers do not fetch through this
protocol.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator

from penstock.base.ids import SessionEpoch
from penstock.broker.fetch.partition_read import PartitionKey
from penstock.kafka.fetch.session import (
    SESSION_BYTES,
    Client,
    FetchSession,
    SessionPartition,
)
from penstock.protocol.error_codes import ErrorCode

SESSIONS_BYTES_MAX = 32 << 20
"""Default of the limit in bytes: 80,000 partitions and their names."""
GONE_MS = 10_000
_ID_MAX = 0x7FFF_FFFF
BETTER_TIMES = 2
"""A session of the same host is evicted only if it is larger by this factor."""


class FetchSessionCache:
    """All sessions of a broker, least recently used first."""

    __slots__ = (
        "_by_host",
        "_capacity",
        "_idle_ms_max",
        "_new_id",
        "_sessions",
        "bytes_max",
        "partitions",
        "pinned_bytes",
        "refused",
    )

    def __init__(self, capacity: int, idle_ms_max: int, new_id: Callable[[], int]) -> None:
        """`new_id` draws random ids in [1, 2^31); ids must not be predictable."""
        self._capacity = capacity
        self._idle_ms_max = idle_ms_max
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._by_host: Counter[str] = Counter()
        self.bytes_max = SESSIONS_BYTES_MAX
        self.pinned_bytes = 0
        """Approximate memory of all sessions in bytes."""
        self.partitions = 0
        """Partitions of all sessions."""
        self.refused = 0
        """Sessions that were refused or evicted for lack of room."""

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self, client: Client, *, uses_topic_ids: bool, now_ms: int, wanted_bytes: int = 0
    ) -> FetchSession | None:
        """Create a session for partitions of so many bytes; None if there is no room."""
        if not self._capacity or not self._find_room(
            client.client_host, SESSION_BYTES + wanted_bytes
        ):
            self.refused += 1
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = session_id % _ID_MAX + 1
        session = FetchSession(session_id, uses_topic_ids, client)
        session.last_used_ms = now_ms
        self._sessions[session_id] = session
        self._count(session, session.size_bytes, 0)
        return session

    def resume(
        self,
        client: Client,
        session_id: int,
        epoch: SessionEpoch,
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchSession | ErrorCode:
        """Return the session that an incremental request continues, or the error."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if epoch != session.next_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if uses_topic_ids != session.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.client = client
        session.last_used_ms = now_ms
        session.advance()
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        """End a session; an unknown one is ignored."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count(session, -session.size_bytes, -len(session.partitions))

    def apply(
        self,
        session: FetchSession,
        wanted: Iterable[SessionPartition],
        forgotten: Iterable[PartitionKey],
    ) -> bool:
        """Update a session from its request; False if it has ended, or ends for its size.

        The session of a long request may end while the request is decoded.
        """
        if self._sessions.get(session.session_id) is not session:
            return False
        size, partitions = session.size_bytes, len(session.partitions)
        session.apply(wanted, forgotten)
        self._count(session, session.size_bytes - size, len(session.partitions) - partitions)
        if self.pinned_bytes <= self.bytes_max or self._find_room(
            session.host, session.size_bytes, but=session
        ):
            return True
        self.refused += 1
        self.close(session.session_id)
        return False

    def expire(self, now_ms: int) -> None:
        """End sessions that were idle for long or whose client has disconnected."""
        for session in list(self._idle_since(now_ms - min(GONE_MS, self._idle_ms_max))):
            if session.client.is_closed or now_ms - session.last_used_ms >= self._idle_ms_max:
                self.close(session.session_id)

    def _idle_since(self, last_used_ms: int) -> Iterator[FetchSession]:
        for session in self._sessions.values():
            if session.last_used_ms > last_used_ms:
                return
            yield session

    def _find_room(self, host: str, size: int, *, but: FetchSession | None = None) -> bool:
        """Make room for a new session of `size`, or for one (`but`) that has grown to it."""
        is_new = but is None
        needed = self.pinned_bytes + size * is_new - self.bytes_max
        if needed <= 0 and not (is_new and len(self._sessions) >= self._capacity):
            return True
        victims = self._greedier(host, size, needed, but)
        for victim in victims:
            self.refused += 1
            self.close(victim.session_id)
        return bool(victims)

    def _greedier(
        self, host: str, size: int, needed: int, but: FetchSession | None
    ) -> list[FetchSession]:
        """Return the sessions to evict for another one, largest first; empty: it gets no room."""
        greediest = max(self._by_host, key=self._by_host.__getitem__, default=host)
        theirs = [
            session
            for session in self._sessions.values()
            if session.host == greediest and session is not but
        ]
        theirs.sort(key=lambda one: one.size_bytes, reverse=True)
        if greediest == host:
            return [one for one in theirs[:1] if one.size_bytes > BETTER_TIMES * size]
        own = self._by_host[host] + size * (but is None)
        if self._by_host[greediest] - max(needed, 0) <= own:
            return []
        victims: list[FetchSession] = []
        for one in theirs:
            victims.append(one)
            needed -= one.size_bytes
            if needed <= 0:
                break
        return victims

    def _count(self, session: FetchSession, size: int, partitions: int) -> None:
        self.pinned_bytes += size
        self.partitions += partitions
        self._by_host[session.host] += size
        if not self._by_host[session.host]:
            del self._by_host[session.host]
