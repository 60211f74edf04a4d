"""A broker's requests to the active controller: commands, operations, status.

When a request is repeated: a command that was refused by a controller that is not active, or was
never sent, is sent elsewhere until `command_timeout_ms`. A command without an answer may have been
committed: it is repeated only if that has no further effect (REPEATABLE). Any other, such as
CreateTopics, whose repetition would be refused because the topic exists, fails with
MetadataTimeout, and the caller has to check. So does a repeatable one that no controller accepts
after a lost answer, and so does an operation. An operation whose controller has lost the lead is
sent to the next one, which is told that it had begun.

If the active controller is this process, its driver is called directly.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from penstock.base.ids import PeerId, RequestId
from penstock.base.ports import Clock
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import decode_answer, decode_error, encode_command
from penstock.controller.errors import (
    LeadershipLost,
    MetadataError,
    MetadataQueueFull,
    MetadataTimeout,
    MetadataUnavailable,
    NotActiveController,
    RefusedCommand,
)
from penstock.controller.replicated_log import MachineIndex
from penstock.controller.session import (
    ElectRequest,
    OperationAnswer,
    StatusAnswer,
    StatusRequest,
    Submit,
)
from penstock.runtime.session.active import ActiveTracker
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.link import AnswerLost, ControllerSession, NoSession
from penstock.runtime.session.messages import Answer, Operation, SubmitOutcome

R = TypeVar("R")

REPEATABLE: frozenset[type[c.Command[Any]]] = frozenset(
    {
        c.AllocateProducerIds,  # a second block of ids is harmless
        c.CreateCluster,  # returns the id that was recorded first
        c.RegisterBroker,  # the same incarnation again
        c.RegisterReplica,  # one replica id for each log id
    }
)
"""Commands that may be repeated although the first attempt may have been committed.

ChangeSyncStateSet is not among them: a refusal of the second attempt would hide that the first one
may still be recorded. Its master requests it again and counts with both sets until it knows
(replication/sync_state.py).
"""

_RETRY_MS_MIN = 20
_RETRY_MS_MAX = 500
_STATUS_PATIENCE_MS = 2_000
"""An election among controllers takes less than this."""
_STATUS_LOOK_MS = 100


class LocalLog(Protocol):
    """This process's copy of the metadata log (ControllerDriver)."""

    async def submit(self, command: c.Command[R]) -> R:
        """Execute a command if this process leads. Raises NotActiveController otherwise."""

    @property
    def applied_index(self) -> MachineIndex:
        """Index of the last entry in the image."""

    async def wait_until_applied(self, log_index: MachineIndex, timeout_ms: int) -> bool:
        """Wait until the image holds the entry; return whether it does."""


class Sessions(Protocol):
    """The sessions to send requests through."""

    @property
    def local_id(self) -> PeerId:
        """Peer id of the controller in this process, NO_LEADER without one."""

    def session(self, controller_id: PeerId) -> ControllerSession | None:
        """Return the session to a controller, open or not."""

    def open_sessions(self) -> Iterable[ControllerSession]:
        """Return the sessions that are open."""


