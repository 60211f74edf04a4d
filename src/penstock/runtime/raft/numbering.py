"""Two numberings of one log: Raft's indexes, and the state machine's, for normal entries only.

    Raft      1 no-op   2 a   3 b   4 no-op   5 configuration   6 c
    machine             1     2                                 3

A snapshot begins with the number of normal entries that it covers, in front of the machine's own
bytes, so that every member numbers alike wherever its log begins. Between the snapshot and the
applied index only the other entries are remembered: one for each election and change of voters.

Source: the port numbers entries 1, 2, 3, ... (controller/replicated_log.py, rule 1); Raft paper 8
and 6 for the entries that the machine never gets.
"""

import struct
from bisect import bisect_right

from penstock.controller.errors import CorruptMetadata
from penstock.controller.replicated_log import NO_ENTRY, MachineIndex
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import RaftIndex
from penstock.raft.ready import Snapshot

_COUNT = struct.Struct(">Q")


class Numbering:
    """The numbering of one member's log from a snapshot on."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Begin after `snapshot`. Raises CorruptMetadata if it has no count."""
        self.raft_index = snapshot.index
        """Raft index of the last entry taken."""
        self.machine_index = NO_ENTRY
        """Machine index of the last normal entry taken."""
        if snapshot.index:
            if len(snapshot.data) < _COUNT.size:
                raise CorruptMetadata("a Raft snapshot without a count of the entries it covers")
            (self.machine_index,) = _COUNT.unpack_from(snapshot.data)
        self._other_indexes: list[RaftIndex] = []
        self._base = (self.raft_index, self.machine_index)

    def take(self, entry: Entry) -> MachineIndex | None:
        """Number the next entry; return its machine index, or None if it has none."""
        assert entry.index == self.raft_index + 1, (entry.index, self.raft_index)
        self.raft_index = entry.index
        if entry.kind is not EntryKind.NORMAL:
            self._other_indexes.append(entry.index)
            return None
        self.machine_index = MachineIndex(self.machine_index + 1)
        return self.machine_index

    def has_behind_snapshot(self, machine_index: MachineIndex) -> bool:
        """Whether normal entry `machine_index` was taken and is not covered by the snapshot."""
        return self._base[1] < machine_index <= self.machine_index

    def raft_index_of(self, machine_index: MachineIndex) -> RaftIndex:
        """Return the Raft index of a normal entry after the last snapshot."""
        assert self.has_behind_snapshot(machine_index), machine_index
        base_raft, base_machine = self._base
        index: int = base_raft + machine_index - base_machine
        for other in self._other_indexes:
            if other > index:
                break
            index += 1
        return RaftIndex(index)

    def rebase(self, raft_index: RaftIndex, machine_index: MachineIndex) -> None:
        """Forget the entries up to `raft_index`, which a snapshot covers now."""
        del self._other_indexes[: bisect_right(self._other_indexes, raft_index)]
        self._base = (raft_index, machine_index)


def wrap_state(machine_index: MachineIndex, state: bytes) -> bytes:
    """Return a snapshot's data: the count, then the machine's bytes."""
    return _COUNT.pack(machine_index) + state


def machine_state(snapshot: Snapshot) -> memoryview:
    """Return the machine's bytes in a snapshot."""
    return memoryview(snapshot.data)[_COUNT.size :]
