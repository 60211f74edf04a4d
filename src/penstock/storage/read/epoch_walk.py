"""Which masterships have written what is kept of a partition, over all of a log's stores.

    newest epoch ─► where it ends ─► the one before it ends there ─► ... ─► the log start

The log has no such list by partition: each step is a look-up as a follower asks for it. So a list
costs as many look-ups as masterships have written to the partition; COUNT_MAX bounds it, and older
ones are not told.

Source: Kafka `LeaderEpochFileCache.epochEntries`, which is kept for each partition; ours is found
when it is wanted, once in a mastership (docs/adr/0117).
"""

from collections.abc import Callable
from typing import Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.stores.port import EpochEnd, EpochEndFound

COUNT_MAX = 1000

Epochs = list[tuple[LeaderEpoch, Offset]]
"""(leader epoch, first offset), oldest first; of each what is kept."""
EpochsFound = Callable[[Epochs | None, PlatformError | None], None]


class EpochLog(Protocol):
    """A log that is asked where masterships end."""

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The newest one."""

    def find_epoch_end(
        self, partition: PartitionLog, leader_epoch: LeaderEpoch, done: EpochEndFound, /
    ) -> None:
        """Tell the end of the newest epoch up to this one, at once or later."""


class EpochWalk:
    """Calls `done(epochs, error)` once, at once or later; one of them is None."""

    def __init__(
        self,
        log: EpochLog,
        partition: PartitionLog,
        done: EpochsFound,
        count_max: int = COUNT_MAX,
    ) -> None:
        self._log = log
        self._partition = partition
        self._done = done
        self._left = count_max
        self._ends: list[EpochEnd] = []
        """Newest first."""
        self._wanted: LeaderEpoch | None = log.leader_epoch
        self._is_running = False
        self._run()

    def _run(self) -> None:
        """Look up what is wanted, as long as answers come at once: no deep calls."""
        self._is_running = True
        while self._wanted is not None:
            wanted, self._wanted = self._wanted, None
            self._log.find_epoch_end(self._partition, wanted, self._found)
        self._is_running = False

    def _found(self, end: EpochEnd | None, error: PlatformError | None) -> None:
        start = self._partition.log_start_offset
        if error is not None:
            self._done(None, error)
        elif end is None or end.end_offset <= start:
            self._done(self._epochs(start), None)
        elif not self._left:
            self._done(self._epochs(end.end_offset), None)
        else:
            self._left -= 1
            self._ends.append(end)
            self._wanted = LeaderEpoch(end.leader_epoch - 1)
            if not self._is_running:
                self._run()

    def _epochs(self, start: Offset) -> Epochs:
        """Return the epochs that have something behind `start`, where the oldest one begins."""
        found: Epochs = []
        for epoch, end in reversed(self._ends):
            if end > start:
                found.append((epoch, start))
                start = end
        return found
