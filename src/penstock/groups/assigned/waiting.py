"""What waits in a group: one request of each member, and deadlines that have passed.

A client has one heartbeat open at a time: a second one of the same member takes the place of the
first, whose connection it has given up. What waits counts with the memory of the group.

Source: ours; Kafka decides on each heartbeat as it comes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.groups.assigned.messages import Beat, HeartbeatCallback, HeartbeatReply
from penstock.groups.deadlines import DeadlineKey, DeadlineKind

BATCH_MAX = 200
"""Requests that are decided together: a batch is confirmed in one turn of the event loop, and each
of them has up to three records."""
ASKED_BYTES = 1_500
"""Memory of a request besides its names and partitions."""

R = TypeVar("R", bound=Beat)


@dataclass(slots=True, eq=False)
class Asked(Generic[R]):
    """A request that waits, or a member whose deadline has passed (`request` is None)."""

    member_id: str
    request: R | None
    reply: HeartbeatCallback
    due: DeadlineKey | None = None
    answer: HeartbeatReply | None = None
    """The answer once its changes are confirmed."""

    @property
    def size_bytes(self) -> int:
        """Approximate memory."""
        return ASKED_BYTES + (0 if self.request is None else self.request.said_bytes)


Key = tuple[str, DeadlineKind | None]


class Waiting(Generic[R]):
    """The queue of one group."""

    __slots__ = ("_asked", "_pin")

    def __init__(self, pin: Callable[[int], None]) -> None:
        """`pin` is called with each change of the memory that is taken, in bytes."""
        self._asked: dict[Key, Asked[R]] = {}
        self._pin = pin

    def __len__(self) -> int:
        return len(self._asked)

    def put(self, asked: Asked[R]) -> Asked[R] | None:
        """Let a request wait behind all others; returns the one whose place it takes."""
        key = (asked.member_id, None if asked.due is None else asked.due.kind)
        before = self._asked.pop(key, None)
        self._asked[key] = asked
        self._pin(asked.size_bytes - (0 if before is None else before.size_bytes))
        return before

    def has_due(self, member_id: str, kind: DeadlineKind) -> bool:
        """Whether that deadline of a member has passed and is not handled yet."""
        return (member_id, kind) in self._asked

    def take_batch(self) -> list[Asked[R]]:
        """Take the oldest, of each member and static instance one only."""
        batch: list[Asked[R]] = []
        seen: set[str] = set()
        for key, asked in [*self._asked.items()]:
            names = _names(asked)
            if not names & seen:
                del self._asked[key]
                self._pin(-asked.size_bytes)
                batch.append(asked)
            seen |= names
            if len(batch) == BATCH_MAX:
                break
        return batch

    def take_all(self) -> list[Asked[R]]:
        """Take all, the oldest first."""
        taken = [*self._asked.values()]
        self._asked.clear()
        self._pin(-sum(asked.size_bytes for asked in taken))
        return taken


def _names(asked: Asked[R]) -> frozenset[str]:
    return frozenset({asked.member_id}) if asked.request is None else asked.request.names
