"""The slave's side of following one set: handshake, alignment, append, acknowledge.

    waiting ─► greeted ─┬─ Continue ─► streaming ─► waiting     a gap, a refusal, a lost link
                        ├─ Truncate ─► aligning ──► waiting     cut: another handshake verifies it
                        ├─ Install ──► installing ► waiting     copied: likewise (install.py)
                        └─ Stop ─────► stopped                  an operator has to find the cause

    StartAnew truncates to 0, or installs if the own log begins later. A truncation that fails is
    followed by an install. A log that takes no more writes leads from any state to `stopped`, and
    `close` from any to `closed`.

One object per mastership: for another leader epoch, even of the same master, there is another
object with another handshake, so that every change of epoch truncates what it has to (KAFKA-7164).

Runs that arrive faster than the log appends them (during a sync or while a segment is made) are
buffered here, up to the master's in-flight limit. An acknowledgement names the end that is durable
here, after a sync or write has ended; after a promise to the controllers none is sent until they
release it.

Source: RocketMQ's HAClient. The link is in runtime/ha/client.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

from penstock.base.callbacks import nothing
from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Position
from penstock.base.invariant import invariant
from penstock.frames.run import Run
from penstock.replica.follow_parts import FollowParts, FollowStats
from penstock.replica.install import SlaveInstall
from penstock.replica.pending_runs import PendingRuns
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.shape import shape_of
from penstock.replication.alignment import (
    Alignment,
    Continue,
    Install,
    StartAnew,
    Stop,
    Truncate,
    align,
)
from penstock.replication.config import FirstSync
from penstock.replication.messages import (
    Acknowledge,
    BaseBytes,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    LogRun,
    Manifest,
    ManifestWanted,
    Reason,
    Refused,
)
from penstock.storage.errors import BadRun, GapInRun, LogBusy, LogFenced, StorageError

log = logging.getLogger(__name__)

Send = Callable[[HaMessage], None]

PENDING_FACTOR = 4
"""Buffered bytes above which the link is closed, in units of in_flight_bytes: the master exceeds
its limit."""


class State(StrEnum):
    """State of one followed mastership."""

    WAITING = "waiting"
    GREETED = "greeted"
    ALIGNING = "aligning"
    INSTALLING = "installing"
    STREAMING = "streaming"
    STOPPED = "stopped"
    CLOSED = "closed"


class FollowedSet:
    """This broker's state as a slave in one mastership of one set.

    Between calls:
    - Runs are buffered in STREAMING only, in the order of the log.
    - In STREAMING the master was told of a position that is durable here, by Begin or the last
      Acknowledge. It never falls before the next handshake, and stays while a promise is open.
    - In ALIGNING the log is being cut. A lost link and a refusal do not change that state.
    - While the log is cut or replaced (`is_busy`), no Hello is sent.
    - STOPPED is left by `close` only, CLOSED never; what is closed sends nothing.
    """

    def __init__(
        self,
        member: ReplicaSetMember,
        leader_epoch: LeaderEpoch,
        parts: FollowParts,
        stats: FollowStats,
    ) -> None:
        self.member = member
        self.replica_set_id = member.replica_set_id
        self.leader_epoch = leader_epoch
        self.state = State.WAITING
        self.stop_reason = ""
        self.on_idle: Callable[[], None] = nothing
        """Called after `close`, once this object no longer truncates or replaces the log."""
        self._parts = parts
        self._stats = stats
        self._send: Send | None = None
        self._retry_at_ms = 0
        self._failures = 0
        self._is_cutting = False
        self._pending = PendingRuns(PENDING_FACTOR * parts.config.in_flight_bytes)
        self._acknowledged = Position(0)
        self._acknowledged_ms = 0
        self._begin_at: Position | None = None
        self._install: SlaveInstall | None = None
        self._has_installed = False
        """Whether the master's log was copied already; prevents copying an empty log repeatedly."""
        self._newest_confirm = Position(0)
        member.log.on_append_ready = self._append_pending
        member.on_durable.append(self._on_durable)

    # --- the link ------------------------------------------------------------------------------

    def attach(self, send: Send) -> None:
        """Use a new link to the master: start the handshake."""
        self._send = send
        self._retry_at_ms = 0
        self.tick()

    def detach(self) -> None:
        """Note that the link is lost."""
        self._send = None
        if self.state in {State.GREETED, State.STREAMING, State.INSTALLING}:
            self._wait(0)

    @property
    def is_busy(self) -> bool:
        """Whether the log is being truncated or replaced."""
        return self._is_cutting or (self._install is not None and self._install.is_finishing)

    def close(self) -> None:
        """Stop following; `on_idle` is called when the log is free, at once if it is."""
        if self.state is State.CLOSED:
            return
        if self._send is not None:
            self._send(Goodbye(self.replica_set_id, self.leader_epoch))
        self._forget_session()
        self.state = State.CLOSED
        self._send = None
        self.member.on_durable.remove(self._on_durable)
        self.member.log.on_append_ready = nothing
        self._maybe_idle()

    def _maybe_idle(self) -> None:
        if self.state is State.CLOSED and not self.is_busy:
            self.on_idle()

    def _is_promised(self) -> bool:
        return self._parts.is_promised(self.leader_epoch)

    def tick(self) -> None:
        """Retry a handshake that is due; acknowledge once a promise was released."""
        now_ms = self._parts.clock.monotonic_ms()
        if self.state is State.WAITING and self._send is not None and now_ms >= self._retry_at_ms:
            self._greet(self._send)
        elif self.state is State.STREAMING:
            is_silent = now_ms - self._acknowledged_ms >= self._parts.config.keep_alive_ms
            self._acknowledge(is_repeated=is_silent)
        elif self.state is State.GREETED:
            self._begin()

    def on_message(self, message: HelloAnswer | Refused | LogRun | Manifest | BaseBytes) -> None:
        """Process a message of the master about this mastership."""
        if message.leader_epoch != self.leader_epoch or self.state is State.CLOSED:
            return
        match message:
            case LogRun() if self.state is State.STREAMING:
                self._take(message)
            case HelloAnswer() if self.state is State.GREETED:
                self._align(message)
            case Refused():
                self._refused(message)
            case Manifest() | BaseBytes() if self._install is not None:
                self._install.on_message(message)
            case _:
                pass  # late: sent before the last Hello

    # --- handshake -----------------------------------------------------------------------------

    def _greet(self, send: Send) -> None:
        replica_id = self._parts.replica_id()
        if replica_id is None or self.member.log.is_busy or self.is_busy:
            self._wait(self._parts.config.reconnect_ms)
            return
        if self.member.log.is_fenced:
            self._stop("the log takes no more writes")
            return
        invariant(self.state is State.WAITING, "one handshake at a time", state=self.state)
        self.state = State.GREETED
        shape = shape_of(self.member)
        process = self._parts.incarnation
        send(Hello(self.replica_set_id, self.leader_epoch, replica_id, process, shape))

    def _refused(self, message: Refused) -> None:
        if message.reason is Reason.DIVERGED:
            log.error(
                "set=%d epoch=%d the master refuses this log: %s",
                self.replica_set_id,
                self.leader_epoch,
                message.text or "it does not follow from the master's",
            )
        if self.state is not State.STOPPED:
            self._back_off()

    def _back_off(self) -> None:
        """Start another handshake after a pause that doubles each time."""
        config = self._parts.config
        pause_ms = min(config.reconnect_ms << min(self._failures, 16), config.reconnect_ms_max)
        self._failures += 1
        self._wait(pause_ms)

    def _wait(self, pause_ms: int) -> None:
        self._forget_session()
        if self._is_cutting:
            return  # `_cut_done` starts the next handshake
        self.state = State.WAITING
        self._retry_at_ms = self._parts.clock.monotonic_ms() + pause_ms
        self._parts.scheduler.call_later(pause_ms + 1, self._on_timer)

    def _on_timer(self) -> None:
        if self.state is State.WAITING:
            self.tick()

    def _forget_session(self) -> None:
        self._pending.clear()
        self._begin_at = None
        if self._install is not None and not self._install.is_finishing:
            self._install.abandon()
            self._install = None

    def _stop(self, reason: str) -> None:
        """Do nothing more in this mastership: an operator has to find the cause."""
        self._forget_session()
        self.state = State.STOPPED
        self.stop_reason = reason
        self._stats.stops += 1
        log.critical(
            "set=%d epoch=%d does not follow its master: %s",
            self.replica_set_id,
            self.leader_epoch,
            reason,
        )

    # --- alignment -----------------------------------------------------------------------------

    def _align(self, answer: HelloAnswer) -> None:
        if self._parts.must_be_whole() and self.member.log.reach.whole_from > 0:
            self._begin_install("the own log is a part, and this member may be elected")
            return
        config = self._parts.config
        is_new = self.member.log.end_position == self.member.log.start_position
        outcome = align(
            shape_of(self.member),
            answer.shape,
            may_cut_confirmed=self._parts.may_cut_confirmed(),
            wants_newest_only=is_new
            and not self._has_installed
            and config.first_sync is FirstSync.NEWEST
            and bool(answer.shape.epochs),
        )
        self._carry_out(outcome)

    def _carry_out(self, outcome: Alignment) -> None:
        match outcome:
            case Continue(position):
                self._begin_when_durable(position)
            case Truncate(position, _):
                self._cut(position)
            case StartAnew(reason):
                log.warning("set=%d starts anew: %s", self.replica_set_id, reason)
                if self.member.log.start_position == 0:
                    self._cut(Position(0))
                else:
                    self._begin_install(reason)
            case Install(reason):
                self._begin_install(reason)
            case Stop(reason):
                self._stop(reason)

    def _cut(self, position: Position) -> None:
        invariant(not self.is_busy, "a log is cut once at a time", at=position)
        own_log = self.member.log
        cut_bytes = own_log.end_position - position
        self._stats.truncations += 1
        self._stats.truncated_bytes += cut_bytes
        log.warning(
            "set=%d epoch=%d truncates bytes=%d at position=%d: they are not in the master's log",
            self.replica_set_id,
            self.leader_epoch,
            cut_bytes,
            position,
        )
        self.state = State.ALIGNING
        self._is_cutting = True
        own_log.truncate(position, self._cut_done)

    def _cut_done(self, error: PlatformError | None) -> None:
        self._is_cutting = False
        if self.state is State.CLOSED:
            self._maybe_idle()
        elif isinstance(error, LogFenced):
            self._stop(f"truncating the log failed: {error}")
        elif error is not None:
            log.error("set=%d could not be truncated: %s", self.replica_set_id, error)
            self._begin_install(str(error))
        else:
            # Start another handshake: the link may have been lost, and it verifies the truncation.
            self._wait(0)

    def _begin_when_durable(self, position: Position) -> None:
        self._begin_at = position
        self._begin()

    def _begin(self) -> None:
        """Ask for runs once the log is durable: this acknowledges it, so a promise delays it."""
        position = self._begin_at
        if position is None or self._send is None or self._is_promised():
            return
        if self.member.log.durable_position < position:
            return
        invariant(position == self.member.log.end_position, "runs go on at the end", at=position)
        self._begin_at = None
        self.state = State.STREAMING
        self._failures = 0
        self._acknowledged = position
        log.info(
            "set=%d epoch=%d follows from position=%d",
            self.replica_set_id,
            self.leader_epoch,
            position,
        )
        whole_from = self.member.log.reach.whole_from
        self._send(Begin(self.replica_set_id, self.leader_epoch, position, whole_from))

    # --- install -------------------------------------------------------------------------------

    def _begin_install(self, reason: str) -> None:
        send = self._send
        if send is None:
            self._wait(0)
            return
        log.warning("set=%d copies its master's log: %s", self.replica_set_id, reason)
        self.state = State.INSTALLING
        self._stats.installs += 1
        self._install = SlaveInstall(
            self.member.log, self.replica_set_id, self.leader_epoch, send, self._installed
        )
        is_part_wanted = self._parts.config.first_sync is FirstSync.NEWEST
        newest_only = is_part_wanted and not self._parts.must_be_whole()
        send(ManifestWanted(self.replica_set_id, self.leader_epoch, newest_only))

    def _installed(self, error: PlatformError | None) -> None:
        self._install = None
        if self.state is State.CLOSED:
            self._maybe_idle()
        elif error is None:
            self._has_installed = True
            self._wait(0)
        elif self.member.log.is_fenced:
            self._stop(f"the install failed: {error}")
        else:
            log.warning("set=%d could not be installed: %s", self.replica_set_id, error)
            self._back_off()

    # --- runs ----------------------------------------------------------------------------------

    def _take(self, message: LogRun) -> None:
        self._newest_confirm = max(self._newest_confirm, message.confirm_position)
        if message.data:
            data = memoryview(message.data)
            run = Run(
                message.frames_epoch,
                message.position,
                message.file_base,
                message.file_end,
                data,
            )
            if self._pending.runs:
                self._keep(run)
            else:
                self._append(run)
        self._note_confirmed()

    def _append(self, run: Run) -> bool:
        """Append; return whether all was appended. The rest is copied and buffered."""
        try:
            taken = self.member.log.append_run(run)
        except LogBusy:
            taken = 0
        except (GapInRun, BadRun) as error:
            self._stats.renegotiations += 1
            log.warning("set=%d starts another handshake: %s", self.replica_set_id, error)
            self._back_off()
            return False
        except StorageError as error:
            self._stop(str(error))
            return False
        if taken == len(run.data):
            return True
        self._keep(run.after(taken), is_first=True)
        return False

    def _keep(self, run: Run, *, is_first: bool = False) -> None:
        if not self._pending.put(run, is_first=is_first):
            self._parts.on_offence("the master sends more than may be in flight")

    def _append_pending(self) -> None:
        """Append buffered runs, as the log may accept more now."""
        while self._pending.runs and self.state is State.STREAMING:
            if not self._append(self._pending.take()):
                break
        if self.state is State.STREAMING:
            self._note_confirmed()

    def _note_confirmed(self) -> None:
        if self.state is State.STREAMING:
            self.member.note_master_confirmed(self._newest_confirm)

    def _on_durable(self, _: ReplicaSetMember) -> None:
        if self._begin_at is not None:
            self._begin()
        elif self.state is State.STREAMING:
            self._acknowledge()

    def _acknowledge(self, *, is_repeated: bool = False) -> None:
        """Send the durable end; `is_repeated` sends it even unchanged, which renews a lease."""
        durable, now_ms = self.member.log.durable_position, self._parts.clock.monotonic_ms()
        if self._send is None or self._is_promised():
            return
        if durable < self._acknowledged or (durable == self._acknowledged and not is_repeated):
            return
        self._acknowledged, self._acknowledged_ms = durable, now_ms
        self._send(Acknowledge(self.replica_set_id, self.leader_epoch, durable))
