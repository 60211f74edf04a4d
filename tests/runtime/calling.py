"""Brokers that ask each other over real links, for tests: two nodes' calls within a process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from penstock.base.ids import (
    BrokerId,
    CoordinatorEpoch,
    LeaderEpoch,
    ProducerEpoch,
    ProducerId,
    SessionId,
)
from penstock.controller.metadata.image import BrokerImage, ClusterImage
from penstock.coordinator.calls.asking import FRAME_BYTES_MAX
from penstock.coordinator.calls.transactions import (
    AskedPartition,
    MarkedPartition,
    MarkerEntry,
    MarkersRequest,
    VerifyRequest,
    VerifyResponse,
)
from penstock.net.peer import Credentials, PeerHello, PeerLink, PeerListener, PeerSecurity
from penstock.replication.config import ReplicationConfig
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.calls.messages import PURPOSE
from penstock.runtime.calls.ports import USUAL_LIMITS, CallLimits, CallPorts
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from tests.net.serving import run

SECRET = b"a secret of the tests"
AMPLE_MS = 20_000
QUICK = ReplicationConfig(reconnect_ms=1, reconnect_ms_max=16)
PATIENT = ReplicationConfig(link_silence_ms=600_000)

__all__ = ["AMPLE_MS", "Broker", "Gate", "markers", "pair", "run", "verify"]


def verify(*partitions: int, name: str = "t", padding: int = 0) -> VerifyRequest:
    return VerifyRequest(
        transactional_id="id" + padding * "x",
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(1),
        is_verify_only=True,
        partitions=tuple(AskedPartition(name, number) for number in partitions),
        topic_ids=(16 * b"i",),
    )


def markers(*counts: int) -> MarkersRequest:
    """Entries with so many partitions each."""
    return MarkersRequest(
        entries=tuple(
            MarkerEntry(
                producer_id=ProducerId(number),
                producer_epoch=ProducerEpoch(3),
                coordinator_epoch=CoordinatorEpoch(9),
                is_commit=number % 2 == 0,
                transaction_version=2,
                number=5 + number,
                partitions=tuple(
                    MarkedPartition(bytes(16), each, LeaderEpoch(4)) for each in range(count)
                ),
            )
            for number, count in enumerate(counts)
        )
    )


class Gate:
    """A handler of VerifyRequest whose answers wait until the test lets them out."""

    def __init__(self) -> None:
        self.asked: list[VerifyRequest] = []
        self._open: dict[int, asyncio.Event] = {}
        self._came = asyncio.Event()
        self.is_open = False

    def _event(self, partition: int) -> asyncio.Event:
        return self._open.setdefault(partition, asyncio.Event())

    async def __call__(self, question: VerifyRequest) -> VerifyResponse:
        self.asked.append(question)
        self._came.set()
        if not self.is_open:
            await self._event(question.partitions[0].partition).wait()
        return VerifyResponse(codes=tuple(each.partition for each in question.partitions))

    def let(self, *partitions: int) -> None:
        for each in partitions:
            self._event(each).set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._came.clear()
            await self._came.wait()

    @property
    def numbers(self) -> list[int]:
        return [one.partitions[0].partition for one in self.asked]


class Broker:
    """One broker's calls, with its port and its view of who is where."""

    def __init__(
        self,
        broker_id: int,
        *,
        limits: CallLimits = USUAL_LIMITS,
        secret: bytes = SECRET,
        config: ReplicationConfig = QUICK,
    ) -> None:
        self.broker_id = BrokerId(broker_id)
        self.image = ClusterImage()
        self.tasks: list[asyncio.Task[None]] = []
        self.links: list[PeerLink] = []
        self.gate = Gate()
        security = PeerSecurity(Credentials(secret))
        self.calls = BrokerCalls(
            CallPorts(
                broker_id=self.broker_id,
                image=self.image,
                config=config,
                clock=SystemClock(),
                scheduler=LoopScheduler(asyncio.get_running_loop()),
                security=security,
                spawn=self._spawn,
                new_session_id=lambda: SessionId(1),
                limits=limits,
            )
        )
        self.purposes: dict[bytes, Callable[[PeerLink], None]] = {PURPOSE: self._on_link}
        self.listener = PeerListener(
            "127.0.0.1", 0, PeerHello(b"", "", broker_id, 0), security, self.purposes,
            frame_bytes_max=FRAME_BYTES_MAX,
        )  # fmt: skip
        self.listener.start()

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    def _on_link(self, link: PeerLink) -> None:
        self.links.append(link)
        self.calls.on_link(link)

    def serve(self) -> None:
        self.calls.server.serve(VerifyRequest, self.gate)

    def knows(self, other: "Broker") -> None:
        """The image has the other one where it listens now."""
        self.image.brokers[other.broker_id] = BrokerImage(
            broker_id=other.broker_id,
            host="127.0.0.1",
            port=1,
            rack=None,
            ha_host="127.0.0.1",
            ha_port=other.listener.port,
        )

    def soon(self, broker_id: int, *partitions: int, timeout_ms: int = AMPLE_MS) -> Any:
        """Ask for these partitions in a task."""
        question = verify(*partitions)
        asking = self.calls.ask(BrokerId(broker_id), question, timeout_ms=timeout_ms)
        return asyncio.ensure_future(asking)

    def outcomes(self, kind: str = "VerifyRequest") -> dict[str, int]:
        found = self.calls.stats.outcomes.items()
        return {outcome: count for (question, outcome), count in found if question == kind}

    async def close(self) -> None:
        self.calls.stop()
        self.listener.stop()
        for task in self.tasks:
            task.cancel()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        wrong = [one for one in ended if isinstance(one, Exception)]
        assert not wrong, wrong


@asynccontextmanager
async def pair(
    *,
    limits: CallLimits = USUAL_LIMITS,
    secret: bytes = SECRET,
    config: ReplicationConfig = QUICK,
) -> AsyncIterator[tuple[Broker, Broker]]:
    """Broker 1, which knows where broker 2 is; `secret` is that of broker 2."""
    one = Broker(1, limits=limits, config=config)
    two = Broker(2, limits=limits, secret=secret, config=config)
    one.knows(two)
    two.serve()
    try:
        yield one, two
    finally:
        await one.close()
        await two.close()
        for _ in range(20):
            await asyncio.sleep(0)
