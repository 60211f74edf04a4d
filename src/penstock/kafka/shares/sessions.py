"""Share sessions: which partitions a member fetches, named once and then only as they change.

    epoch 0     open a session, in place of the member's last one; no acknowledgements
    n > 0       the next request; n has to be the one that is expected
    -1          close it: what the member holds is free for others

A session belongs to a group and a member, and to the connection that used it last: it ends with
that connection, and what its member holds is free. One that is replaced frees nothing: the member
may still acknowledge what it has.

Source: KIP-932; Kafka `ShareSessionCache`, `SharePartitionManager.newContext`,
`acknowledgeSessionUpdate`, `releaseSession`.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from penstock.base.ids import SessionEpoch
from penstock.broker.shares.waiting import ShareWait
from penstock.kafka.session_epochs import FINAL_EPOCH, FIRST_EPOCH, following
from penstock.protocol.error_codes import ErrorCode

OF_SESSION_MAX = 10_000
"""Partitions of one session."""
PARTITIONS_MAX = 200_000
"""Partitions of all sessions."""
SESSION_BYTES, PARTITION_BYTES, WAITING_BYTES = 1_024, 256, 512
"""Memory of a session with its names, of each of its partitions, and of those with a fetch that
waits, about."""

TopicIdPartition: TypeAlias = tuple[bytes, int]
"""Topic id (16 bytes) and partition."""


class Client(Protocol):
    """A connection."""

    @property
    def is_closed(self) -> bool: ...


class ShareSession:
    """The partitions of one member, in the order in which they are served."""

    __slots__ = (
        "client",
        "fetching",
        "group",
        "held",
        "is_over",
        "member",
        "newest",
        "next_epoch",
        "partitions",
    )

    def __init__(self, group: str, member: str, client: Client) -> None:
        self.group = group
        self.member = member
        self.client = client
        self.next_epoch = FIRST_EPOCH
        self.is_over = False
        self.newest: ShareWait | None = None
        """Of its last fetch: one before that does not wait any more."""
        self.fetching = asyncio.Lock()
        """Held by the fetch that looks at partitions: its objects are as large as the session."""
        self.partitions: dict[TopicIdPartition, ErrorCode] = {}
        """With the error that was told last."""
        self.held: set[TopicIdPartition] = set()
        """Partitions whose records it was handed: it may hold some, also once it has forgotten the
        partition."""

    def begin(self, fetch: ShareWait) -> None:
        """A fetch has come, and ends the wait of the one before it."""
        before, self.newest = self.newest, fetch
        if before is not None:
            before.on_share()

    def served(self, place: TopicIdPartition) -> None:
        """Move a partition whose records were handed out to the end, so that none starves."""
        self.held.add(place)
        told = self.partitions.pop(place, None)
        if told is not None:
            self.partitions[place] = told

    def places(self) -> list[TopicIdPartition]:
        """Return where the member may hold records, in order."""
        return [*self.partitions, *sorted(self.held - self.partitions.keys())]


class ShareSessions:
    """All share sessions of a broker."""

    __slots__ = (
        "_capacity",
        "_ended",
        "_sessions",
        "parked",
        "partitions",
        "refused",
        "waiting",
    )

    def __init__(
        self, capacity: Callable[[], int], ended: Callable[[ShareSession], object]
    ) -> None:
        """`ended(session)` frees what the member holds, after its connection has closed."""
        self._capacity = capacity
        self._ended = ended
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self.partitions = 0
        """Partitions of all sessions."""
        self.refused = 0
        """Sessions that were refused for lack of room."""
        self.waiting = 0
        """Fetches that wait for records."""
        self.parked = 0
        """Partitions of fetches that have begun."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def pinned_bytes(self) -> int:
        """Approximate memory of all sessions in bytes."""
        partitions = self.partitions * PARTITION_BYTES + self.parked * WAITING_BYTES
        return len(self._sessions) * SESSION_BYTES + partitions

    def open(
        self, group: str, member: str, client: Client, places: Iterable[TopicIdPartition]
    ) -> ShareSession | ErrorCode:
        """Open a session in place of the member's last one."""
        self.end(group, member)
        session = ShareSession(group, member, client)
        if len(self._sessions) >= self._capacity():
            self.refused += 1
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        self._sessions[group, member] = session
        return self.change(session, places, ())

    def use(
        self, group: str, member: str, epoch: SessionEpoch, client: Client
    ) -> ShareSession | ErrorCode:
        """Return the session that a request goes on with, or ends; or the error."""
        session = self._sessions.get((group, member))
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL_EPOCH:
            if epoch != session.next_epoch:
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH
            session.next_epoch = following(epoch)
        session.client = client
        return session

    def change(
        self,
        session: ShareSession,
        added: Iterable[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
    ) -> ShareSession | ErrorCode:
        """Add the named partitions, then drop those to be forgotten; it ends if it is too large.

        Of too many none is added: they would be looked at once more when the session ends. One that
        has ended while the request was read has no partitions any more that would count.
        """
        if session.is_over:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        here, nothing = session.partitions, ErrorCode.NONE
        more = {place: nothing for place in added if place not in here}
        if len(more) <= OF_SESSION_MAX:
            before = len(here)
            here.update(more)
            for place in forgotten:
                here.pop(place, None)
            self.partitions += len(here) - before
            if len(here) <= OF_SESSION_MAX and self.partitions <= PARTITIONS_MAX:
                return session
        self.refused += 1
        self.end(session.group, session.member)
        self._ended(session)
        return ErrorCode.SHARE_SESSION_LIMIT_REACHED

    def end(self, group: str, member: str) -> ShareSession | None:
        """Forget a session; what its member holds stays so."""
        session = self._sessions.pop((group, member), None)
        if session is not None:
            session.is_over = True
            self.partitions -= len(session.partitions)
        return session

    def close(self, session: ShareSession) -> bool:
        """End a session; return whether it was open still.

        The member may have opened another one meanwhile, which goes on.
        """
        if session.is_over:
            return False
        self.end(session.group, session.member)
        return True

    def expire(self, now_ms: int) -> None:
        """End the sessions whose connections have closed."""
        del now_ms
        for session in [one for one in self._sessions.values() if one.client.is_closed]:
            self.end(session.group, session.member)
            self._ended(session)
