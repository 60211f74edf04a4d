"""Which extent files only movable partitions need, as a retention pass finds it.

    extent after extent: needed by whom? ─► files that all who need them can write anew ─► Movable

Such a file is small, since it was shrunk (shrinking.py), and there may be many: a few records of
internal partitions are in each file that was ever made. So one counts as what is needed of it and
FILE_BYTES: what a file costs in memory, in the manifest, and at a start. Their relief is that of
closed segments (broker/sets/pin_relief.py): the partitions are rewritten, and the files go.

Source: docs/adr/0032, docs/adr/0130.
"""

from penstock.base.ids import TopicPartition
from penstock.storage.commit_log.pins import NOTHING_MOVABLE, Movable
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.held_files import file_bytes_of

FILE_BYTES = 64 << 10


class FilePins:
    """Collects one pass; `movable` is of the last one that has ended."""

    def __init__(self) -> None:
        self.movable = NOTHING_MOVABLE
        self._others: set[int] = set()
        """Files that a partition needs which can not be written anew."""
        self._moving: dict[int, dict[TopicPartition, None]] = {}
        """The other partitions that need a file."""
        self._bytes: dict[int, int] = {}
        """What these need of it."""

    def pin(self, extent: Extent, *, is_movable: bool) -> None:
        """Note that an extent is needed."""
        number = extent.file_number
        if not is_movable:
            self._others.add(number)
            return
        self._moving.setdefault(number, {})[extent.entry.topic_partition] = None
        self._bytes[number] = self._bytes.get(number, 0) + file_bytes_of(extent.entry)

    def end_pass(self) -> None:
        """Let what was noted count, and begin anew."""
        files = sorted(self._moving.keys() - self._others)
        partitions: dict[TopicPartition, None] = {}
        for number in files:
            partitions.update(self._moving[number])
        size_bytes = sum(self._bytes[number] + FILE_BYTES for number in files)
        self.movable = Movable(size_bytes, -1, tuple(partitions), files[0] if files else -1)
        self._others, self._moving, self._bytes = set(), {}, {}
