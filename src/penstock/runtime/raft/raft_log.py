"""The metadata log, replicated by Raft: a ReplicatedLog around the Raft core.

    propose ─► waiting ─► core ─► Ready ─► send ─► disk queue ─► send ─► apply, answer ─► advance
    frame, tick, lost peer ──┘       └──────── one at a time, in order ────────┘

This is the loop that fulfils the driver's duties of raft/raft.py. The core has the rules, the
storage the files, the transport the links. The loop never blocks: disk work goes through Offload,
and a leader's messages are sent while its own write is in progress.

Proposals enter the core as one group while the disk is idle, after space was preallocated for them.
A full disk thus refuses them before anything has happened; proposals made during one fsync share
the next. A member whose disk fails, or that is closed, sends nothing more, which looks like a crash
to the others.

A process that is not a voter is a learner: it gets all entries and does not count. With a single
voter the log is committed as far as it is durable, and all of it is applied by `start`.

Source: controller/replicated_log.py (the port and its rules), raft/raft.py (the driver's duties).
"""

import logging
from collections.abc import Callable

from penstock.base.callbacks import nothing
from penstock.base.ids import ControllerEpoch, PeerId
from penstock.base.invariant import invariant
from penstock.base.ports import Cancellable
from penstock.controller.errors import (
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
    MetadataQueueFull,
)
from penstock.controller.replicated_log import (
    NO_LEADER,
    Leadership,
    MachineIndex,
    OnLeadership,
    ProposalDone,
    StateMachine,
)
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.errors import InvalidMessage
from penstock.raft.founding import Birth
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.messages import Message
from penstock.raft.raft import Raft
from penstock.raft.ready import Outgoing, Ready, Role, Snapshot
from penstock.runtime.raft.agreed import agreed_state
from penstock.runtime.raft.applying import Applying
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.dialling import Dialling
from penstock.runtime.raft.disk_queue import DiskEvents, DiskQueue
from penstock.runtime.raft.disk_stall import DiskStall
from penstock.runtime.raft.member_changes import MemberChanges
from penstock.runtime.raft.numbering import Numbering, machine_state
from penstock.runtime.raft.ports import RaftPorts
from penstock.runtime.raft.proposals import Proposals
from penstock.runtime.raft.proposing import Proposing
from penstock.runtime.raft.reads import Reads
from penstock.runtime.raft.snapshots import Snapshots
from penstock.runtime.raft.status import RaftStatus, peer_statuses
from penstock.runtime.raft.storage import RaftStorage
from penstock.runtime.raft.transport import RaftTransport
from penstock.runtime.raft.voters import Voters
from penstock.runtime.raft.waiting import Waiting

log = logging.getLogger(__name__)


