"""A broker's side of its sessions: heartbeats to every controller, commands to the active one.

    every controller  ◄── heartbeats, probes and transfers answered ──►  this broker
    active controller ◄── submit(command) ──► answer ─► this broker's image holds it ─► caller

The active controller is learned from heartbeat answers (the highest controller epoch counts) and
from refusals that name another one. If it is in this process, its driver is called directly.

Requests to the active controller, and which of them may be repeated, are in commands.py.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, SessionId
from penstock.base.ports import Clock, Randomness
from penstock.controller.commands.command import Command
from penstock.controller.errors import (
    MetadataError,
)
from penstock.controller.metadata.levels import METADATA_LEVELS
from penstock.controller.replicated_log import NO_LEADER
from penstock.controller.session import (
    Heartbeat,
    HeartbeatAnswer,
    PrepareTransfer,
    ProbeAnswer,
    ProbeSets,
    ReleasePromises,
    SetReport,
    TransferReady,
)
from penstock.net.peer import PeerHello, PeerRefused, PeerSecurity, dial
from penstock.runtime.session.active import ActiveTracker
from penstock.runtime.session.channel import LinkChannel, LocalChannel, SessionChannel
from penstock.runtime.session.commands import LocalLog, SessionCommands
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.link import ControllerSession, SessionDraws
from penstock.runtime.session.messages import (
    HEARTBEAT_SETS,
    PURPOSE,
    SessionMessage,
)

R = TypeVar("R")
Address = tuple[str, int]

_SESSION_COUNT_BITS = 32

log = logging.getLogger(__name__)


class SessionOwner(Protocol):
    """The broker's reactions to controllers; called on the event loop."""

    def reports(self) -> tuple[SetReport, ...]:
        """Return the state of every member, for a heartbeat."""

    def probe(self, request: ProbeSets) -> tuple[SetReport, ...]:
        """Return durable state, and make the promise described at ProbeSets."""

    def release(self, request: ReleasePromises) -> None:
        """End promises as described at ReleasePromises."""

    async def prepare_transfer(self, request: PrepareTransfer) -> TransferReady:
        """Stop accepting writes and wait until the target holds all; bounded by the request."""

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        """The active controller has answered a heartbeat that was sent at `sent_ms`.

        `is_caught_up`: the image here holds all that the controller's did when it answered.
        """

    async def register(self) -> None:
        """Submit the commands that register this broker and its replicas. Raises MetadataError.

        Called while the active controller does not know this incarnation, never concurrently; after
        a failure it is called again with the next heartbeat.
        """


class LocalController(Protocol):
    """The controller within this process (ControllerService)."""

    def open_local(self, broker_id: BrokerId, session_id: SessionId) -> LocalChannel:
        """Return the broker's end of a new session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdentity:
    """This process. `cluster_id` is called at each dialling; empty while it is unknown."""

    broker_id: BrokerId
    incarnation: str
    cluster_id: Callable[[], str]
    identity: str = ""
    """Random name of the data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPorts:
    """What the client needs of the node. `local` is None if no controller runs here."""

    security: PeerSecurity
    clock: Clock
    randomness: Randomness
    owner: SessionOwner
    log: LocalLog
    local: LocalController | None
    spawn: Callable[[str, Coroutine[Any, Any, None]], None]
    """Runs a coroutine under supervision (Supervisor.run_once)."""


