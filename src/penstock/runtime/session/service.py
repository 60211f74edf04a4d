"""A controller's side of all sessions: who is connected, what they request, who may answer.

    brokers' links ─► sessions ─► brain (liveness, elections)    ─► probes, transfers to brokers
                               └► driver (commands, if active)   ─► answers
    log's leadership ─► driver, brain.activate / deactivate; every session is notified at once

The brain is ActiveController. Every controller process has a service, active or not: each knows the
live brokers when it becomes active. For each broker only the newest session counts; messages and
the close of an older one change nothing. A controller that is not active answers commands with
NotActiveController and the id of the active one. The open requests of a session are bounded.

Source: RIP-44; KIP-631. Decisions about brokers and sets are in controller/active/controller.py.
"""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Protocol

from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, RequestId, SessionId
from penstock.controller.active.context import Send, SubmitDone
from penstock.controller.active.context import Submit as SubmitByBrain
from penstock.controller.commands.codec import decode_command, encode_answer, encode_error
from penstock.controller.commands.command import Command
from penstock.controller.errors import (
    LeadershipLost,
    MetadataError,
    MetadataQueueFull,
    NotActiveController,
)
from penstock.controller.replicated_log import Leadership
from penstock.controller.session import (
    NO_HEARTBEAT,
    DrainRequest,
    ElectRequest,
    FromController,
    Heartbeat,
    HeartbeatAnswer,
    OperationAnswer,
    ProbeAnswer,
    StatusAnswer,
    StatusRequest,
    Submit,
    SubmitAnswer,
    TransferReady,
    TransferRequest,
)
from penstock.net.peer import PeerFrameTooLarge, PeerLink
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.session.channel import (
    LinkChannel,
    LocalChannel,
    SessionChannel,
    local_channels,
)
from penstock.runtime.session.messages import (
    ByService,
    ChangeControllers,
    ChangeFeature,
    FeaturesRequest,
    Question,
    QuorumRequest,
    SessionMessage,
    SubmitOutcome,
)
from penstock.runtime.session.operator_ports import OperatorPorts
from penstock.runtime.session.submitting import submit_in_parts

REQUESTS_MAX = 256
"""Unanswered requests of one session; the next one is refused at once."""

_SESSION_COUNT_BITS = 32

log = logging.getLogger(__name__)


class Brain(Protocol):
    """Decides about brokers and sets (ActiveController); called on the event loop."""

    def on_leadership(self, leadership: Leadership) -> None:
        """Leadership of the metadata log has changed."""

    def is_owner(self, broker_id: BrokerId, identity: str) -> bool:
        """Whether a process with that data directory may act as the broker."""

    def on_session_opened(self, broker_id: BrokerId, session_id: SessionId) -> None:
        """A broker's newest session has opened; closes of older ones are no longer reported."""

    def on_session_closed(self, broker_id: BrokerId, session_id: SessionId) -> None:
        """The broker's newest session has closed."""

    def on_heartbeat(self, broker_id: BrokerId, heartbeat: Heartbeat) -> HeartbeatAnswer | None:
        """Note that the broker lives, and return the answer."""

    def on_answer(self, broker_id: BrokerId, answer: ProbeAnswer | TransferReady) -> None:
        """Process a broker's answer to a probe, or a master's report that a transfer's target
        holds all, or does not.
        """

    def on_operation(
        self,
        request: ElectRequest | TransferRequest | DrainRequest,
        answered: Callable[[OperationAnswer], None],
    ) -> None:
        """Carry out an operator's request; `answered` is called exactly once."""

    def status(self, request_id: RequestId) -> StatusAnswer:
        """Return the cluster as this controller sees it."""


BrainPorts = tuple[SubmitByBrain, Send]
"""The brain's outputs: commands to this process's driver, messages to brokers."""


class BrokerSession:
    """One session; `open_requests` counts the requests not answered yet."""

    __slots__ = ("channel", "metadata_levels", "open_requests")

    def __init__(self, channel: SessionChannel) -> None:
        self.channel = channel
        self.open_requests = 0
        self.metadata_levels: int | None = None
        """Packed levels from its heartbeats, None before the first."""

    @property
    def broker_id(self) -> BrokerId:
        """Id of the broker at the other end; negative for a command-line tool."""
        return BrokerId(self.channel.peer_id)

    def send(self, message: SessionMessage) -> None:
        """Send if the session is still open."""
        try:
            self.channel.send(message)
        except PeerFrameTooLarge as error:
            log.warning("session broker=%d: %s", self.broker_id, error)


