"""Fetch sessions (KIP-227): a consumer names its partitions once and then only what changes.

    request (id, epoch)     meaning
    0, -1                   no session: a full request
    any, 0                  end session `id` if it exists, make a new one from this request
    id, -1                  end the session; a full request
    id, n > 0               incremental: n must be the epoch the session expects next

The cache is bounded. A session gives its place up only after it has been idle for a while, so
that many consumers can not evict one another in a circle; who finds no place works without one.

Source: KIP-227, Kafka `FetchSession.scala`. Departure: one age rule instead of two classes of
sessions, since followers do not fetch through this protocol here.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from penstock.broker.fetch.partition_read import PartitionKey, WantedPartition
from penstock.protocol.error_codes import ErrorCode

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_EPOCH_MAX = 0x7FFFFFFF
PARTITIONS_MAX = 500_000
"""Partitions of all sessions together: some 200 bytes each. Clients may name what does not exist,
so neither sessions nor topics bound this. Who finds no room fetches without a session."""


class SessionPartition(WantedPartition):
    """One partition of a session: what to fetch next, and what was answered last."""

    __slots__ = ("high_watermark", "log_start_offset", "was_told")

    def __init__(
        self,
        key: PartitionKey,
        fetch_offset: int,
        max_bytes: int,
        leader_epoch: int,
        last_fetched_epoch: int,
    ) -> None:
        super().__init__(key, fetch_offset, max_bytes, leader_epoch, last_fetched_epoch)
        self.high_watermark = -1
        self.log_start_offset = -1
        self.was_told = False

    def update(
        self, fetch_offset: int, max_bytes: int, leader_epoch: int, last_fetched_epoch: int
    ) -> None:
        """Take over what a later request says of the partition."""
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = last_fetched_epoch

    def has_news(
        self, *, size: int, is_told: bool, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Say whether an incremental answer must name the partition, and remember what it says.

        `is_told`: there is an error, a preferred replica or a diverging epoch. That is always
        named, and so is the first answer after it, which ends it.
        """
        news = (
            size > 0
            or is_told
            or self.was_told
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
        )
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.was_told = is_told
        return news


class FetchSession:
    """The partitions one consumer follows, in the order in which they are served."""

    __slots__ = ("last_used_ms", "next_epoch", "partitions", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.next_epoch = 1
        self.last_used_ms = 0
        self.partitions: OrderedDict[PartitionKey, SessionPartition] = OrderedDict()

    def apply(self, wanted: Iterable[SessionPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Add or update the named partitions, then drop the forgotten ones."""
        for partition in wanted:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
                continue
            known.update(
                partition.fetch_offset,
                partition.max_bytes,
                partition.leader_epoch,
                partition.last_fetched_epoch,
            )
        for key in forgotten:
            self.partitions.pop(key, None)

    def served(self, key: PartitionKey) -> None:
        """Move a partition that got data behind the others, so that none starves."""
        if key in self.partitions:
            self.partitions.move_to_end(key)

    def advance(self) -> None:
        """Expect the next epoch; after 2^31 - 1 comes 1."""
        self.next_epoch = 1 if self.next_epoch == _EPOCH_MAX else self.next_epoch + 1


class FetchSessionCache:
    """All sessions of a broker, least recently used first."""

    __slots__ = ("_capacity", "_idle_ms_min", "_new_id", "_partition_count", "_sessions")

    def __init__(self, capacity: int, idle_ms_min: int, new_id: Callable[[], int]) -> None:
        """`new_id` draws random ids in [1, 2^31); a session id must not be guessable in order."""
        self._capacity = capacity
        self._idle_ms_min = idle_ms_min
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """Of all sessions together."""
        return self._partition_count

    def create(self, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """Make a session, or return None where all places are taken by active ones."""
        if len(self._sessions) >= self._capacity:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < self._idle_ms_min:
                return None
            self.close(oldest.session_id)
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = session_id % _EPOCH_MAX + 1
        session = FetchSession(session_id, uses_topic_ids)
        session.last_used_ms = now_ms
        self._sessions[session_id] = session
        return session

    def resume(
        self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | ErrorCode:
        """Return the session that an incremental request continues, or what is wrong with it."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if epoch != session.next_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if uses_topic_ids != session.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.last_used_ms = now_ms
        session.advance()
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        """Forget a session; an unknown one is fine."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def apply(
        self,
        session: FetchSession,
        wanted: Iterable[SessionPartition],
        forgotten: Iterable[PartitionKey],
    ) -> bool:
        """Let a session follow what its request says; False if it had to be closed for its size."""
        before = len(session.partitions)
        session.apply(wanted, forgotten)
        self._partition_count += len(session.partitions) - before
        if self._partition_count > PARTITIONS_MAX:
            self.close(session.session_id)
            return False
        return True
