"""Groups that are to read a queue from another offset on, while they consume it.

    reset ─► the position is kept, and a mark here: (group, partition) ─► offset
        member commits          nothing is kept: it tells of what it had before
        member pulls            PULL_OFFSET_MOVED with the offset; the mark is gone

A consumer of Java drops what it has of a queue whose pull is answered so, keeps the offset as its
position, and goes on there; nothing that it had under way commits any more. A mark counts under
the mastership in which it was set, and while the group has members here: the next master has the
position, which its clients ask for.

Source: RocketMQ 5.3.3 `ConsumerOffsetManager.assignResetOffset`, `queryThenEraseResetOffset`,
`PullMessageProcessor` (`useServerSideResetOffset`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.remoting.errors import PositionRefused

if TYPE_CHECKING:
    from penstock.base.ids import LeaderEpoch
    from penstock.broker.partitions import HostedPartition

MARKS_MAX: Final = 100_000
"""Of all groups; some 200 bytes each."""


class _Mark(NamedTuple):
    offset: int
    leader_epoch: LeaderEpoch


class PendingResets:
    """See the module; one for each front."""

    def __init__(self, most: int = MARKS_MAX) -> None:
        self._groups: dict[str, dict[tuple[bytes, int], _Mark]] = {}
        self._most = most
        self.count = 0

    def mark(self, group: str, hosted: HostedPartition, offset: int) -> None:
        """Note an offset. Raises PositionRefused if there are too many."""
        key, marks = _key(hosted), self._groups.get(group, {})
        if key not in marks and self.count >= self._most:
            raise PositionRefused(f"{self.count} resets wait for their consumers")
        self.count += key not in marks
        marks[key] = _Mark(offset, hosted.member.leader_epoch)
        self._groups[group] = marks

    def is_marked(self, group: str, hosted: HostedPartition) -> bool:
        """Whether a group is to read a queue from elsewhere on, and has not heard of it."""
        marks = self._groups.get(group)
        mark = None if marks is None else marks.get(_key(hosted))
        return mark is not None and mark.leader_epoch == hosted.member.leader_epoch

    def take(self, group: str, hosted: HostedPartition) -> int | None:
        """Return where a group is to read on in a queue, once; None if it may go on."""
        marks = self._groups.get(group)
        mark = None if marks is None else marks.pop(_key(hosted), None)
        if mark is None:
            return None
        self.count -= 1
        if not marks:
            del self._groups[group]
        return mark.offset if mark.leader_epoch == hosted.member.leader_epoch else None

    def expire(self, has_members: Callable[[str], bool]) -> None:
        """Forget the marks of groups without members: these read from their positions on."""
        for group in [one for one in self._groups if not has_members(one)]:
            self.count -= len(self._groups.pop(group))


def _key(hosted: HostedPartition) -> tuple[bytes, int]:
    return bytes(hosted.topic.topic_id), hosted.partition