class RaftLog:
    """See the module. All methods and callbacks run on the event loop."""

    def __init__(
        self,
        own_id: PeerId,
        storage: RaftStorage,
        transport: RaftTransport,
        ports: RaftPorts,
        config: RaftLogConfig,
    ) -> None:
        """Make the member from what `storage` has read; nothing runs before `start`.

        Raises:
            CorruptRaftState, CorruptMetadata: the files contradict each other.
        """
        found = storage.found
        self._own_id = own_id
        self._storage = storage
        self._transport = transport
        self._scheduler = ports.scheduler
        self._config = config
        self._core = Raft(
            own_id=own_id,
            config=config.core(),
            random_below=ports.random_below,
            hard_state=agreed_state(found, own_id, storage.directory_id),
            snapshot=found.snapshot,
            entries=found.entries,
            birth=Birth(directory_id=storage.directory_id, first_voters=storage.first_voters),
        )
        self._snapshot: Snapshot | None = found.snapshot
        self._numbering = Numbering(found.snapshot)
        events = DiskEvents(self._on_disk_progress, self._on_disk_full, self._on_disk_failed)
        self._disk = DiskQueue(storage, ports.offload, ports.scheduler, events)
        self._stall = DiskStall(self._core, self._disk, config)
        self._dialling = Dialling(self._core, transport, ports.address_of)
        self._snapshots = Snapshots(
            self._core, storage, self._disk, found.snapshot, config.snapshot_after_bytes
        )
        self._proposals = Proposals(ports.scheduler)
        self._proposing = Proposing(
            own_id, self._core, self._disk, self._proposals, config.group_bytes_max
        )
        self._reads = Reads(self._core, ports.scheduler)
        self._members = MemberChanges(ports.scheduler, 2 * config.election_timeout_max_ms)
        self.voters = Voters(self._core, self._members, self._refusal, self._work_later)
        """For operators: who votes, and who leads."""
        self._waiting = Waiting(self._core, config.tick_ms)
        self._applying = Applying(self._apply, ports.scheduler, self._work)
        self._machine: StateMachine | None = None
        self._leadership = Leadership(NO_LEADER, ControllerEpoch(self._core.term), False)
        self.on_leadership: OnLeadership | None = None
        self.on_fenced: Callable[[Exception], None] | None = None
        """Called once when the disk has failed and this member stops taking part."""
        self._fenced: MetadataLogFenced | None = None
        self._tick: Cancellable | None = None
        self._installing: Ready | None = None
        """Whose snapshot the machine is installing: what follows it has to wait."""
        self._is_installed = False
        self._is_working = False
        self._is_work_due = False

    # --- the port ------------------------------------------------------------------------------

    @property
    def leadership(self) -> Leadership:
        """The leader and term, as far as known here."""
        return self._leadership

    @property
    def applied_index(self) -> MachineIndex:
        """Machine index of the last entry applied, 0 for none."""
        return self._numbering.machine_index

    @property
    def is_fenced(self) -> bool:
        """Whether this member has stopped: its disk failed, or it was closed."""
        return self._fenced is not None

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was appended since the last snapshot for a new one."""
        return self._snapshots.are_wanted

    def start(self, machine: StateMachine) -> None:
        """Restore the machine from the snapshot, then join the group."""
        assert self._machine is None, "a log is started once"
        assert self._snapshot is not None
        self._machine = machine
        if self._snapshot.index:
            machine.restore(self.applied_index, machine_state(self._snapshot))
        self._snapshot = None
        self._storage.forget_found()
        self._transport.start(self)
        self._tick = self._scheduler.call_later(self._config.tick_ms, self._on_tick)
        self._work()
        self._applying.bound()

    def propose(self, payload: bytes, done: ProposalDone) -> None:
        """Queue an entry; `done` is called after it was applied, or with the error."""
        assert self._machine is not None, "start the log first"
        refusal = self._refusal()
        if refusal is not None:
            self._proposals.fail_later(done, refusal)
        else:
            self._proposals.add(payload, done)
            self._work_later()

    def confirm(self, done: ProposalDone) -> None:
        """Call `done` once a majority has confirmed that this member leads; see Reads."""
        self._reads.ask(done, self._refusal())
        self._work_later()

    def trim(self, index: MachineIndex, snapshot: bytes) -> None:
        """Replace the entries up to `index` by `snapshot` once the disk is free."""
        assert 0 < index <= self.applied_index, "a snapshot covers applied entries only"
        if self._fenced is None:
            self._snapshots.ask(index, snapshot)
            self._work_later()

    def forget(self, index: MachineIndex, snapshot: bytes) -> None:
        """Trim, and send a peer that is behind the snapshot rather than entries up to `index`."""
        self._snapshots.keep_none()
        self.trim(index, snapshot)

    def close(self) -> None:
        """Stop taking part and fail all proposals; a disk operation in progress finishes alone."""
        if self._fenced is None:
            self._fence("the node is stopping")

    # --- members -------------------------------------------------------------------------------

    def status(self) -> RaftStatus:
        """Return what this member knows of the group."""
        core = self._core
        return RaftStatus(
            own_id=self._own_id,
            own_directory_id=core.own_directory,
            role=str(core.role),
            term=core.term,
            leader_id=self._leadership.leader_id,
            commit_index=core.commit_index,
            applied_index=self._numbering.raft_index,
            last_index=core.last_index,
            snapshot_index=self._snapshots.index,
            is_fenced=self._fenced is not None,
            peers=peer_statuses(core, self._own_id, self._config.tick_ms),
        )

    @property
    def commit_index(self) -> RaftIndex:
        """Raft index of the last entry known to be committed."""
        return self._core.commit_index

    def term_at(self, index: RaftIndex) -> Term | None:
        """Return the term of the entry at a Raft index; None if compacted or not there."""
        return self._core.term_at(index)

    @property
    def is_voter(self) -> bool:
        """Whether this member is a voter in the newest configuration of its log."""
        return self._core.role is not Role.LEARNER

    # --- input ---------------------------------------------------------------------------------

    def on_frame(self, peer_id: PeerId, frame: memoryview) -> None:
        """Process a message of a peer. Raises InvalidMessage, PeerMessageError."""
        self.on_message(peer_id, RAFT_CODEC.decode(frame))

    def on_message(self, peer_id: PeerId, message: Message) -> None:
        """Process a message of a peer that was decoded in slices. Raises InvalidMessage."""
        if self._fenced is not None:
            return
        if message.sender != peer_id:
            raise InvalidMessage(f"peer {peer_id} says that it is {message.sender}")
        self._core.step(message)
        self._work()

    def on_peer_lost(self, peer_id: PeerId) -> None:
        """Tell the core that the peer's links are closed, so that it is probably dead."""
        if self._fenced is None:
            self._core.peer_lost(peer_id)
            self._work()

    def _on_disk_progress(self) -> None:
        """Continue with what has become durable."""
        self._snapshots.on_disk_progress()
        self._work()

    def _on_disk_full(self, error: MetadataLogFull) -> None:
        """Refuse the waiting proposals; those in flight stay so until the write succeeds."""
        self._proposals.fail_waiting(error)

    def _on_disk_failed(self, error: MetadataLogFenced) -> None:
        """Stop taking part, and report it through `on_fenced`."""
        log.critical("metadata log fenced: %s; check the disk and restart the node", error)
        self._fence(str(error))
        if self.on_fenced is not None:
            self.on_fenced(error)

    def _on_tick(self) -> None:
        if self._fenced is not None:
            return
        self._tick = self._scheduler.call_later(self._config.tick_ms, self._on_tick)
        self._core.tick()
        self._disk.tick()
        self._waiting.tick()
        self._make_way_if_stalled()
        self._work()

    def _make_way_if_stalled(self) -> None:
        """Transfer leadership if the own disk hangs: heartbeats alone would keep it for ever."""
        if self._leadership.is_leader and (to := self._stall.successor()) is not None:
            self.voters.transfer(to, nothing)

    # --- the loop ------------------------------------------------------------------------------

    def _work_later(self) -> None:
        if not self._is_work_due:
            self._is_work_due = True
            self._scheduler.call_soon(self._work)

    def _work(self) -> None:
        """Process everything that is ready."""
        self._is_work_due = False
        if self._is_working or self._fenced is not None:
            return
        self._is_working = True
        try:
            while self._step():
                pass
            self._notice_loss()
            if self._applying.ready is None:
                self._snapshots.hand_on(self._numbering)
            self._disk.pump()
            self._dialling.update()
        finally:
            self._is_working = False

    def _step(self) -> bool:
        """Do the next step; return False when there is nothing to do."""
        if self._fenced is not None:
            return False
        if (ready := self._core.ready()) is not None:
            self._send(ready.messages)
            self._disk.put(ready)
        elif self._installing is not None:
            return self._go_on_installing(self._installing)
        elif self._applying.ready is not None:
            return self._go_on_applying()
        elif (ready := self._disk.take()) is not None:
            self._finish(ready)
        else:
            return self._proposing.propose_waiting()
        return True

    def _finish(self, ready: Ready) -> None:
        """Act on `ready`, all of which is durable now."""
        self._send(ready.messages_persisted)
        if ready.snapshot is not None:
            self._install(ready, ready.snapshot)
        else:
            self._applying.begin(ready)

    def _go_on_applying(self) -> bool:
        """Apply what a Ready commits, then conclude it; return False while some is left."""
        if (ready := self._applying.go_on()) is not None:
            self._conclude(ready)
        return ready is not None

    def _conclude(self, ready: Ready) -> None:
        """Act on what `ready` says of the group, now that the machine has all that it commits."""
        if ready.committed:
            last = ready.committed[-1]
            self._disk.mark_commit(last.index, last.term)
        if ready.leadership is not None and ready.leadership.term >= self._leadership.term:
            leader_id, term, is_leader = ready.leadership
            self._lead(Leadership(leader_id, ControllerEpoch(term), is_leader))
        self._reads.answer(ready.reads, self.applied_index)
        self._core.advance(ready)

    def _send(self, messages: tuple[Outgoing, ...]) -> None:
        for to, message in messages:
            self._transport.send(to, *RAFT_CODEC.encode(message))

    def _install(self, ready: Ready, snapshot: Snapshot) -> None:
        assert self._machine is not None
        numbering = Numbering(snapshot)
        invariant(
            numbering.machine_index >= self.applied_index,
            "a snapshot never moves backwards",
            index=numbering.machine_index,
            applied=self.applied_index,
        )
        self._installing, self._is_installed = ready, False
        self._snapshots.on_installed(snapshot)

        def done() -> None:
            self._numbering = numbering
            self._is_installed = True
            log.info("metadata snapshot installed up to entry=%d", numbering.machine_index)
            self._work_later()

        self._machine.install_snapshot(numbering.machine_index, machine_state(snapshot), done)

    def _go_on_installing(self, ready: Ready) -> bool:
        """Finish the Ready whose snapshot is installed; return False while it is not."""
        if self._is_installed:
            self._installing = None
            self._applying.begin(ready)
        return self._is_installed

    def _apply(self, entry: Entry) -> bool:
        """Apply one committed entry; return False if a callback has closed the log."""
        assert self._machine is not None
        machine_index = self._numbering.take(entry)
        if machine_index is not None:
            self._machine.apply(machine_index, entry.payload)
            self._proposals.on_applied(entry.index, entry.term, machine_index)
        elif entry.kind is EntryKind.CONFIGURATION:
            log.info("controllers are now %s", self._core.configuration.addresses)
            self._members.on_configured(entry.index)
        return self._fenced is None

    def _notice_loss(self) -> None:
        """Report a loss of leadership at once, even while the disk is busy."""
        now, held = self._core.leadership, self._leadership
        term = ControllerEpoch(now.term)
        if held.is_leader and (term, now.is_leader) != (held.term, True):
            self._lead(Leadership(now.leader_id, term, False))

    def _lead(self, leadership: Leadership) -> None:
        before, self._leadership = self._leadership, leadership
        if leadership == before:
            return
        log.info(
            "metadata term=%d leader=%d is_leader=%s",
            leadership.term, leadership.leader_id, leadership.is_leader,
        )  # fmt: skip
        if self.on_leadership is not None:
            self.on_leadership(leadership)
        if before.is_leader and leadership[1:] != before[1:]:
            error = self._proposing.not_active(leadership.leader_id)
            self._proposals.fail_all(error)
            self._reads.fail_all(error)
            self._members.fail_changes(error)
        self._members.on_leader(leadership.leader_id)

    def _refusal(self) -> MetadataError | None:
        """Return why a proposal is refused now, or None."""
        if self._fenced is not None:
            return self._fenced
        if not self._leadership.is_leader:
            return self._proposing.not_active(self._leadership.leader_id)
        if self._proposals.count >= self._config.proposals_max:
            return MetadataQueueFull(self._config.proposals_max)
        if self._disk.is_waiting_for_room:
            return MetadataLogFull("no room for a metadata entry: free space on the disk")
        return None

    def _fence(self, reason: str) -> None:
        self._fenced = MetadataLogFenced(f"metadata log takes no more changes: {reason}")
        if self._tick is not None:
            self._tick.cancel()
        if self._installing is not None:
            assert self._machine is not None
            self._installing = None
            self._machine.abandon_install()
        self._disk.close()
        self._transport.close()
        leadership = Leadership(NO_LEADER, self._leadership.term, False)
        if self._leadership != leadership:
            self._leadership = leadership
            if self.on_leadership is not None and self._machine is not None:
                self.on_leadership(leadership)
        self._proposals.fail_all(self._fenced)
        self._reads.fail_all(self._fenced)
        self._members.fail_all(self._fenced)
