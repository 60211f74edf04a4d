"""The master's end of all replication links: admits sessions and schedules what they are sent.

    link (slave process) ──┬── session set 1 ┐   round robin: one run each, while it is writable
                           ├── session set 4 ├─► link
                           └── session set 9 ┘

One link carries all sets that this broker leads and that process follows. One loop iteration sends
a limited number of runs; a session wakes its link when bytes were written, when the confirm
position has advanced and when something was acknowledged.

Every run carries the confirm position. A frame of its own carries it only after a few milliseconds
without a run: it would cost each slave a second wake-up for every record, and only consumers that
read from a slave wait for it.

Acknowledgements for a set count only after a handshake on the same link; the replica id in the
handshake must be the one that the controllers have recorded for that broker (RocketMQ #3015).
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import assert_never

from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaId, ReplicaSetId
from penstock.base.ports import Cancellable, Clock, Scheduler
from penstock.net.peer import PeerLink
from penstock.replica.copy_turns import CopyTurns
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.slave_session import SlaveSession
from penstock.replication.config import ReplicationConfig
from penstock.replication.copy_pace import CopyPace
from penstock.replication.messages import (
    Acknowledge,
    BaseBytes,
    BaseBytesWanted,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    KeepAlive,
    LogRun,
    Manifest,
    ManifestWanted,
    Reason,
    Refused,
)
from penstock.runtime.ha.live_link import LiveLink

RUNS_PER_TURN = 8
"""Runs that one link sends in one iteration of the event loop."""
CONFIRM_DELAY_MS = 5
"""How long a new confirm position waits for a run to carry it."""

log = logging.getLogger(__name__)

ReplicaIdOf = Callable[[ReplicaSetId, BrokerId], ReplicaId | None]
"""(set id, broker id) -> the recorded replica id, or None."""
NewestEpochOf = Callable[[ReplicaSetId], LeaderEpoch]


class HaServer:
    """All sets that this broker leads, and the links of their slaves."""

    def __init__(
        self,
        *,
        config: ReplicationConfig,
        clock: Clock,
        scheduler: Scheduler,
        replica_id_of: ReplicaIdOf,
        newest_epoch_of: NewestEpochOf,
    ) -> None:
        self.config = config
        self.clock = clock
        self.scheduler = scheduler
        self.replica_id_of = replica_id_of
        self.newest_epoch_of = newest_epoch_of
        self.sets: dict[ReplicaSetId, MasterSet] = {}
        self.links: list[ServedLink] = []
        self.turns = CopyTurns(CopyPace(config.copy_bytes_per_second, clock), scheduler)
        """The rate of what members are sent that are not in step, over all links."""

    def use_config(self, config: ReplicationConfig) -> None:
        """Go by what can change while the process runs: the rate of copies."""
        self.turns.use_rate(config.copy_bytes_per_second)

    def on_link(self, link: PeerLink) -> None:
        """Accept the link of a slave's process."""
        served = ServedLink(self, link)
        self.links.append(served)
        log.info("slave=%d connected from=%s", link.hello.peer_id, link.address)

    def lead(self, master_set: MasterSet) -> None:
        """Let slaves follow a set from now on."""
        member = master_set.member
        self.sets[member.replica_set_id] = master_set
        for listeners in (member.on_written, member.on_confirmed):
            if self._wake not in listeners:
                listeners.append(self._wake)

    def unlead(self, replica_set_id: ReplicaSetId) -> None:
        """End a mastership and its sessions; the slaves are notified."""
        master_set = self.sets.pop(replica_set_id, None)
        if master_set is not None:
            master_set.end(self.newest_epoch_of(replica_set_id))
            for listeners in (master_set.member.on_written, master_set.member.on_confirmed):
                if self._wake in listeners:
                    listeners.remove(self._wake)

    def tick(self) -> None:
        """Check time-outs; call several times in each keep-alive interval."""
        for master_set in list(self.sets.values()):
            master_set.tick()
        self.turns.look()
        for served in list(self.links):
            served.live.tick()

    def stop(self) -> None:
        """End every mastership and close every link."""
        for replica_set_id in list(self.sets):
            self.unlead(replica_set_id)
        for served in list(self.links):
            served.live.link.close("the broker stops")

    def _wake(self, member: ReplicaSetMember) -> None:
        master_set = self.sets.get(member.replica_set_id)
        if master_set is not None:
            for session in tuple(master_set.sessions.values()):
                session.wake()


