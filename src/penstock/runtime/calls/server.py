"""The answering side of calls: one handler for each kind of question, for brokers and for itself.

    link of broker 2 ─► question ─► handler, a task ─► answer, in any order
                     ◄─ not read while `served` questions of broker 2 are worked on

A broker has one link here; a newer one replaces it. What a lost link has asked is worked on to its
end and told to nobody. While a broker's questions are worked on, it is told so now and then, so
that a slow handler is no dead broker.

Source: docs/adr/0090.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar, cast

from penstock.base.errors import PlatformError
from penstock.base.invariant import invariant
from penstock.base.ports import Cancellable
from penstock.coordinator.calls import (
    Answer,
    CallFailed,
    CallNotServed,
    CallTooLarge,
    MarkersRequest,
    Question,
    VerifyRequest,
    fits,
)
from penstock.coordinator.extent_calls import BatchesRequest, ExtentRequest
from penstock.coordinator.position_calls import (
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
)
from penstock.coordinator.recall_calls import RecallRequest
from penstock.coordinator.share_calls import (
    ShareBeginRequest,
    ShareChangeRequest,
    ShareLeaveRequest,
    ShareSummaryRequest,
)
from penstock.net.peer import PeerFrameTooLarge, PeerLink
from penstock.runtime.calls.incoming import read_frames
from penstock.runtime.calls.messages import (
    CallMessage,
    StillThere,
    Unserved,
    encode,
    is_question,
    unserved,
)
from penstock.runtime.calls.ports import CallPorts

Q = TypeVar(
    "Q",
    MarkersRequest,
    VerifyRequest,
    ShareSummaryRequest,
    ShareChangeRequest,
    ShareLeaveRequest,
    ShareBeginRequest,
    BatchesRequest,
    ExtentRequest,
    CommitPositionRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
    DeleteGroupRequest,
    RecallRequest,
)
Handler = Callable[[Q], Awaitable[Answer]]

log = logging.getLogger(__name__)


class CallServer:
    """Handlers by question, and the links of the brokers that ask."""

    def __init__(self, ports: CallPorts) -> None:
        self.ports = ports
        self._handlers: dict[type[Question], Callable[[Question], Awaitable[Answer]]] = {}
        self._asking: dict[int, AskingBroker] = {}

    def serve(self, kind: type[Q], handler: Handler[Q]) -> None:
        """Answer questions of this kind by `handler`, which raises PlatformError if it can not.

        It runs up to `served` times at once for each broker; `correlation` is not its business.
        """
        assert kind not in self._handlers, f"{kind.__name__} is served already"
        self._handlers[kind] = cast("Callable[[Question], Awaitable[Answer]]", handler)

    def on_link(self, link: PeerLink) -> None:
        """Accept the link of a broker; the PeerListener's callback for purpose b"call"."""
        peer_id = link.hello.peer_id
        asking = self._asking.get(peer_id)
        if asking is None:
            asking = self._asking[peer_id] = AskingBroker(self, peer_id)
        asking.take(link)

    async def answer(self, question: Question) -> Answer:
        """Return the handler's answer. Raises CallNotServed, CallFailed."""
        kind, served = type(question).__name__, self.ports.stats.served
        handler = self._handlers.get(type(question))
        if handler is None:
            served[kind, "unserved"] += 1
            raise CallNotServed(f"broker {self.ports.broker_id} does not serve {kind}")
        limit_ms = self.ports.limits.served_ms
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                answer = await handler(question)
        except TimeoutError as error:
            served[kind, "failed"] += 1
            raise CallFailed(f"{kind} was not done in {limit_ms} ms") from error
        except PlatformError as error:
            served[kind, "failed"] += 1
            log.warning("call %s failed: %s", kind, error)
            raise CallFailed(f"{kind}: {error}") from error
        invariant(fits(question, answer), "a handler's answer does not fit", kind=kind)
        served[kind, "answered"] += 1
        return answer

    def forget(self, asking: "AskingBroker") -> None:
        """Nothing is left of a broker that has asked."""
        if self._asking.get(asking.peer_id) is asking:
            del self._asking[asking.peer_id]

    def stop(self) -> None:
        """Close all links."""
        for asking in list(self._asking.values()):
            asking.close("the broker stops")


