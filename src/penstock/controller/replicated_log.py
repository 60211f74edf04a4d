"""The consensus port: an ordered log of entries that survive, whoever keeps it.

    propose(payload, done) ─► durable / agreed ─► machine.apply(index, payload) ─► done(index)
    confirm(done)          ─► nobody else led when it was asked ─► done(applied index)
    trim(index, snapshot)  ─► entries up to index may go; a later start begins with the snapshot
    forget(index, snapshot) ─► they go, and nobody gets them any more

The controller's driver does not know whether one disk or a Raft group stands behind it. The rules,
checked for every implementation by tests/controller/replicated_log_contract.py (one log that leads)
and replicated_group_contract.py (several members):

1. Entries get indexes 1, 2, 3, ... and are applied in this order, each once between two starts.
2. An entry is applied only when no crash can take it back. `done(index)` follows its `apply`.
3. `done(error)` may come for an entry whose fate is open; it is never applied later in this
   process unless it was agreed on, and then it is applied like any other.
4. After a start the machine gets the newest snapshot, if there is one, then all entries behind it.
   A snapshot may come later too, where this process was too far behind for entries. The machine
   may take several turns of the loop to install it; nothing is applied until it says that it has.
5. Only the leader's proposals are taken; others fail with NotActiveController at once.
   There is at most one leader per term, and `is_leader` only comes when all earlier entries are
   applied. A leader that was replaced hears of it through `on_leadership` before or with the
   failure of its open proposals.
6. `confirm` is answered with an index only if no later leader had been elected when it was called:
   what this process had applied by then was the newest. On other processes it fails with
   NotActiveController; a leader waits until it knows that it still leads, or is replaced.
7. Callbacks come on the owner's loop and may call `propose`, `trim` and `forget`.

Source: the interface that KRaft's RaftClient gives its controller; Raft paper 7 for snapshots, 8
for `confirm`. Reads that may be old need no log: the owner reads its image.
"""

from collections.abc import Callable
from typing import NamedTuple, NewType, Protocol

from penstock.base.ids import ControllerEpoch, PeerId
from penstock.base.ports import Buffer
from penstock.controller.errors import MetadataError

MachineIndex = NewType("MachineIndex", int)
"""Number of an entry as the machine gets them: 1, 2, 3, ... What keeps the log may number its own
entries otherwise (runtime/raft/numbering.py)."""
NO_ENTRY = MachineIndex(0)
"""Before the first entry."""

ProposalDone = Callable[[MachineIndex | MetadataError], None]
"""Receives the entry's index after it was applied, or the error why it was not taken."""

NO_LEADER = PeerId(-1)


class Leadership(NamedTuple):
    """The leader of the log, as this process knows it."""

    leader_id: PeerId
    """NO_LEADER while there is none or none is known."""
    term: ControllerEpoch
    """Grows with every leader."""
    is_leader: bool
    """Whether it is this process, and everything that earlier leaders committed is applied here."""


OnLeadership = Callable[[Leadership], None]


class StateMachine(Protocol):
    """The state machine that the log applies its entries to."""

    def restore(self, index: MachineIndex, snapshot: Buffer) -> None:
        """At a start, begin with `snapshot`: it stands for the entries up to and with `index`."""

    def install_snapshot(
        self, index: MachineIndex, snapshot: Buffer, done: Callable[[], None]
    ) -> None:
        """Replace all state by `snapshot`, at once or over several turns of the loop.

        `done` is called once, in the call in which it is replaced and before anybody hears of it:
        whoever then asks for `applied_index` gets that of the snapshot. Until then nothing is
        applied, and the machine has its old state; after `abandon_install` it keeps that, and
        `done` is not called.
        """

    def abandon_install(self) -> None:
        """Install no more of a snapshot that is being installed: the log was closed."""

    def apply(self, index: MachineIndex, payload: Buffer) -> None:
        """Apply one committed entry; `payload` is valid during the call only."""


class ReplicatedLog(Protocol):
    """A replicated log. Before `start` it only holds what was on disk."""

    def start(self, machine: StateMachine) -> None:
        """Apply to `machine` what is committed, now and from now on. Called once."""

    def propose(self, payload: bytes, done: ProposalDone) -> None:
        """Ask for `payload` to become the next entry. `done` is called exactly once, later."""

    def confirm(self, done: ProposalDone) -> None:
        """Ask whether this process led at this moment. `done` is called exactly once, later."""

    def trim(self, index: MachineIndex, snapshot: bytes) -> None:
        """Keep `snapshot` in place of the entries up to and with `index`, all of them applied.

        The log may keep some of the last entries, for processes that are slightly behind.
        """

    def forget(self, index: MachineIndex, snapshot: bytes) -> None:
        """Trim, and keep none: a process that lacks one of the entries gets the snapshot.

        For entries that not everybody shall have to read.
        """

    @property
    def leadership(self) -> Leadership:
        """The current leader, as far as this process knows."""

    on_leadership: OnLeadership | None
    """Called on the loop after every change of `leadership`; set it before `start`."""

    @property
    def applied_index(self) -> MachineIndex:
        """Index of the last entry given to the machine, 0 for none."""

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was appended since the last snapshot that `trim` is worth its cost."""

    def close(self) -> None:
        """Take no more proposals, fail the open ones, close the files."""