class ServedLink:
    """The link of one slave's process."""

    def __init__(self, server: HaServer, link: PeerLink) -> None:
        self._server = server
        self._sessions: dict[ReplicaSetId, SlaveSession] = {}
        self._ready: deque[SlaveSession] = deque()
        self._queued: dict[SlaveSession, None] = {}
        self._turn: Cancellable | None = None
        self._owing: dict[ReplicaSetId, SlaveSession] = {}
        """Sessions with a new confirm position and no run to carry it."""
        self._confirm_timer: Cancellable | None = None
        self.live = LiveLink(link, server.clock, server.config)
        link.on_writable = self._schedule
        link.on_closed = self._on_closed
        link.on_frame = self._on_frame

    def _on_frame(self, frame: memoryview) -> None:
        self.live.take(frame, self._handle, self._report_violation)

    def _handle(self, message: HaMessage) -> None:
        match message:
            case Acknowledge():
                session = self._session_of(message)
                if session is not None and not session.acknowledge(message):
                    self._report_violation(f"acknowledged {message.position}, which was not sent")
            case Hello():
                self._greet(message)
            case Begin() | ManifestWanted() | BaseBytesWanted():
                self._ask(message)
            case Goodbye():
                session = self._session_of(message)
                if session is not None:
                    self._end(session)
            case KeepAlive():
                pass
            case HelloAnswer() | Refused() | LogRun() | Manifest() | BaseBytes():
                self._report_violation("a message that only masters send")
            case _:
                assert_never(message)

    def _session_of(
        self, message: Acknowledge | Goodbye | Begin | ManifestWanted | BaseBytesWanted
    ) -> SlaveSession | None:
        session = self._sessions.get(message.replica_set_id)
        if session is None or session.is_closed or session.leader_epoch != message.leader_epoch:
            return None
        return session

    def _greet(self, hello: Hello) -> None:
        server, set_id = self._server, hello.replica_set_id
        newest = server.newest_epoch_of(set_id)
        earlier = self._sessions.get(set_id)
        if earlier is not None and hello.leader_epoch < earlier.leader_epoch:
            # Ignore a late Hello: a slave of the newer mastership would not learn that its session
            # ended.
            self.live.send(Refused(set_id, hello.leader_epoch, Reason.STALE_EPOCH, newest))
            return
        if earlier is not None:
            self._end(earlier)
        master_set = server.sets.get(set_id)
        reason = self._why_not(hello, master_set, newest)
        if reason is not None or master_set is None:
            answer = reason or Reason.NOT_MASTER
            self.live.send(Refused(set_id, hello.leader_epoch, answer, newest))
            return
        session = SlaveSession(
            master_set,
            BrokerId(self.live.peer_id),
            hello,
            send=self.live.send,
            on_ready=self._is_ready,
            turns=server.turns,
        )
        self._sessions[set_id] = session
        session.greet()

    def _why_not(
        self, hello: Hello, master_set: MasterSet | None, newest: LeaderEpoch
    ) -> Reason | None:
        if hello.leader_epoch < newest:
            return Reason.STALE_EPOCH
        if hello.leader_epoch > newest:
            return Reason.UNKNOWN_EPOCH
        if master_set is None or master_set.leader_epoch != newest:
            return Reason.NOT_MASTER
        recorded = self._server.replica_id_of(hello.replica_set_id, BrokerId(self.live.peer_id))
        if recorded != hello.replica_id:
            return Reason.UNKNOWN_REPLICA
        return None if master_set.may_greet(hello.shape) else Reason.NOT_MASTER

    def _ask(self, message: Begin | ManifestWanted | BaseBytesWanted) -> None:
        session = self._session_of(message)
        if session is None:
            set_id, epoch = message.replica_set_id, message.leader_epoch
            newest = self._server.newest_epoch_of(set_id)
            self.live.send(Refused(set_id, epoch, Reason.NO_SESSION, newest))
            return
        match message:
            case Begin():
                session.begin(message)
            case ManifestWanted():
                session.manifest_wanted(message)
            case BaseBytesWanted():
                session.base_bytes_wanted(message)

    # --- sending -------------------------------------------------------------------------------

    def _is_ready(self, session: SlaveSession) -> None:
        if session in self._queued:
            return
        if session.has_run:
            self._queued[session] = None
            self._ready.append(session)
            self._schedule()
        elif session.owes_confirm:
            self._owe(session)

    def _owe(self, session: SlaveSession) -> None:
        self._owing[session.replica_set_id] = session
        if self._confirm_timer is None:
            scheduler = self._server.scheduler
            self._confirm_timer = scheduler.call_later(CONFIRM_DELAY_MS, self._send_confirms)

    def _send_confirms(self) -> None:
        self._confirm_timer = None
        owing, self._owing = self._owing, {}
        for session in owing.values():
            if self.live.link.is_writable:
                session.send_confirm()
            elif session.owes_confirm:
                self._owe(session)

    def _schedule(self) -> None:
        if self._turn is None and self._ready and self.live.link.is_writable:
            self._turn = self._server.scheduler.call_soon(self._send_runs)

    def _send_runs(self) -> None:
        self._turn = None
        for _ in range(RUNS_PER_TURN):
            if not self._ready or not self.live.link.is_writable:
                break
            session = self._ready.popleft()
            del self._queued[session]
            if not session.is_closed:
                session.send_one()
                self._is_ready(session)
        self._schedule()

    # --- the end -------------------------------------------------------------------------------

    def _end(self, session: SlaveSession) -> None:
        self._sessions.pop(session.replica_set_id, None)
        session.close()

    def _report_violation(self, reason: str) -> None:
        self.live.link.break_off(f"ha slave={self.live.peer_id}", reason)

    def _on_closed(self, reason: str) -> None:
        log.info("slave=%d disconnected: %s", self.live.peer_id, reason)
        if self._turn is not None:
            self._turn.cancel()
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
            self._confirm_timer = None
        self._owing.clear()
        for session in list(self._sessions.values()):
            session.close()
        self._sessions.clear()
        self._ready.clear()
        if self in self._server.links:
            self._server.links.remove(self)
