"""Returns memory to the system after clients have released much of it.

    pinned memory fell, or long requests ended ──► free read buffers, CPython's free lists, malloc
    too early, or long work still runs         ──► remembered, and repeated as soon as possible
    GROUPS_GONE groups fewer than there were   ──► the same: each is little, all together are not

Without the second line the end of a flood would be noticed while its last requests are still
parked, and the rest would never be freed.
"""

from collections.abc import Callable, Iterable

from penstock.base.memory import FreeLists, trim_memory
from penstock.base.ports import Offload
from penstock.kafka.front import KafkaFront
from penstock.node.machine import DataDisk

GROUPS_GONE = 1_000
"""Groups that have gone after which memory is worth giving back: 1.3 MiB and more."""


class Relief:
    """Frees cached memory; the listener calls `is_due` once a second."""

    def __init__(
        self,
        front: KafkaFront,
        disks: Callable[[], Iterable[DataDisk]],
        workers: Offload,
        free_lists: FreeLists,
    ) -> None:
        self._front = front
        self._disks = disks
        self._workers = workers
        self._free_lists = free_lists
        self._is_owed = False
        self._most_groups = 0
        """Most groups there were since memory was last given back for those that have gone."""

    def is_due(self) -> bool:
        """Whether memory can be freed although the listener's budget has not fallen."""
        have_gone = self._groups_have_gone()
        has_let_go = self._front.broker.long_places.has_let_go()
        return have_gone or has_let_go or (self._is_owed and self._may_free())

    def _groups_have_gone(self) -> bool:
        """Whether many groups expired, were deleted or moved since this was last true."""
        count = self._front.broker.groups.group_count
        self._most_groups = max(self._most_groups, count)
        if self._most_groups - count < GROUPS_GONE:
            return False
        self._most_groups = count
        return True

    def give_back(self) -> None:
        """Free what can be freed now."""
        for disk in self._disks():
            disk.relieve()
        self._is_owed = not (self._may_free() and self._free_lists.free())
        self._workers.submit(trim_memory, _trimmed)

    def _may_free(self) -> bool:
        """Whether to collect now: during long work a collection would traverse all its objects."""
        return self._free_lists.is_ready() and not self._front.has_long_work


def _trimmed(kept: int | None, error: BaseException | None) -> None:
    """Ignore the outcome: memory was freed, or there was none to free."""
