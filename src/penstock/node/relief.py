"""When clients have let go of much memory, what is kept for more of it goes back to the system.

    the budget says so, or long requests are gone ──► buffers of reads, CPython's free lists, malloc
    too soon, or long work goes on                ──► owed: the same again when it may be

Without the second line the end of a flood would be seen while its last requests are still parked,
and nothing would come after it.
"""

from collections.abc import Callable, Iterable

from penstock.base.ports import Offload
from penstock.kafka.front import KafkaFront
from penstock.node.machine import DataDisk
from penstock.runtime.io.memory import FreeLists, trim_memory


class Relief:
    """Asked once a second whether it `is_due`."""

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

    def is_due(self) -> bool:
        """Whether memory can be given back, though the budget does not say so."""
        return self._front.broker.long_places.has_let_go() or (self._is_owed and self._may_free())

    def give_back(self) -> None:
        """Give back what can be given now."""
        for disk in self._disks():
            disk.relieve()
        self._is_owed = not (self._may_free() and self._free_lists.free())
        self._workers.submit(trim_memory, _trimmed)

    def _may_free(self) -> bool:
        """Amid long work a collection would look through all that it is made of."""
        return self._free_lists.is_ready() and not self._front.has_long_work


def _trimmed(kept: int | None, error: BaseException | None) -> None:
    """Memory was given back, or there was none to give."""
