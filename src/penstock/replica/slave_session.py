"""The master's side of one slave in one set: what was sent, what was acknowledged.

    Hello ─► greeted ─► Begin ─► streaming     runs up to in_flight_bytes ahead of the acknowledged
                 └─► Manifest… (served_base.py)   position; then it waits for an Acknowledge

A session buffers no log bytes: a run is read when the link has room for it, from the page cache on
the loop, or off the loop if the disk is needed. A slow slave thus costs no memory, and delays
neither other slaves nor other sets on its link. What a slave is sent that is not in step waits for
its turn where copies have a rate (copy_turns.py).

Source: RocketMQ's HAConnection. Written bytes of the own log are sent, confirmed or not; every run
carries the confirm position.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, Position
from penstock.base.invariant import invariant
from penstock.frames.run import ColdRun, Run
from penstock.replica.copy_turns import CopyTurns
from penstock.replica.parts_of_logs import may_count, may_have_part
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.served_base import ServedBase
from penstock.replica.shape import shape_of
from penstock.replication.alignment import LogShape
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import (
    Acknowledge,
    BaseBytesWanted,
    Begin,
    HaMessage,
    Hello,
    HelloAnswer,
    LogRun,
    ManifestWanted,
    Reason,
    Refused,
)
from penstock.replication.sync_state import SyncStateKeeper
from penstock.storage.errors import NoFrameBegins

log = logging.getLogger(__name__)

A_PART = "its log is a part of what the set keeps, and the policy would count it"
"""Why a slave has to copy the log again."""


class Mastership(Protocol):
    """What a session calls in its mastership (master_set.py)."""

    member: ReplicaSetMember
    config: ReplicationConfig
    leader_epoch: LeaderEpoch
    is_resuming: bool
    keeper: SyncStateKeeper
    sessions: dict[BrokerId, SlaveSession]

    def greeted(self, session: SlaveSession) -> None:
        """A slave has sent Hello."""

    def can_begin(self, shape: LogShape, position: Position) -> bool:
        """Whether a log of this shape, truncated to `position`, is a prefix of the own one."""

    def begun(self, session: SlaveSession) -> None:
        """A slave is sent runs from now on."""

    def heard(self, broker_id: BrokerId, read_ms: int) -> None:
        """A slave has repeated its position, so it follows after it read what was sent then."""

    def acknowledged(self, broker_id: BrokerId, position: Position, read_ms: int) -> None:
        """A slave has everything below `position` durably; else as `heard`."""

    def base_wanted(self, broker_id: BrokerId) -> None:
        """A slave starts to copy the log."""

    def read_run(self, session: SlaveSession) -> Run | ColdRun:
        """Return the next run to send. Raises StorageError kinds."""

    def gone(self, session: SlaveSession) -> None:
        """A session has ended."""


class SlaveSession:
    """One slave in one mastership, over one link.

    `send(message)` queues a message on the link; `on_ready(session)` is called when there may be
    something new to send.
    """

    def __init__(
        self,
        master_set: Mastership,
        broker_id: BrokerId,
        hello: Hello,
        *,
        send: Callable[[HaMessage], None],
        on_ready: Callable[[SlaveSession], None],
        turns: CopyTurns,
    ) -> None:
        self.master_set = master_set
        self.broker_id = broker_id
        self.replica_id = hello.replica_id
        self.incarnation = hello.incarnation
        self.is_streaming = False
        self.is_closed = False
        self.is_resting = False
        """Whether it waits for its turn."""
        self.acknowledged = self.whole_from = Position(0)
        self.greeted_ms = 0
        """When its Hello was answered."""
        self.next_position = Position(0)
        """Position of the first byte not sent yet."""
        self._shape = hello.shape
        self._send = send
        self._on_ready = on_ready
        self._turns = turns
        self._sent_confirm = self._checked_until = Position(0)
        self._is_loading = False
        self._base: ServedBase | None = None
        member = master_set.member
        self.replica_set_id = member.replica_set_id
        self.leader_epoch = master_set.leader_epoch

    # --- messages of the slave -----------------------------------------------------------------

    def greet(self) -> None:
        """Answer a Hello."""
        self.master_set.greeted(self)
        shape = shape_of(self.master_set.member)
        self._send(HelloAnswer(self.replica_set_id, self.leader_epoch, shape))

    def begin(self, message: Begin) -> None:
        """Start sending, unless the slave's log would not be a prefix of the own one."""
        if not self.master_set.can_begin(self._shape, message.position):
            self.refuse(Reason.DIVERGED, self.leader_epoch)
            return
        membership = self.master_set.keeper.membership
        kept_from = self.master_set.member.log.reach.kept_from
        whole_from = message.whole_from
        if not may_count(membership, self.broker_id, whole_from=whole_from, kept_from=kept_from):
            self.refuse(Reason.NOT_READY, self.leader_epoch, A_PART)
            return
        invariant(not self.is_closed, "what is closed sends nothing", slave=self.broker_id)
        self._drop_base()
        self.is_streaming = True
        self.whole_from = message.whole_from
        self.acknowledged = self.next_position = message.position
        self._checked_until = self.master_set.member.log.written_position
        self.master_set.begun(self)
        self._on_ready(self)

    def acknowledge(self, message: Acknowledge) -> bool:
        """Process an acknowledgement; return False if its position was not sent."""
        position = message.position
        if not self.is_streaming:
            return False
        if position == self.acknowledged:
            self.master_set.heard(self.broker_id, message.read_ms)
            return True
        if not self.acknowledged < position <= self.next_position:
            return False
        self.acknowledged = position
        self.master_set.acknowledged(self.broker_id, position, message.read_ms)
        self._on_ready(self)
        return True

    def manifest_wanted(self, message: ManifestWanted) -> None:
        """Have the log export a base; its manifest is sent when it is ready."""
        self._drop_base()
        self.master_set.base_wanted(self.broker_id)
        self._base = ServedBase(self.master_set.member.log, self, self._send, self._turns)
        may_be_part = may_have_part(self.master_set.keeper.membership, self.broker_id)
        self._base.begin(is_newest_only=message.newest_only and may_be_part)

    def base_bytes_wanted(self, message: BaseBytesWanted) -> None:
        """Send raw bytes of the base."""
        if self._base is None:
            self.refuse(Reason.NO_SESSION, self.leader_epoch)
            return
        self._base.send_bytes(message)

    # --- sending -------------------------------------------------------------------------------

    @property
    def is_checked(self) -> bool:
        """Whether frames written before this session are sent, which it may have refused before."""
        return self.next_position < self._checked_until

    @property
    def has_run(self) -> bool:
        """Whether a run can be sent now if the link is writable."""
        if not self.is_streaming or self._is_loading or self.is_resting:
            return False
        has_room = self.next_position - self.acknowledged < self.master_set.config.in_flight_bytes
        return has_room and self.next_position < self.master_set.member.log.written_position

    @property
    def owes_confirm(self) -> bool:
        """Whether the confirm position is higher than the slave was told."""
        return self.is_streaming and self.master_set.member.confirm_position > self._sent_confirm

    @property
    def may_wait(self) -> bool:
        """Whether neither writes nor a resumption wait for what the slave is sent."""
        mastership = self.master_set
        if mastership.is_resuming or mastership.keeper.is_in_step(self.broker_id):
            return False
        sessions = mastership.sessions.values()
        following = (session.broker_id for session in sessions if session.is_streaming)
        present = (mastership.member.own_id, *following)
        return not mastership.keeper.membership.waits_for(self.broker_id, present)

    def wake(self) -> None:
        """The log has more bytes, the confirm position has advanced, or a copy has its turn."""
        if self._base is not None:
            self._base.take_turn()
        self._on_ready(self)

    def send_one(self) -> None:
        """Send one run, or only the confirm position if there are no bytes to send now."""
        if not self.has_run or (self.may_wait and not self._turns.may_send(self)):
            self.send_confirm()
            return
        try:
            found = self.master_set.read_run(self)
        except PlatformError as error:
            self._unreadable(error)
            return
        if isinstance(found, ColdRun):
            self._is_loading = True
            found.load(self._loaded)
        else:
            self._send_run(found)

    def _loaded(self, run: Run | None, error: PlatformError | None) -> None:
        self._is_loading = False
        if self.is_closed:
            return
        if run is None:
            assert error is not None
            self._unreadable(error)
            return
        self._send_run(run)
        self._on_ready(self)

    def _send_run(self, run: Run) -> None:
        if not run.data:
            self.send_confirm()
            return
        confirmed = self._sent_confirm = self.master_set.member.confirm_position
        self._send(
            LogRun(
                self.replica_set_id,
                self.leader_epoch,
                run.leader_epoch,
                run.position,
                confirmed,
                run.file_base,
                run.file_end,
                run.data,
            )
        )
        if self.may_wait:
            self._turns.pace.sent(len(run.data))
        end = run.end_position if run.next_position < 0 else run.next_position
        is_onward = self.next_position <= run.position < end
        invariant(is_onward, "runs are sent in order", at=run.position, sent=self.next_position)
        self.next_position = end

    def send_confirm(self) -> None:
        """Send the confirm position unless a run has carried it."""
        if not self.is_streaming:
            return
        confirmed = self.master_set.member.confirm_position
        if confirmed <= self._sent_confirm:
            return
        self._sent_confirm = confirmed
        at = self.next_position
        epoch = self.leader_epoch
        self._send(LogRun(self.replica_set_id, epoch, epoch, at, confirmed, at, at, b""))

    def _unreadable(self, error: PlatformError) -> None:
        """End the session: the bytes are deleted (retention) or damaged, or the slave is wrong."""
        log.warning(
            "set=%d slave=%d can not be sent position=%d: %s",
            self.replica_set_id,
            self.broker_id,
            self.next_position,
            error,
        )
        is_wrong = isinstance(error, NoFrameBegins)
        reason = Reason.DIVERGED if is_wrong else Reason.NOT_READY
        self.refuse(reason, self.leader_epoch, str(error))

    # --- the end -------------------------------------------------------------------------------

    def refuse(self, reason: Reason, newest_epoch: LeaderEpoch, text: str = "") -> None:
        """Notify the slave and end the session."""
        if not self.is_closed:
            message = Refused(self.replica_set_id, self.leader_epoch, reason, newest_epoch, text)
            self._send(message)
            self.close()

    def close(self) -> None:
        """End the session; the slave is gone, or has begun another one."""
        if self.is_closed:
            return
        self.is_closed = True
        self.is_streaming = False
        self._drop_base()
        self._turns.leave(self)
        self.master_set.gone(self)

    def _drop_base(self) -> None:
        if self._base is not None:
            self._base.close()
            self._base = None
