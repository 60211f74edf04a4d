"""The metadata log that several processes keep: a ReplicatedLog on the Raft core.

    propose ─► waiting ─► core ─► Ready ─► send ─► disk queue ─► send ─► apply, answer ─► advance
    frame, tick, lost peer ──┘       └──────── one at a time, in order ────────┘

This is the loop of raft/raft.py's duties and nothing else: rules are the core's, files the
storage's, links the transport's. The loop never waits: the disk's work goes through the Offload,
and a leader's messages go out while its own write is under way.

Proposals enter the core while the disk is idle, as one group, after space was set aside for them. A
full disk thus refuses them before anything has happened; what is proposed during one fsync shares
the next. A member whose disk fails, or that is closed, says nothing more to anybody, which to the
others is a death.

A process that is not among the voters is a learner: it gets everything and counts for nothing. With
itself as the only voter, a log is agreed as far as it is on disk, and all of it is applied by
`start`.

Source: controller/replicated_log.py (the port and its rules), raft/raft.py (the driver's duties).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.errors import PlatformError
from penstock.base.invariant import invariant
from penstock.base.ports import Cancellable, Offload, Scheduler
from penstock.controller.errors import (
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
    MetadataPolicyViolation,
    MetadataQueueFull,
    NotActiveController,
)
from penstock.controller.replicated_log import (
    NO_LEADER,
    Leadership,
    OnLeadership,
    ProposalDone,
    StateMachine,
)
from penstock.raft.entry import EntryKind
from penstock.raft.errors import (
    InvalidMessage,
    ProposalDropped,
    ProposalQueueFull,
    ProposalTooLarge,
)
from penstock.raft.founding import Birth
from penstock.raft.raft import Raft
from penstock.raft.ready import Outgoing, Ready, Role, Snapshot
from penstock.runtime.raft.agreed import agreed_state
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.disk_queue import DiskQueue
from penstock.runtime.raft.member_changes import MemberChanges, MemberDone
from penstock.runtime.raft.numbering import Numbering, machine_state
from penstock.runtime.raft.proposals import Proposals
from penstock.runtime.raft.reads import Reads
from penstock.runtime.raft.snapshots import Snapshots
from penstock.runtime.raft.status import RaftStatus, peer_statuses
from penstock.runtime.raft.storage import RaftStorage
from penstock.runtime.raft.transport import Address, RaftTransport, parse_address
from penstock.runtime.raft.waiting import Waiting

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftPorts:
    """What the log needs of the outside."""

    offload: Offload
    scheduler: Scheduler
    random_below: Callable[[int], int]
    """`random_below(n)` returns 0 to n - 1; elections of two voters must not draw alike."""

    address_of: Callable[[int, str], Address] = lambda _, text: parse_address(text)
    """Where a voter is reached, by its id and what the configuration says: a voter that was alone
    when the log began stands there without an address. Port 0: nowhere, it is not dialled."""


class RaftLog:
    """See the module. All methods and callbacks are for the loop."""

    def __init__(
        self,
        own_id: int,
        storage: RaftStorage,
        transport: RaftTransport,
        ports: RaftPorts,
        config: RaftLogConfig,
    ) -> None:
        """Make the member out of what `storage` found; nothing runs before `start`.

        Raises:
            CorruptRaftState, CorruptMetadata: the files contradict each other.
        """
        found = storage.found
        self._own_id = own_id
        self._storage = storage
        self._transport = transport
        self._scheduler = ports.scheduler
        self._address_of = ports.address_of
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
        self._disk = DiskQueue(storage, ports.offload, ports.scheduler, self)
        self._snapshots = Snapshots(
            self._core, storage, self._disk, found.snapshot, config.snapshot_after_bytes
        )
        self._proposals = Proposals(ports.scheduler)
        self._reads = Reads(self._core, ports.scheduler)
        self._members = MemberChanges(ports.scheduler, 2 * config.election_timeout_max_ms)
        self._waiting = Waiting(self._core, config.tick_ms)
        self._machine: StateMachine | None = None
        self._leadership = Leadership(NO_LEADER, self._core.term, False)
        self.on_leadership: OnLeadership | None = None
        self.on_fenced: Callable[[Exception], None] | None = None
        """Called once when the disk has failed; this member takes part in nothing any more."""
        self._fenced: MetadataLogFenced | None = None
        self._dialled: tuple[tuple[int, str], ...] = ()
        self._tick: Cancellable | None = None
        self._is_working = False
        self._is_work_due = False

    # --- the port ------------------------------------------------------------------------------

    @property
    def leadership(self) -> Leadership:
        """Who leads, as far as is known here."""
        return self._leadership

    @property
    def applied_index(self) -> int:
        """Index of the last entry given to the machine, 0 for none."""
        return self._numbering.machine_index

    @property
    def is_fenced(self) -> bool:
        """Whether this member takes part in nothing any more."""
        return self._fenced is not None

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was appended since the last snapshot."""
        return self._snapshots.are_wanted

    def start(self, machine: StateMachine) -> None:
        """Give the machine what is known to be agreed, and begin to take part."""
        assert self._machine is None, "a log is started once"
        assert self._snapshot is not None
        self._machine = machine
        if self._snapshot.index:
            machine.install_snapshot(self.applied_index, machine_state(self._snapshot))
        self._snapshot = None
        self._storage.forget_found()
        self._transport.start(self)
        self._tick = self._scheduler.call_later(self._config.tick_ms, self._on_tick)
        self._work()

    def propose(self, payload: bytes, done: ProposalDone) -> None:
        """Queue an entry; `done` comes after it was applied, or with what went wrong."""
        assert self._machine is not None, "start the log first"
        refusal = self._refusal()
        if refusal is not None:
            self._proposals.fail_later(done, refusal)
        else:
            self._proposals.add(payload, done)
            self._work_later()

    def confirm(self, done: ProposalDone) -> None:
        """Ask whether this member leads now; see Reads."""
        self._reads.ask(done, self._refusal())
        self._work_later()

    def trim(self, index: int, snapshot: bytes) -> None:
        """Put `snapshot` in place of the entries up to `index` when the disk is free."""
        assert 0 < index <= self.applied_index, "a snapshot stands for applied entries"
        if self._fenced is None:
            self._snapshots.ask(index, snapshot)
            self._work_later()

    def forget(self, index: int, snapshot: bytes) -> None:
        """Trim, and send no entry up to `index` to a peer that is late: it gets the snapshot."""
        self._snapshots.keep_none()
        self.trim(index, snapshot)

    def close(self) -> None:
        """Take part no longer, fail what waits; an operation under way finishes on its own."""
        if self._fenced is None:
            self._fence("the node is stopping")

    # --- members -------------------------------------------------------------------------------

    def add_voter(
        self, peer_id: int, address: str, done: MemberDone, directory_id: str | None = None
    ) -> None:
        """Make a learner that has caught up a voter, reached at `address` (host:port).

        It votes with the directory that it runs with; refused if that is not `directory_id`.
        """
        core = self._core
        add = lambda: core.add_voter(peer_id, address, directory_id)  # noqa: E731  two of one kind
        self._members.change(add, self._refusal(), done)
        self._work_later()

    def remove_voter(self, peer_id: int, done: MemberDone, directory_id: str | None = None) -> None:
        """Make a voter a learner. A leader that removes itself steps down after the commit.

        Refused if it votes with another directory than `directory_id`.
        """
        core = self._core
        remove = lambda: core.remove_voter(peer_id, directory_id)  # noqa: E731  two of one kind
        self._members.change(remove, self._refusal(), done)
        self._work_later()

    def transfer(self, to: int, done: MemberDone) -> None:
        """Hand leadership to voter `to`; `done` comes when it leads, or when it did not."""
        self._members.transfer(lambda: self._core.transfer(to), to, self._refusal(), done)
        self._work_later()

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
    def commit_index(self) -> int:
        """Last entry that is known to be agreed on, as Raft counts."""
        return self._core.commit_index

    def term_at(self, index: int) -> int | None:
        """Return the term of an entry, as Raft counts; None if it is forgotten or not there."""
        return self._core.term_at(index)

    @property
    def is_voter(self) -> bool:
        """Whether this member votes, as its log has it now."""
        return self._core.role is not Role.LEARNER

    # --- what comes in -------------------------------------------------------------------------

    def on_frame(self, peer_id: int, frame: memoryview) -> None:
        """Take a message of a peer. Raises InvalidMessage, PeerMessageError."""
        if self._fenced is not None:
            return
        message = RAFT_CODEC.decode(frame)
        if message.sender != peer_id:
            raise InvalidMessage(f"peer {peer_id} says that it is {message.sender}")
        self._core.step(message)
        self._work()

    def on_peer_lost(self, peer_id: int) -> None:
        """Tell the core that the peer is probably dead."""
        if self._fenced is None:
            self._core.peer_lost(peer_id)
            self._work()

    def on_disk_progress(self) -> None:
        """Go on with what has become durable."""
        self._snapshots.on_disk_progress()
        self._work()

    def on_disk_full(self, error: MetadataLogFull) -> None:
        """Refuse what waits; entries that are on their way stay on it."""
        self._proposals.fail_waiting(error)

    def on_disk_failed(self, error: MetadataLogFenced) -> None:
        """Take part no longer."""
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
        """Hand leadership on when the own disk hangs: heartbeats alone would keep it for ever."""
        stalled_ms = self._disk.busy_ticks * self._config.tick_ms
        if not self._leadership.is_leader or stalled_ms < self._config.disk_stall_ms:
            return
        others = [one for one in self._core.progress if one.is_voter]
        quiet_ticks = 2 * self._config.core().heartbeat_ticks
        if others and self._core.role is Role.LEADER:
            best = min(others, key=lambda one: (one.silent_ticks // quiet_ticks, -one.match_index))
            log.warning("disk busy for %d ms: leadership goes to %d", stalled_ms, best.peer_id)
            self._disk.restart_ticks()
            self.transfer(best.peer_id, _ignore)

    # --- the loop ------------------------------------------------------------------------------

    def _work_later(self) -> None:
        if not self._is_work_due:
            self._is_work_due = True
            self._scheduler.call_soon(self._work)

    def _work(self) -> None:
        """Do everything that can be done now."""
        self._is_work_due = False
        if self._is_working or self._fenced is not None:
            return
        self._is_working = True
        try:
            while self._step():
                pass
            self._notice_loss()
            self._snapshots.hand_on(self._numbering)
            self._disk.pump()
            self._set_peers()
        finally:
            self._is_working = False

    def _step(self) -> bool:
        """Do the next thing; return False when there is nothing left but to wait."""
        if self._fenced is not None:
            return False
        if (ready := self._core.ready()) is not None:
            self._send(ready.messages)
            self._disk.put(ready)
        elif (ready := self._disk.take()) is not None:
            self._finish(ready)
        else:
            return self._propose_waiting()
        return True

    def _finish(self, ready: Ready) -> None:
        """Do what may be done now that everything in `ready` is durable."""
        self._send(ready.messages_persisted)
        if ready.snapshot is not None:
            self._install(ready.snapshot)
        self._apply(ready)
        if self._fenced is not None:  # a callback has closed the log
            return
        if ready.leadership is not None and ready.leadership.term >= self._leadership.term:
            self._lead(Leadership(*ready.leadership))
        self._reads.answer(ready.reads, self.applied_index)
        self._core.advance(ready)

    def _send(self, messages: tuple[Outgoing, ...]) -> None:
        for to, message in messages:
            self._transport.send(to, *RAFT_CODEC.encode(message))

    def _install(self, snapshot: Snapshot) -> None:
        assert self._machine is not None
        numbering = Numbering(snapshot)
        invariant(
            numbering.machine_index >= self.applied_index,
            "a snapshot never goes back",
            index=numbering.machine_index,
            applied=self.applied_index,
        )
        self._numbering = numbering
        self._snapshots.on_installed(snapshot)
        log.info("metadata snapshot installed up to entry=%d", numbering.machine_index)
        self._machine.install_snapshot(numbering.machine_index, machine_state(snapshot))

    def _apply(self, ready: Ready) -> None:
        assert self._machine is not None
        for entry in ready.committed:
            machine_index = self._numbering.take(entry)
            if machine_index is not None:
                self._machine.apply(machine_index, entry.payload)
                self._proposals.on_applied(entry.index, entry.term, machine_index)
            elif entry.kind is EntryKind.CONFIGURATION:
                log.info("controllers are now %s", self._core.configuration.addresses)
                self._members.on_configured(entry.index)
            if self._fenced is not None:
                return
        if ready.committed:
            last = ready.committed[-1]
            self._disk.mark_commit(last.index, last.term)

    def _notice_loss(self) -> None:
        """Tell at once that this member leads no longer, however long its disk takes."""
        now, held = self._core.leadership, self._leadership
        if held.is_leader and (now.term, now.is_leader) != (held.term, True):
            self._lead(Leadership(now.leader_id, now.term, False))

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
            error = self._not_active(leadership.leader_id)
            self._proposals.fail_all(error)
            self._reads.fail_all(error)
            self._members.fail_changes(error)
        self._members.on_leader(leadership.leader_id)

    def _propose_waiting(self) -> bool:
        """Hand the next group to the core if the disk can take it at once."""
        if not (self._proposals.has_waiting and self._disk.is_idle):
            return False
        count, size = self._proposals.waiting_group(self._config.group_bytes_max)
        if size > self._disk.room_bytes:
            self._disk.reserve(size, lambda error: self._on_reserved(count, error))
            return False
        self._propose_group(count)
        return True

    def _on_reserved(self, count: int, error: BaseException | None) -> None:
        if isinstance(error, MetadataError):
            for _, done in self._proposals.take(count):
                self._proposals.fail_later(done, error)
        else:
            self._propose_group(count)

    def _propose_group(self, count: int) -> None:
        for payload, done in self._proposals.take(count):
            try:
                index = self._core.propose(payload)
            except ProposalDropped as error:
                self._proposals.fail_later(done, self._not_active(error.leader_id))
            except ProposalQueueFull:
                self._proposals.fail_later(done, MetadataQueueFull(self._proposals.count))
            except ProposalTooLarge as error:
                self._proposals.fail_later(done, MetadataPolicyViolation(str(error)))
            else:
                self._proposals.opened(index, self._core.term, done)

    def _refusal(self) -> MetadataError | None:
        """Return why nothing can be proposed now."""
        if self._fenced is not None:
            return self._fenced
        if not self._leadership.is_leader:
            return self._not_active(self._leadership.leader_id)
        if self._proposals.count >= self._config.proposals_max:
            return MetadataQueueFull(self._config.proposals_max)
        if self._disk.is_waiting_for_room:
            return MetadataLogFull("no room for a metadata entry: free space on the disk")
        return None

    def _not_active(self, leader_id: int) -> NotActiveController:
        """Name the leader; a leader that is not ready, or is handing over, is none to be asked."""
        return NotActiveController(NO_LEADER if leader_id == self._own_id else leader_id)

    def _set_peers(self) -> None:
        """Dial the voters that there are now."""
        wanted = self._core.peers_to_dial
        if wanted != self._dialled:
            self._dialled = wanted
            places = {peer: self._address_of(peer, text) for peer, text in wanted}
            self._transport.set_peers({peer: place for peer, place in places.items() if place[1]})

    def _fence(self, reason: str) -> None:
        self._fenced = MetadataLogFenced(f"metadata log takes no more changes: {reason}")
        if self._tick is not None:
            self._tick.cancel()
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


def _ignore(_: PlatformError | None) -> None:
    """Stand for an answer that nobody waits for."""