class SessionCommands:
    """Sends requests, follows refusals, repeats what is safe. Used on its event loop."""

    def __init__(
        self,
        sessions: Sessions,
        tracker: ActiveTracker,
        log: LocalLog,
        *,
        config: SessionConfig,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._tracker = tracker
        self._log = log
        self._config = config
        self._clock = clock
        self._open_count = 0

    async def submit(self, command: c.Command[R]) -> R:
        """Return the response once the change is committed and replayed here.

        Raises:
            RefusedCommand: the command is refused as a whole.
            MetadataUnavailable: not accepted; after MetadataTimeout it may be committed.
        """
        return await self._bounded(self._submit(command))

    async def operate(self, make: Callable[[RequestId], Operation]) -> str:
        """Run an operator's request on the active controller; return text for people.

        `make` is given the request id. Raises as `submit` does.
        """
        return await self._bounded(self._operate(make))

    async def status(self) -> StatusAnswer:
        """Return the cluster's state as the active controller sees it, or any if none is active.

        Raises:
            MetadataUnavailable: no controller answers.
        """
        return await self._bounded(self._status())

    async def _bounded(self, work: Coroutine[Any, Any, R]) -> R:
        timeout_ms = self._config.command_timeout_ms
        if self._open_count >= self._config.commands_max:
            work.close()
            raise MetadataQueueFull(self._config.commands_max)
        self._open_count += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await work
        except TimeoutError:
            raise MetadataTimeout(timeout_ms) from None
        finally:
            self._open_count -= 1

    async def _submit(self, command: c.Command[R]) -> R:
        may_repeat = type(command) in REPEATABLE
        began_ms = self._clock.monotonic_ms()
        delay_ms = _RETRY_MS_MIN
        is_fate_open = False
        while True:
            news, target = self._tracker.news, self._tracker.active_id
            try:
                return await self._submit_to(target, command)
            except (AnswerLost, LeadershipLost) as error:
                if not may_repeat:
                    waited_ms = self._clock.monotonic_ms() - began_ms
                    raise MetadataTimeout(waited_ms) from error
                is_fate_open = True
            except NotActiveController as error:
                self._tracker.on_refusal(target, error.controller_id)
            except NoSession:
                pass
            except MetadataUnavailable as error:
                if is_fate_open:
                    raise MetadataTimeout(self._clock.monotonic_ms() - began_ms) from error
                raise
            await self._tracker.wait(news, delay_ms)
            delay_ms = min(2 * delay_ms, _RETRY_MS_MAX)

    async def _submit_to(self, target: PeerId, command: c.Command[R]) -> R:
        if target == self._sessions.local_id:
            return await self._log.submit(command)
        data = encode_command(command)
        outcome = await self._session(target).ask(
            lambda request_id: Submit(request_id=request_id, command=data)
        )
        if not isinstance(outcome, SubmitOutcome):
            raise MetadataUnavailable(f"controller {target} sent an unexpected answer")
        if outcome.is_fate_open:
            raise AnswerLost("the active controller was replaced in the meantime")
        error = decode_error(outcome.error) if outcome.error else None
        if error is None or isinstance(error, RefusedCommand):
            await self._until_applied(outcome.applied_index)
        if error is not None:
            raise error
        return decode_answer(command, outcome.answer)

    async def _until_applied(self, log_index: MachineIndex) -> None:
        """Wait until this broker's image holds the entry; bounded by the command's time-out."""
        timeout_ms = self._config.command_timeout_ms
        try:
            is_applied = await self._log.wait_until_applied(log_index, timeout_ms)
        except MetadataQueueFull as error:  # the command was accepted; only this wait was not
            raise MetadataTimeout(timeout_ms) from error
        if not is_applied:
            raise MetadataTimeout(timeout_ms)

    async def _operate(self, make: Callable[[RequestId], Operation]) -> str:
        began_ms = self._clock.monotonic_ms()
        delay_ms = _RETRY_MS_MIN
        is_begun = False

        def asked(request_id: RequestId) -> Operation:
            request = make(request_id)
            if is_begun and isinstance(request, ElectRequest):
                return replace(request, is_repeated=True)
            return request

        while True:
            news, target = self._tracker.news, self._tracker.active_id
            try:
                answer = await self._session(target).ask(asked)
                if isinstance(answer, OperationAnswer):
                    if not answer.error:
                        return answer.text
                    is_begun = is_begun or answer.is_begun
                raise _error_of(answer)
            except (AnswerLost, LeadershipLost) as error:
                raise MetadataTimeout(self._clock.monotonic_ms() - began_ms) from error
            except NotActiveController as error:
                self._tracker.on_refusal(target, error.controller_id)
            except NoSession:
                pass
            await self._tracker.wait(news, delay_ms)
            delay_ms = min(2 * delay_ms, _RETRY_MS_MAX)

    async def _status(self) -> StatusAnswer:
        session = await self._session_for_status()
        answer = await session.ask(lambda request_id: StatusRequest(request_id=request_id))
        if isinstance(answer, StatusAnswer) and not answer.error:
            return answer
        raise _error_of(answer)

    async def _session_for_status(self) -> ControllerSession:
        """Return the active controller's session, or any if none turned active in time.

        A process that is not a controller, or no longer one, would report every broker as silent.
        """
        patient_until_ms = self._clock.monotonic_ms() + _STATUS_PATIENCE_MS
        while True:
            news = self._tracker.news
            candidates = {
                session.controller_id: session for session in self._sessions.open_sessions()
            }
            active = candidates.get(self._tracker.active_id)
            if active is not None:
                return active
            if candidates and self._clock.monotonic_ms() >= patient_until_ms:
                return next(iter(candidates.values()))
            await self._tracker.wait(news, _STATUS_LOOK_MS)

    def _session(self, controller_id: PeerId) -> ControllerSession:
        session = self._sessions.session(controller_id)
        if session is None:
            raise NoSession(f"controller {controller_id} is not known here")
        return session


def _error_of(answer: Answer) -> MetadataError:
    if isinstance(answer, OperationAnswer | StatusAnswer) and answer.error:
        return decode_error(answer.error)
    return MetadataUnavailable("the controller sent an unexpected answer")
