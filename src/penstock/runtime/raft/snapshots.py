"""When a member wants a snapshot of the machine, and how one is put in place.

    trim ─► asked ─► core.compact ─► disk queue ─► the log is rewritten without its prefix

A snapshot is wanted after enough entries, and not before the log has grown by as many bytes as the
last snapshot has. While one is being written, the count starts anew, so that no second is asked
for.

Source: Raft paper 7; controller/replicated_log.py (`trim`, `wants_snapshot`).
"""

from penstock.controller.replicated_log import MachineIndex
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
        """Raft index of the last entry that the newest snapshot covers."""
        self._size = len(found.data)
        self._counted_from_bytes = 0
        self._asked: tuple[MachineIndex, bytes] | None = None
        self._is_none_kept = False

    @property
    def are_wanted(self) -> bool:
        """Whether enough was appended since the last snapshot."""
        appended = self._storage.entry_bytes - self._counted_from_bytes
        return appended > max(self._after_bytes, self._size)

    def ask(self, machine_index: MachineIndex, state: bytes) -> None:
        """Accept the machine's state after an applied entry."""
        self._asked = (machine_index, state)
        self._counted_from_bytes = self._storage.entry_bytes

    def keep_none(self) -> None:
        """With the next snapshot, keep no entries for peers that are behind."""
        self._is_none_kept = True

    def hand_on(self, numbering: Numbering) -> None:
        """Give an accepted snapshot to core and disk.

        Not from within `apply`: the core counts an entry as applied only after `advance`.
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
        if snapshot is None:  # a newer one of a leader is being installed
            return
        numbering.rebase(raft_index, machine_index)
        self.index, self._size = snapshot.index, len(snapshot.data)
        self._disk.compact(snapshot)

    def on_installed(self, snapshot: Snapshot) -> None:
        """Note that a snapshot of a leader replaces the whole log."""
        self.index, self._size = snapshot.index, len(snapshot.data)
        self._asked = None

    def on_disk_progress(self) -> None:
        """Restart the count once the log was rewritten."""
        if self._storage.entry_bytes < self._counted_from_bytes:
            self._counted_from_bytes = 0
