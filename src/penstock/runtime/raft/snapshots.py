"""When a member wants a snapshot of the machine, and what becomes of one.

    trim ─► asked ─► core.compact ─► disk queue ─► the log is rewritten without what went

A snapshot is wanted after enough entries, and not before as many bytes as the last one took. While
one is on its way to the disk, counting begins anew, so that it is not asked for again.

Source: Raft paper 7; controller/replicated_log.py (`trim`, `wants_snapshot`).
"""

from penstock.raft.raft import Raft
from penstock.raft.ready import Snapshot
from penstock.runtime.raft.disk_queue import DiskQueue
from penstock.runtime.raft.numbering import Numbering, wrap_state
from penstock.runtime.raft.storage import RaftStorage


class Snapshots:
    """See the module."""

    def __init__(
        self,
        core: Raft,
        storage: RaftStorage,
        disk: DiskQueue,
        found: Snapshot,
        after_bytes: int,
    ) -> None:
        self._core = core
        self._storage = storage
        self._disk = disk
        self._after_bytes = after_bytes
        self.index = found.index
        """Raft index of the last entry that the newest snapshot stands for."""
        self._size = len(found.data)
        self._counted_from_bytes = 0
        self._asked: tuple[int, bytes] | None = None
        self._is_none_kept = False

    @property
    def are_wanted(self) -> bool:
        """Whether enough was appended since the last one."""
        appended = self._storage.entry_bytes - self._counted_from_bytes
        return appended > max(self._after_bytes, self._size)

    def ask(self, machine_index: int, state: bytes) -> None:
        """Take the machine's state after an applied entry."""
        self._asked = (machine_index, state)
        self._counted_from_bytes = self._storage.entry_bytes

    def keep_none(self) -> None:
        """With the next snapshot, keep no entries for peers that are late."""
        self._is_none_kept = True

    def hand_on(self, numbering: Numbering) -> None:
        """Give what was asked for to core and disk.

        Not from within `apply`: for the core an entry is applied only when its Ready is done with.
        """
        if self._asked is None:
            return
        (machine_index, state), self._asked = self._asked, None
        if not numbering.has_behind_snapshot(machine_index):
            return
        raft_index = numbering.raft_index_of(machine_index)
        keep_bytes = 0 if self._is_none_kept else None
        snapshot = self._core.compact(raft_index, wrap_state(machine_index, state), keep_bytes)
        self._is_none_kept = False
        if snapshot is None:  # a leader's newer one is on its way
            return
        numbering.rebase(raft_index, machine_index)
        self.index, self._size = snapshot.index, len(snapshot.data)
        self._disk.compact(snapshot)

    def on_installed(self, snapshot: Snapshot) -> None:
        """Note that a leader's snapshot stands for everything now."""
        self.index, self._size = snapshot.index, len(snapshot.data)
        self._asked = None

    def on_disk_progress(self) -> None:
        """Count from the beginning again once the log was rewritten."""
        if self._storage.entry_bytes < self._counted_from_bytes:
            self._counted_from_bytes = 0