class SessionClient:
    """A ControllerPort with the broker's sessions. Created and used on its event loop."""

    def __init__(
        self, identity: SessionIdentity, config: SessionConfig, ports: SessionPorts
    ) -> None:
        self._identity = identity
        self._config = config
        self._ports = ports
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[PeerId, tuple[Address, ControllerSession, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Tasks of sessions that were given up and have not ended yet."""
        self._session_base = ports.randomness.below(1 << 30) << _SESSION_COUNT_BITS
        self._session_count = 0
        self._tracker = ActiveTracker()
        self.commands = SessionCommands(
            self, self._tracker, ports.log, config=config, clock=ports.clock
        )
        """For operators' requests and the cluster's status."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_registering = False
        self._is_report_due = False
        self._is_stopping = False

    @property
    def local_id(self) -> PeerId:
        """Peer id of the controller in this process, NO_LEADER without one."""
        return NO_LEADER if self._ports.local is None else PeerId(self._identity.broker_id)

    @property
    def active_id(self) -> PeerId:
        """Peer id of the active controller as far as known, else NO_LEADER."""
        return self._tracker.active_id

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """Highest controller epoch heard of, -1 for none."""
        return self._tracker.controller_epoch

    def start(self, controllers: Mapping[PeerId, Address]) -> None:
        """Open sessions to these controllers and start sending heartbeats."""
        self.set_controllers(controllers)
        self._timer = self._loop.call_later(self._interval_s, self._on_timer)

    def set_controllers(self, controllers: Mapping[PeerId, Address]) -> None:
        """Keep sessions to exactly these; a session whose address is unchanged stays open."""
        for controller_id, (address, _, task) in list(self._sessions.items()):
            if controllers.get(controller_id) != address:
                del self._sessions[controller_id]
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
                task.cancel()
        for controller_id, address in controllers.items():
            if controller_id not in self._sessions:
                self._add_session(controller_id, address)

    def report_soon(self) -> None:
        """Send a heartbeat to every controller at the end of this loop iteration.

        For state that an election may be waiting for and would get with the next heartbeat only.
        """
        if not self._is_report_due:
            self._is_report_due = True
            self._loop.call_soon(self._report)

    def _report(self) -> None:
        self._is_report_due = False
        self._heartbeat(self.open_sessions(), self._ports.owner.reports())

    def announce_stop(self) -> None:
        """Tell every controller at once that this process is shutting down."""
        self._is_stopping = True
        self._heartbeat(self.open_sessions(), self._ports.owner.reports())

    async def stop(self) -> None:
        """Close all sessions, which every controller notices at once."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._ending, *(task for _, _, task in self._sessions.values())]
        self._sessions.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tracker.tell_news()

    # --- requests ------------------------------------------------------------------------------

    async def submit(self, command: Command[R]) -> R:
        """Return the response once the change is committed and replayed here.

        Raises:
            RefusedCommand: the command is refused as a whole.
            MetadataUnavailable: not accepted; after MetadataTimeout it may be committed.
        """
        return await self.commands.submit(command)

    def session(self, controller_id: PeerId) -> ControllerSession | None:
        """Return the session to a controller, open or not."""
        entry = self._sessions.get(controller_id)
        return None if entry is None else entry[1]

    def open_sessions(self) -> list[ControllerSession]:
        """Return the sessions that are open."""
        return [session for _, session, _ in self._sessions.values() if session.is_open]

    def refusal(self) -> PeerRefused | None:
        """Return why no controller lets this process in: all fail, one of them by a refusal.

        The others may be down, and would hardly judge otherwise.
        """
        failures = [session.failure for _, session, _ in self._sessions.values()]
        if not all(failures):
            return None
        return next((failure for failure in failures if isinstance(failure, PeerRefused)), None)

    # --- sessions ------------------------------------------------------------------------------

    @property
    def _interval_s(self) -> float:
        return self._config.heartbeat_interval_ms / 1000

    def _add_session(self, controller_id: PeerId, address: Address) -> None:
        async def open_channel(session_id: SessionId) -> SessionChannel:
            local = self._ports.local
            if local is not None and controller_id == self.local_id:
                return local.open_local(self._identity.broker_id, session_id)
            return await self._dial(controller_id, address, session_id)

        session = ControllerSession(
            controller_id,
            open_channel,
            config=self._config,
            clock=self._ports.clock,
            events=self,
            draws=SessionDraws(self._new_session_id, self._ports.randomness.uniform),
        )
        task = self._loop.create_task(session.run(), name=f"session-{controller_id}")
        task.add_done_callback(self._on_task_done)
        self._sessions[controller_id] = (address, session, task)

    async def _dial(
        self, controller_id: PeerId, address: Address, session_id: SessionId
    ) -> SessionChannel:
        identity = self._identity
        link = await dial(
            address,
            PeerHello(PURPOSE, identity.cluster_id(), identity.broker_id, session_id),
            self._ports.security,
            timeout_ms=self._config.dial_timeout_ms,
            frame_bytes_max=self._config.frame_bytes_max,
        )
        if link.hello.peer_id != controller_id:
            reason = f"controller {controller_id} expected, found peer {link.hello.peer_id}"
            link.close(reason)
            at = f"{address[0]}:{address[1]}"
            self._ports.security.refusals.note(at, f"to {at}", reason, self._loop.time())
            raise PeerRefused(reason)
        return LinkChannel(link, session_id)

    def _new_session_id(self) -> SessionId:
        self._session_count += 1
        return SessionId(self._session_base + self._session_count)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Pass an unexpected error to the loop's exception handler, which ends the process."""
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a session failed", "exception": error, "task": task}
            self._loop.call_exception_handler(context)

    def on_session_opened(self, session: ControllerSession) -> None:
        """Send a heartbeat over the new session at once."""
        log.info("session=%d controller=%d opened", session.session_id, session.controller_id)
        session.unanswered_count += 1
        self._heartbeat((session,), self._ports.owner.reports())
        self._tracker.tell_news()

    def on_session_closed(self, session: ControllerSession) -> None:
        """Wake those who wait for an answer."""
        self._tracker.tell_news()

    def on_session_message(self, session: ControllerSession, message: SessionMessage) -> None:
        """Process a request of a controller."""
        match message:
            case HeartbeatAnswer():
                self._on_heartbeat_answer(session, message)
            case ProbeSets():
                # A controller that was replaced must not bind this broker by an old request.
                if message.controller_epoch >= self._tracker.controller_epoch:
                    reports = self._ports.owner.probe(message)
                    session.send(ProbeAnswer(request_id=message.request_id, reports=reports))
            case ReleasePromises():
                self._ports.owner.release(message)
            case PrepareTransfer():
                self._ports.spawn("prepare-transfer", self._prepare_transfer(session, message))
            case _:
                session.close("a message that controllers do not send")

    async def _prepare_transfer(self, session: ControllerSession, request: PrepareTransfer) -> None:
        session_id = session.session_id
        ready = await self._ports.owner.prepare_transfer(request)
        if session.session_id == session_id:
            session.send(ready)

    def _on_heartbeat_answer(self, session: ControllerSession, answer: HeartbeatAnswer) -> None:
        tracker, sent_ms = self._tracker, session.sent_ms_of(answer)
        if sent_ms is not None and sent_ms > self._ports.clock.monotonic_ms():
            session.close("an answer to a heartbeat that was not sent")
            return
        before = (tracker.active_id, tracker.controller_epoch)
        tracker.on_heartbeat_answer(answer.active_id, answer.controller_epoch)
        is_active = answer.active_id == session.controller_id == tracker.active_id
        if not is_active or answer.controller_epoch < tracker.controller_epoch:
            return
        if before != (tracker.active_id, tracker.controller_epoch):
            # It became active just now and has not said yet whether it knows this process.
            self._heartbeat((session,), self._ports.owner.reports())
        if not answer.is_registration_wanted:
            if sent_ms is not None:  # it counts this process as alive since then at least
                is_caught_up = self._ports.log.applied_index >= answer.applied_index
                self._ports.owner.note_controller(sent_ms, is_caught_up=is_caught_up)
        elif not self._is_registering:
            self._is_registering = True
            self._ports.spawn("register", self._register())

    async def _register(self) -> None:
        try:
            await self._ports.owner.register()
        except MetadataError as error:
            log.warning("broker=%d not registered: %s", self._identity.broker_id, error)
        finally:
            self._is_registering = False

    def _on_timer(self) -> None:
        self._timer = self._loop.call_later(self._interval_s, self._on_timer)
        sessions = self.open_sessions()
        interval_ms, silence_ms = self._config.heartbeat_interval_ms, self._config.silence_ms
        for session in sessions:
            if session.unanswered_count * interval_ms > silence_ms:
                session.close("the controller answers no heartbeats")
            session.unanswered_count += 1  # extra heartbeats do not count as silence
        self._heartbeat(sessions, self._ports.owner.reports())

    def _heartbeat(
        self,
        sessions: Iterable[ControllerSession],
        reports: tuple[SetReport, ...],
    ) -> None:
        now_ms = self._ports.clock.monotonic_ms()
        starts = range(0, max(len(reports), 1), HEARTBEAT_SETS)
        parts = [reports[at : at + HEARTBEAT_SETS] for at in starts]
        for session in sessions:
            session.heartbeats(now_ms)
            for part in parts:
                session.send(
                    Heartbeat(
                        session_id=session.session_id,
                        broker_id=self._identity.broker_id,
                        incarnation=self._identity.incarnation,
                        sets=part,
                        identity=self._identity.identity,
                        is_stopping=self._is_stopping,
                        metadata_levels=METADATA_LEVELS.packed(),
                        sent_ms=now_ms,
                    )
                )
