"""Retention: one pass at a time over the stores of a log, the oldest first.

    rules ─► the oldest store judges its pieces ─► ... ─► the commit log judges its own
      ─► anything to delete? take a snapshot, and delete when it is durable

Bytes are deleted only after a snapshot has the new log starts: otherwise a crash would restore a
log start whose records are gone. Reads and writes continue meanwhile.

Source: Kafka `UnifiedLog.deleteOldSegments`. The rules: rules.py.
"""

from collections.abc import Callable, Mapping

from penstock.base.ids import Position, TopicPartition
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.stores.older import OlderStores
from penstock.storage.stores.port import LetGo, OlderStore, PartitionStore
from penstock.storage.stores.rules import RetentionRules, SettingsOf

Snapshot = Callable[[Callable[[bool], None]], None]
"""Requests a snapshot, and calls back with whether it is durable."""


class RetentionPass:
    """Runs the retention passes of one log. Used on the loop only."""

    def __init__(
        self,
        commit_log: PartitionStore[Position],
        older: OlderStores,
        take_snapshot: Snapshot,
        changed: Callable[[PartitionLog], None],
    ) -> None:
        """`changed` has the next snapshot take a partition anew: it may be idle for long, and one
        whose pieces are in older stores alone has none that the commit log would judge.
        """
        self._commit_log = commit_log
        self._older = older
        self._take_snapshot = take_snapshot
        self._changed = changed
        self._left: list[PartitionStore[Position] | OlderStore] = []
        """Stores that have not judged yet; the last element is next."""
        self._rules: RetentionRules | None = None
        self._let_go: list[LetGo] = []
        self.is_running = False

    def begin(
        self,
        partitions: Mapping[TopicPartition, PartitionLog],
        now_ms: int,
        settings_of: SettingsOf,
    ) -> None:
        """Start a pass; does nothing while one is running."""
        if self.is_running:
            return
        self.is_running = True
        self._rules = RetentionRules(
            partitions, now_ms, settings_of, self._older.size_bytes, self._changed
        )
        self._let_go = []
        self._left = [self._commit_log, *self._older.stores]
        self._judge_next()

    def _judge_next(self) -> None:
        assert self._rules is not None
        self._left.pop().judge(self._rules, self._judged)

    def _judged(self, let_go: LetGo | None) -> None:
        if let_go is not None:
            self._let_go.append(let_go)
        if self._left:
            self._judge_next()
        elif self._let_go:
            self._take_snapshot(self._snapshot_taken)
        else:
            self.is_running = False

    def _snapshot_taken(self, worked: bool) -> None:
        self.is_running = False
        let_go, self._let_go = self._let_go, []
        if worked:
            for action in let_go:
                action()
