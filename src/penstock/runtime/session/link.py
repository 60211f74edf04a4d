"""A broker's session with one controller: kept open, with the requests that await answers.

    dial ─► open ─► messages ─► closed ─► a pause that grows with each failure ─► dial ...

Session ids: the upper half is random for the process, the lower half counts its sessions. Of two
sessions of one process the higher id is the newer, so that a controller recognises a late close or
heartbeat of an older one.

AnswerLost: the session closed before the answer, so whether the request was carried out is unknown.
NoSession: nothing was sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from penstock.base.ids import PeerId, RequestId, SessionId
from penstock.base.ports import Clock
from penstock.controller.errors import (
    MetadataPolicyViolation,
    MetadataQueueFull,
    MetadataUnavailable,
)
from penstock.controller.session import (
    NO_HEARTBEAT,
    NOT_TOLD,
    HeartbeatAnswer,
    OperationAnswer,
    StatusAnswer,
)
from penstock.net.peer import PeerFrameTooLarge, PeerRefused
from penstock.net.redial import RedialPause
from penstock.runtime.session.channel import SessionChannel
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.messages import Answer, Question, SessionMessage, SubmitOutcome

_LOG_EVERY_FAILURES = 60
"""One of so many failures in a row is logged: about one in two minutes."""
_PATIENT_FAILURES = 8
"""Refusals that are not logged, as processes start together: about 3 s of dialling."""

log = logging.getLogger(__name__)

OpenChannel = Callable[[SessionId], Awaitable[SessionChannel]]
"""Open a channel for a session with this id. Raises PeerRefused, OSError."""


class AnswerLost(MetadataUnavailable):
    """A request was sent and its outcome is unknown."""


class NoSession(MetadataUnavailable):
    """Nothing was sent: there is no session with that controller now."""


class SessionEvents(Protocol):
    """The owner of the sessions; called on the event loop."""

    def on_session_opened(self, session: "ControllerSession") -> None:
        """A session is open: send a heartbeat at once."""

    def on_session_closed(self, session: "ControllerSession") -> None:
        """The session has closed; another attempt follows."""

    def on_session_message(self, session: "ControllerSession", message: SessionMessage) -> None:
        """A message that is not the answer to a request."""


class SessionDraws(NamedTuple):
    """Random draws: session ids and jitter."""

    new_session_id: Callable[[], SessionId]
    uniform: Callable[[float, float], float]
    """A random number between two limits."""


class ControllerSession:
    """The session with one controller. `run` keeps it open until cancelled."""

    def __init__(
        self,
        controller_id: PeerId,
        open_channel: OpenChannel,
        *,
        config: SessionConfig,
        clock: Clock,
        events: SessionEvents,
        draws: SessionDraws,
    ) -> None:
        self.controller_id = controller_id
        self.session_id = SessionId(0)
        self.unanswered_count = 0
        """Heartbeats since the controller was last heard. A count rather than a time, as time also
        passes while this process is suspended."""
        self._asked_ms: int | None = None
        self._open_channel = open_channel
        self._config = config
        self._clock = clock
        self._events = events
        self._draws = draws
        self.failure: OSError | PeerRefused | None = None
        """Why the last attempt to open it failed; None before its end and after a success."""
        self._failures = 0
        self._channel: SessionChannel | None = None
        self._questions: dict[int, asyncio.Future[Answer]] = {}
        self._next_request_id = RequestId(1)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent to the controller."""
        return self._channel is not None and not self._channel.is_closed

    async def run(self) -> None:
        """Keep the session open until cancelled."""
        config = self._config
        pause = RedialPause(config.redial_min_ms, config.redial_max_ms)
        while True:
            began_ms = self._clock.monotonic_ms()
            await self._run_once()
            # A session that was open for a while, or was slow to fail, resets the pause.
            pause_ms = pause.after(self._clock.monotonic_ms() - began_ms)
            # Jitter, so that not all brokers dial a returning controller at once.
            await asyncio.sleep(pause_ms * self._draws.uniform(0.5, 1.0) / 1000)

    async def _run_once(self) -> None:
        self.session_id = self._draws.new_session_id()
        try:
            channel = await self._open_channel(self.session_id)
        except (OSError, PeerRefused) as error:
            is_refused = isinstance(error, ConnectionRefusedError)
            first = _PATIENT_FAILURES if is_refused else 0
            if self._failures % _LOG_EVERY_FAILURES == first:
                log.warning("session controller=%d not opened: %s", self.controller_id, error)
            self._failures += 1
            self.failure = error
            return
        self._failures = 0
        self.failure = None
        closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def on_closed(reason: str) -> None:
            if not closed.done():
                closed.set_result(reason)

        self._channel = channel
        self.unanswered_count, self._asked_ms = 0, None
        channel.start(self._on_message, on_closed)
        self._events.on_session_opened(self)
        reason = "this broker closes it"
        try:
            reason = await closed
        finally:
            channel.close(reason)
            self._channel = None
            self._lose_answers(reason)
            log.info("session=%d controller=%d closed: %s",
                     self.session_id, self.controller_id, reason)  # fmt: skip
            self._events.on_session_closed(self)

    def send(self, message: SessionMessage) -> None:
        """Send a message that needs no answer, if the session is open."""
        if self._channel is None:
            return
        try:
            self._channel.send(message)
        except PeerFrameTooLarge as error:
            log.warning("session controller=%d: %s", self.controller_id, error)

    def heartbeats(self, now_ms: int) -> None:
        """Note that heartbeats are sent now."""
        if self._asked_ms is None:
            self._asked_ms = now_ms

    def sent_ms_of(self, answer: HeartbeatAnswer) -> int | None:
        """Return when the heartbeat was sent that this answers; None if it answers none.

        A controller of an earlier release does not tell: then it is that of the first one since the
        last answer, and further answers count for nothing until there is another one.
        """
        asked_ms, self._asked_ms = self._asked_ms, None
        if answer.sent_ms == NOT_TOLD:
            return asked_ms
        return None if answer.sent_ms == NO_HEARTBEAT else answer.sent_ms

    def close(self, reason: str) -> None:
        """Close the current session; a new one is dialled."""
        if self._channel is not None:
            self._channel.close(reason)

    async def ask(self, make: Callable[[RequestId], Question]) -> Answer:
        """Send the request that `make` returns for a request id, and return its answer.

        Raises:
            NoSession, MetadataQueueFull, MetadataPolicyViolation: nothing was sent.
            AnswerLost: it was sent, and the session closed before the answer arrived.
        """
        channel = self._channel
        if channel is None or channel.is_closed:
            raise NoSession(f"no session to controller {self.controller_id}")
        if len(self._questions) >= self._config.commands_max:
            raise MetadataQueueFull(self._config.commands_max)
        request_id = self._next_request_id
        self._next_request_id = RequestId(request_id + 1)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            channel.send(make(request_id))
        except PeerFrameTooLarge as error:
            raise MetadataPolicyViolation(f"{error}: ask for less at a time.") from error
        self._questions[request_id] = answer
        try:
            return await answer
        finally:
            self._questions.pop(request_id, None)

    def _on_message(self, message: SessionMessage) -> None:
        self.unanswered_count = 0
        if isinstance(message, SubmitOutcome | OperationAnswer | StatusAnswer):
            waiting = self._questions.pop(message.request_id, None)
            if waiting is not None and not waiting.done():  # else the caller has given up
                waiting.set_result(message)
            return
        self._events.on_session_message(self, message)

    def _lose_answers(self, reason: str) -> None:
        questions, self._questions = self._questions, {}
        for waiting in questions.values():
            if not waiting.done():
                waiting.set_exception(AnswerLost(f"the session closed before the answer: {reason}"))