class AskingBroker:
    """One broker that asks: its newest link, and what is worked on for it."""

    def __init__(self, server: CallServer, peer_id: int) -> None:
        self._server = server
        self.peer_id = peer_id
        self._link: PeerLink | None = None
        self._running = 0
        self._is_paused = False
        self._timer: Cancellable | None = None

    def take(self, link: PeerLink) -> None:
        """Read questions from this link from now on, and from no other."""
        self.close("the broker has opened a newer link")
        log.info("caller=%d connected from=%s", self.peer_id, link.address)
        self._link, self._is_paused = link, False
        link.on_closed = lambda reason: self._closed(link, reason)
        link.on_writable = self._read_or_not
        self._read_or_not()
        read_frames(
            link,
            f"calls of={self.peer_id}",
            lambda message: self._on_message(link, message),
            lambda frame, number, what: self._on_unknown(link, frame, number, what),
        )

    def close(self, reason: str) -> None:
        """Close the link."""
        link, self._link = self._link, None
        if link is not None:
            link.close(reason)

    def _closed(self, link: PeerLink, reason: str) -> None:
        log.info("caller=%d disconnected: %s", self.peer_id, reason)
        if self._link is link:
            self._link = None
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._link is None and not self._running:
            self._server.forget(self)

    def _on_message(self, link: PeerLink, message: CallMessage) -> None:
        if not isinstance(message, Question):
            link.break_off(f"calls of={self.peer_id}", "a message that only answers")
            return
        self._running += 1
        self._read_or_not()
        self._tell_later()
        self._server.ports.spawn(f"call-of-{self.peer_id}", self._work(link, message))

    def _on_unknown(self, link: PeerLink, frame: memoryview, number: int, what: str) -> None:
        if not is_question(frame):
            link.break_off(f"calls of={self.peer_id}", what)
            return
        self._server.ports.stats.served["unknown", "unserved"] += 1
        self._send(link, unserved(number, what, is_begun=False))

    async def _work(self, link: PeerLink, question: Question) -> None:
        number = question.correlation
        answer: Answer | Unserved
        try:
            answer = replace(await self._server.answer(question), correlation=number)
        except CallNotServed as error:
            answer = unserved(number, str(error), is_begun=False)
        except CallFailed as error:
            answer = unserved(number, str(error), is_begun=True)
        finally:
            self._running -= 1
            self._read_or_not()
            self._forget_if_over()
        self._send(link, answer)

    def _send(self, link: PeerLink, message: Answer | Unserved | StillThere) -> None:
        try:
            link.send(encode(message))
        except (CallTooLarge, PeerFrameTooLarge) as error:
            log.warning("caller=%d: no answer: %s", self.peer_id, error)
            if isinstance(message, Answer):
                self._send(link, unserved(message.correlation, str(error), is_begun=True))
            return
        self._read_or_not()

    def _read_or_not(self) -> None:
        """Take no more questions while enough are worked on, or answers are not taken."""
        link = self._link
        if link is None:
            return
        is_enough = self._running >= self._server.ports.limits.served or not link.is_writable
        if is_enough is self._is_paused:
            return
        self._is_paused = is_enough
        if is_enough:
            link.pause_reading()
        else:
            link.resume_reading()

    def _tell_later(self) -> None:
        if self._timer is None:
            ports = self._server.ports
            self._timer = ports.scheduler.call_later(ports.config.keep_alive_ms, self._tell)

    def _tell(self) -> None:
        self._timer = None
        if self._link is not None and self._running:
            if self._link.is_writable:
                self._send(self._link, StillThere())
            self._tell_later()
