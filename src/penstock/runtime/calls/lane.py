"""The calls to one broker: those that wait in order, those that were sent, and how each ends.

    ask ─► waiting ─► transmit ─► sent ─► answered | timed out | lost
             └─► refused, not sent in time

A call ends once. It is sent at most once: nothing here sends one again.

Source: docs/adr/0090.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from penstock.base.errors import as_answer
from penstock.base.ports import Cancellable
from penstock.coordinator.calls.asking import (
    Asks,
    BrokerNotReached,
    CallError,
    CallFailed,
    CallNotSent,
    CallNotServed,
    CallsFull,
    CallTimedOut,
    CallTooLarge,
    LinkLost,
    Told,
    ToldT,
    fits,
)
from penstock.runtime.calls.messages import Unserved
from penstock.runtime.calls.ports import CallPorts

SENT_PER_TURN = 16
"""Questions; one of the largest takes half a millisecond."""

_OUTCOMES: dict[type[CallError], str] = {
    CallsFull: "full",
    CallTooLarge: "too_large",
    BrokerNotReached: "not_reached",
    CallNotSent: "not_sent",
    CallNotServed: "not_served",
    CallTimedOut: "timed_out",
    LinkLost: "lost",
    CallFailed: "failed",
}


class Call:
    """One question; `future` gets its answer or a CallError."""

    __slots__ = ("future", "question", "timer")

    def __init__(self, question: Asks[Any]) -> None:
        self.question = question
        self.future: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self.timer: Cancellable | None = None


class Lane:
    """Calls in order. `transmit` sends one; `has_room` says whether it may be called now."""

    def __init__(
        self,
        who: str,
        ports: CallPorts,
        *,
        transmit: Callable[[Asks[Any]], None],
        has_room: Callable[[], bool],
    ) -> None:
        self.who = who
        self.waiting: dict[int, Call] = {}
        self.sent: dict[int, Call] = {}
        self._ports = ports
        self._transmit = transmit
        self._has_room = has_room
        self._count = 0
        self._is_resting = False
        """The rest is sent in the next turn."""

    async def ask(self, question: Asks[ToldT], timeout_ms: int) -> ToldT:
        """Return the answer. Raises CallError."""
        kind, limits, stats = type(question).__name__, self._ports.limits, self._ports.stats
        if len(self.waiting) >= limits.queued:
            stats.outcomes[kind, "full"] += 1
            raise CallsFull(f"{limits.queued} calls wait for {self.who}")
        self._count += 1
        number = self._count
        call = self.waiting[number] = Call(replace(question, correlation=number))
        call.timer = self._ports.scheduler.call_later(timeout_ms, lambda: self._expire(number))
        stats.in_flight[kind] += 1
        outcome = "given_up"
        try:
            self.pump()
            answer = cast("ToldT", await call.future)  # which fits the question
            outcome = "answered"
        except CallError as error:
            outcome = _OUTCOMES[type(error)]
            raise
        finally:
            call.timer.cancel()
            self.waiting.pop(number, None)
            self.sent.pop(number, None)
            stats.in_flight[kind] -= 1
            stats.outcomes[kind, outcome] += 1
            self.pump()
        return answer

    def pump(self) -> None:
        """Send what waits, as far as there is room, some of it in each turn of the loop."""
        if self._is_resting:
            return
        left = SENT_PER_TURN
        while self.waiting and len(self.sent) < self._ports.limits.in_flight and self._has_room():
            if not left:
                self._is_resting = True
                self._ports.scheduler.call_soon(self._go_on)
                return
            left -= 1
            number = next(iter(self.waiting))
            call = self.sent[number] = self.waiting.pop(number)
            try:
                self._transmit(call.question)
            except CallTooLarge as error:
                self._end(number, as_answer(error))

    def _go_on(self) -> None:
        self._is_resting = False
        self.pump()

    def on_answer(self, answer: Told | Unserved) -> None:
        """End a call by what the broker has said; one that is over already stays so."""
        call = self.sent.get(answer.correlation)
        if call is None:
            return
        if isinstance(answer, Unserved):
            failure = CallFailed if answer.is_begun else CallNotServed
            self._end(answer.correlation, failure(f"{self.who}: {answer.reason}"))
        elif not fits(call.question, answer):
            self.on_unreadable(answer.correlation, "the answer does not fit the question")
        elif not call.future.done():
            del self.sent[answer.correlation]
            call.future.set_result(answer)

    def on_unreadable(self, number: int, what: str) -> None:
        """End a call whose answer says nothing to this release."""
        self._end(number, CallFailed(f"{self.who}: {what}"))

    def lose(self, reason: str) -> None:
        """The link has ended: what was sent may have been done."""
        for number in list(self.sent):
            self._end(number, LinkLost(f"{self.who}: {reason}"))

    def refuse(self, reason: str) -> None:
        """There is no link: nothing that waits was sent."""
        for number in list(self.waiting):
            self._end(number, BrokerNotReached(f"{self.who}: {reason}"))

    def _expire(self, number: int) -> None:
        if number in self.sent:
            self._end(number, CallTimedOut(f"{self.who}: not answered in time"))
        else:
            self._end(number, CallNotSent(f"{self.who}: not sent in time"))

    def _end(self, number: int, error: CallError) -> None:
        call = self.waiting.pop(number, None) or self.sent.pop(number, None)
        if call is not None and not call.future.done():
            call.future.set_exception(error)