class ControllerService:
    """All sessions of one controller process. Created and used on its event loop."""

    def __init__(
        self,
        *,
        own_id: BrokerId,
        driver: ControllerDriver,
        make_brain: Callable[[BrainPorts], Brain],
        spawn: Callable[[str, Coroutine[Any, Any, None]], None],
        operators: OperatorPorts,
    ) -> None:
        """`spawn` runs a coroutine under supervision (Supervisor.run_once).

        The log's `on_leadership` has to be set to this object's before the log is started.
        """
        self._own_id = own_id
        self._driver = driver
        self._spawn = spawn
        self._operators = operators
        self._sessions: dict[BrokerId, BrokerSession] = {}
        self._tools: dict[BrokerSession, None] = {}
        self._rivals: dict[BrokerSession, None] = {}
        """Sessions of a second process under a broker's id, not shown to be its owner."""
        self._brain = make_brain((self.submit, self.send))

    @property
    def is_active(self) -> bool:
        """Whether this is the active controller."""
        return self._driver.leadership.is_leader

    def on_leadership(self, leadership: Leadership) -> None:
        """Pass a change on to driver and brain, and notify every broker at once."""
        self._driver.on_leadership(leadership)
        log.info(
            "controller=%d active=%d controller epoch=%d",
            self._own_id, leadership.leader_id, leadership.term,
        )  # fmt: skip
        self._brain.on_leadership(leadership)
        answer = self._who_is_active()
        for session in [*self._sessions.values(), *self._tools, *self._rivals]:
            session.send(answer)

    def _who_is_active(self) -> HeartbeatAnswer:
        leadership = self._driver.leadership
        return HeartbeatAnswer(
            active_id=leadership.leader_id,
            controller_epoch=leadership.term,
            applied_index=self._driver.applied_index,
            sent_ms=NO_HEARTBEAT,
        )

    def submit(self, command: Command[Any], done: SubmitDone) -> None:
        """Execute a command of the brain; `done` is called later with answer or MetadataError."""
        term = self._driver.leadership.term
        self._spawn("controller-command", self._run(command, done, term))

    async def _run(self, command: Command[Any], done: SubmitDone, term: ControllerEpoch) -> None:
        try:
            answer = await self._driver.submit(command, decided_in=term)
        except MetadataError as error:
            done(error)
        else:
            done(answer)

    def send(self, broker_id: BrokerId, message: FromController) -> None:
        """Send a message of the brain to a broker's session, if there is one."""
        assert not isinstance(message, SubmitAnswer), "commands are answered here, not by the brain"
        session = self._sessions.get(broker_id)
        if session is not None:
            session.send(message)

    def said_levels(self) -> list[tuple[int, int]]:
        """Return (broker id, packed metadata levels) from the newest sessions' heartbeats."""
        return [
            (broker_id, session.metadata_levels)
            for broker_id, session in self._sessions.items()
            if session.metadata_levels is not None
        ]

    def stop(self) -> None:
        """Close all sessions."""
        for session in [*self._sessions.values(), *self._tools, *self._rivals]:
            session.channel.close("the controller stops")

    # --- sessions ------------------------------------------------------------------------------

    def on_link(self, link: PeerLink) -> None:
        """Accept a link; the PeerListener's callback for purpose b"session"."""
        self.on_channel(LinkChannel(link, SessionId(link.hello.session_id), is_asked=True))

    def open_local(self, broker_id: BrokerId, session_id: SessionId) -> LocalChannel:
        """Open a session within this process and return the broker's end."""
        broker_end, controller_end = local_channels(
            broker_id=broker_id, controller_id=PeerId(self._own_id), session_id=session_id
        )
        self.on_channel(controller_end)
        return broker_end

    def on_channel(self, channel: SessionChannel) -> None:
        """Accept a session; of one process the session with the higher id is the newer.

        That of another process counts only after its first heartbeat, which names its data
        directory: a second process started under the same id by mistake must not take over the
        broker's session.
        """
        session = BrokerSession(channel)
        broker_id = session.broker_id
        channel.start(
            lambda message: self._on_message(session, message),
            lambda reason: self._on_closed(session, reason),
        )
        if broker_id < 0:
            self._tools[session] = None
            return
        before = self._sessions.get(broker_id)
        if before is None:
            self._take(session)
        elif not _is_same_process(channel.session_id, before.channel.session_id):
            self._rivals[session] = None
        elif channel.session_id < before.channel.session_id:
            channel.close("a newer session is open")
        else:
            self._take(session)

    def _take(self, session: BrokerSession) -> None:
        """Make this the session that counts."""
        broker_id, session_id = session.broker_id, session.channel.session_id
        before = self._sessions.get(broker_id)
        self._sessions[broker_id] = session
        if before is not None:
            before.channel.close("a newer session was opened")
        log.info("session=%d broker=%d opened", session_id, broker_id)
        self._brain.on_session_opened(broker_id, session_id)

    def _on_closed(self, session: BrokerSession, reason: str) -> None:
        self._tools.pop(session, None)
        self._rivals.pop(session, None)
        self._drop(session, reason)

    def _drop(self, session: BrokerSession, reason: str) -> None:
        broker_id = session.broker_id
        if self._sessions.get(broker_id) is session:
            del self._sessions[broker_id]
            session_id = session.channel.session_id
            log.info("session=%d broker=%d closed: %s", session_id, broker_id, reason)
            self._brain.on_session_closed(broker_id, session_id)

    def _on_message(self, session: BrokerSession, message: SessionMessage) -> None:
        match message:
            case Heartbeat() if self._is_rival(session, message):
                answer = self._who_is_active()
                session.send(replace(answer, is_registration_wanted=self.is_active))
            case Heartbeat() | ProbeAnswer() | TransferReady():
                # A session that was replaced, or a tool's, says nothing about a broker.
                if self._sessions.get(session.broker_id) is session:
                    self._on_word(session, message)
                elif session in self._tools:
                    session.send(self._who_is_active())
            case Submit() | ElectRequest() | TransferRequest() | DrainRequest():
                self._on_question(session, message)
            case StatusRequest() | QuorumRequest() | ChangeControllers():
                self._on_question(session, message)
            case FeaturesRequest() | ChangeFeature():
                self._on_question(session, message)
            case _:
                session.channel.close("a message that brokers do not send")

    def _is_rival(self, session: BrokerSession, heartbeat: Heartbeat) -> bool:
        """Whether this is not the broker of that id; its registration will be refused."""
        is_counted = self._sessions.get(session.broker_id) is session
        if not is_counted and session not in self._rivals:
            return False
        if self._brain.is_owner(session.broker_id, heartbeat.identity):
            if not is_counted:
                del self._rivals[session]
                self._take(session)
            return False
        if is_counted:
            self._rivals[session] = None
            self._drop(session, "it has the data directory of another broker")
        return True

    def _on_word(
        self, session: BrokerSession, message: Heartbeat | ProbeAnswer | TransferReady
    ) -> None:
        match message:
            case Heartbeat():
                self._on_heartbeat(session, message)
            case ProbeAnswer() | TransferReady():
                self._brain.on_answer(session.broker_id, message)

    def _on_heartbeat(self, session: BrokerSession, heartbeat: Heartbeat) -> None:
        if heartbeat.broker_id != session.broker_id:
            session.channel.close("a heartbeat in another broker's name")
            return
        if heartbeat.session_id != session.channel.session_id:
            return
        session.metadata_levels = heartbeat.metadata_levels
        answer = self._brain.on_heartbeat(session.broker_id, heartbeat)
        if answer is not None:
            applied_index, sent_ms = self._driver.applied_index, heartbeat.sent_ms
            session.send(replace(answer, applied_index=applied_index, sent_ms=sent_ms))

    # --- requests ------------------------------------------------------------------------------

    def _on_question(
        self,
        session: BrokerSession,
        message: Question,
    ) -> None:
        if session.open_requests >= REQUESTS_MAX:
            self._answer_error(session, message, MetadataQueueFull(REQUESTS_MAX))
            return
        if isinstance(message, StatusRequest):
            session.send(self._brain.status(message.request_id))
            return
        if isinstance(message, QuorumRequest):
            session.send(
                OperationAnswer(request_id=message.request_id, text=self._operators.quorum())
            )
            return
        if not self.is_active:
            leader_id = self._driver.leadership.leader_id
            self._answer_error(session, message, NotActiveController(leader_id))
            return
        session.open_requests += 1
        match message:
            case Submit():
                self._spawn("session-submit", self._submit(session, message))
            case ChangeControllers() | FeaturesRequest() | ChangeFeature():
                self._spawn("operator", self._serve(session, message))
            case ElectRequest() | TransferRequest() | DrainRequest():
                self._operate(session, message)

    async def _submit(self, session: BrokerSession, message: Submit) -> None:
        try:
            command: Command[Any] = decode_command(message.command)
            answer = await submit_in_parts(self._driver, command)
        except LeadershipLost:
            session.send(SubmitOutcome(request_id=message.request_id, is_fate_open=True))
        except MetadataError as error:
            self._answer_error(session, message, error)
        else:
            session.send(
                SubmitOutcome(
                    request_id=message.request_id,
                    applied_index=self._driver.applied_index,
                    answer=encode_answer(answer),
                )
            )
        finally:
            session.open_requests -= 1

    def _operate(
        self, session: BrokerSession, request: ElectRequest | TransferRequest | DrainRequest
    ) -> None:
        def answered(answer: OperationAnswer) -> None:
            session.open_requests -= 1
            session.send(answer)

        self._brain.on_operation(request, answered)

    async def _serve(self, session: BrokerSession, request: ByService) -> None:
        try:
            text = await self._operators.serve(request)
        except MetadataError as error:
            self._answer_error(session, request, error)
        else:
            session.send(OperationAnswer(request_id=request.request_id, text=text))
        finally:
            session.open_requests -= 1

    def _answer_error(
        self,
        session: BrokerSession,
        message: Question,
        error: MetadataError,
    ) -> None:
        data = encode_error(error)
        if isinstance(message, Submit):
            outcome = SubmitOutcome(
                request_id=message.request_id,
                applied_index=self._driver.applied_index,
                error=data,
            )
            session.send(outcome)
        else:
            session.send(OperationAnswer(request_id=message.request_id, error=data))


def _is_same_process(session_id: SessionId, other: SessionId) -> bool:
    """Whether both ids are of one process: equal upper halves."""
    return session_id >> _SESSION_COUNT_BITS == other >> _SESSION_COUNT_BITS
