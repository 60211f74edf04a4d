"""Calls between brokers, as the node has them: asks, and registers who answers.

    calls = BrokerCalls(CallPorts(...))
    calls.server.serve(VerifyRequest, handler)
    answer = await calls.ask(broker_id, VerifyRequest(...), timeout_ms=1_000)

Source: docs/adr/0090.
"""

from typing import overload

from penstock.base.ids import BrokerId
from penstock.coordinator.calls import (
    Answer,
    BrokerNotReached,
    MarkersRequest,
    MarkersResponse,
    Question,
    VerifyRequest,
    VerifyResponse,
)
from penstock.coordinator.extent_calls import (
    BatchesRequest,
    BatchesResponse,
    ExtentRequest,
    ExtentResponse,
)
from penstock.coordinator.position_calls import (
    CommitPositionRequest,
    DeleteGroupRequest,
    FetchPositionRequest,
    GroupPositionsRequest,
    GroupPositionsResponse,
    PositionResponse,
)
from penstock.coordinator.recall_calls import RecallRequest, RecallResponse
from penstock.coordinator.share_calls import (
    ShareBeginRequest,
    ShareChangeRequest,
    ShareCodesResponse,
    ShareLeaveRequest,
    ShareSummaryRequest,
    ShareSummaryResponse,
)
from penstock.net.peer import PeerLink
from penstock.runtime.calls.client import AskedBroker, OwnBroker
from penstock.runtime.calls.ports import CallPorts, CallStats
from penstock.runtime.calls.server import CallServer


class BrokerCalls:
    """The calls of one broker, in both directions. Created and used on its event loop."""

    def __init__(self, ports: CallPorts) -> None:
        self.server = CallServer(ports)
        self._ports = ports
        self._own = OwnBroker(ports, self.server)
        self._asked: dict[BrokerId, AskedBroker] = {}
        self._is_stopped = False

    @property
    def stats(self) -> CallStats:
        """Counters for the metrics page."""
        return self._ports.stats

    @overload
    async def ask(
        self, broker_id: BrokerId, question: MarkersRequest, *, timeout_ms: int
    ) -> MarkersResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: VerifyRequest, *, timeout_ms: int
    ) -> VerifyResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: ShareSummaryRequest, *, timeout_ms: int
    ) -> ShareSummaryResponse: ...
    @overload
    async def ask(
        self,
        broker_id: BrokerId,
        question: ShareChangeRequest | ShareLeaveRequest | ShareBeginRequest,
        *,
        timeout_ms: int,
    ) -> ShareCodesResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: BatchesRequest, *, timeout_ms: int
    ) -> BatchesResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: ExtentRequest, *, timeout_ms: int
    ) -> ExtentResponse: ...
    @overload
    async def ask(
        self,
        broker_id: BrokerId,
        question: CommitPositionRequest | FetchPositionRequest | DeleteGroupRequest,
        *,
        timeout_ms: int,
    ) -> PositionResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: GroupPositionsRequest, *, timeout_ms: int
    ) -> GroupPositionsResponse: ...
    @overload
    async def ask(
        self, broker_id: BrokerId, question: RecallRequest, *, timeout_ms: int
    ) -> RecallResponse: ...
    async def ask(self, broker_id: BrokerId, question: Question, *, timeout_ms: int) -> Answer:
        """Return the answer of a broker, perhaps of this one.

        The question is sent at most once.

        Raises:
            CallNotBegun: it was not sent, or not taken; the kinds are in coordinator/calls.py.
            CallOutcomeUnknown: it may have been done, or be done yet.
        """
        if self._is_stopped:
            raise self._not_reached(question, "this broker stops")
        if broker_id == self._ports.broker_id:
            return await self._own.lane.ask(question, timeout_ms)
        asked = self._asked.get(broker_id)
        if asked is None:
            if self._ports.address_of(broker_id) is None:
                raise self._not_reached(question, f"broker {broker_id} is not registered")
            asked = self._asked[broker_id] = AskedBroker(broker_id, self._ports, self._forget)
        asked.prepare()
        return await asked.lane.ask(question, timeout_ms)

    def on_link(self, link: PeerLink) -> None:
        """Accept the link of a broker; the PeerListener's callback for purpose b"call"."""
        if self._is_stopped:
            link.close("the broker stops")
        else:
            self.server.on_link(link)

    def stop(self) -> None:
        """Ask and answer nothing any more, and close all links."""
        self._is_stopped = True
        self._own.lane.refuse("this broker stops")
        self._own.lane.lose("this broker stops")
        for asked in list(self._asked.values()):
            asked.stop()
        self.server.stop()

    def _not_reached(self, question: Question, reason: str) -> BrokerNotReached:
        self.stats.outcomes[type(question).__name__, "not_reached"] += 1
        return BrokerNotReached(reason)

    def _forget(self, broker_id: BrokerId) -> None:
        self._asked.pop(broker_id, None)
