"""Controllers and brokers over loopback sockets and a log whose leader the test decides about."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from harness.ids import as_brokers
from harness.waiting import until
from penstock.base.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PeerId,
    ReplicaSetId,
    RequestId,
    TopicId,
)
from penstock.controller.commands.codec import encode_error
from penstock.controller.commands.command import (
    CreateReplicaSet,
    CreateTopics,
    NewTopic,
    RegisterBroker,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.replicated_log import NO_LEADER, Leadership
from penstock.controller.session import (
    ControllerStatus,
    DrainRequest,
    ElectRequest,
    Heartbeat,
    HeartbeatAnswer,
    OperationAnswer,
    PrepareTransfer,
    ProbeAnswer,
    ProbeSets,
    ReleasePromises,
    SetReport,
    StatusAnswer,
    TransferReady,
    TransferRequest,
)
from penstock.net.peer import Credentials, PeerHello, PeerListener, PeerSecurity
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.randomness import SystemRandomness
from penstock.runtime.session.client import (
    SessionClient,
    SessionIdentity,
    SessionPorts,
)
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.messages import (
    PURPOSE,
    ChangeControllers,
    ChangeFeature,
    FeaturesRequest,
)
from penstock.runtime.session.operator_ports import OperatorPorts
from penstock.runtime.session.service import BrainPorts, ControllerService
from tests.runtime.shared_log import LogGroup

SECURITY = PeerSecurity(Credentials(b"a secret of the tests"))
DEADLINE_SECONDS = 120.0
FRAME_BYTES_MAX = 1 << 20
QUICK = SessionConfig(heartbeat_interval_ms=20, silence_ms=2_000, redial_min_ms=5, redial_max_ms=20)


def on_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        async def bounded() -> None:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await test()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(bounded())

    return run


def report(set_id: int) -> SetReport:
    return SetReport(
        replica_set_id=ReplicaSetId(set_id),
        log_id="log",
        role="slave",
        leader_epoch=LeaderEpoch(3),
        last_log_epoch=LeaderEpoch(3),
        log_start_position=0,
        log_end_position=100,
        confirm_position=90,
    )


class WatchedBrain:
    """Writes down what a service tells; answers operations with their kind."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.heartbeats: list[Heartbeat] = []
        self.answers: list[tuple[int, ProbeAnswer | TransferReady]] = []
        self.unknown: set[int] = set()
        self.strange: set[str] = set()
        self.leadership = Leadership(NO_LEADER, ControllerEpoch(0), is_leader=False)
        self.operation_error: MetadataError | None = None

    def on_leadership(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.events.append(("leadership", leadership.leader_id, leadership.term))

    def is_owner(self, broker_id: int, identity: str) -> bool:
        return identity not in self.strange

    def on_session_opened(self, broker_id: int, session_id: int) -> None:
        self.events.append(("opened", broker_id, session_id))

    def on_session_closed(self, broker_id: int, session_id: int) -> None:
        self.events.append(("closed", broker_id, session_id))

    def on_heartbeat(self, broker_id: int, heartbeat: Heartbeat) -> HeartbeatAnswer | None:
        self.heartbeats.append(heartbeat)
        is_wanted = broker_id in self.unknown and self.leadership.is_leader
        return HeartbeatAnswer(
            active_id=self.leadership.leader_id,
            controller_epoch=self.leadership.term,
            is_registration_wanted=is_wanted,
        )

    def on_answer(self, broker_id: int, answer: ProbeAnswer | TransferReady) -> None:
        self.answers.append((broker_id, answer))

    def on_operation(
        self,
        request: ElectRequest | TransferRequest | DrainRequest,
        answered: Callable[[OperationAnswer], None],
    ) -> None:
        error = b"" if self.operation_error is None else encode_error(self.operation_error)
        text = "" if error else type(request).__name__
        answered(OperationAnswer(request_id=request.request_id, text=text, error=error))

    def status(self, request_id: int) -> StatusAnswer:
        controller = ControllerStatus(
            answered_by=0,
            active_id=PeerId(0),
            controller_epoch=ControllerEpoch(0),
            is_failover_enabled=True,
        )
        return StatusAnswer(
            request_id=RequestId(request_id),
            cluster_id="c",
            controller=controller,
            brokers=(),
            sets=(),
        )


class WatchedOwner:
    """A broker's duties, written down."""

    def __init__(self) -> None:
        self.probes: list[ProbeSets] = []
        self.released: list[ReleasePromises] = []
        self.registered_count = 0
        self.controller_count = 0
        self.registering: Callable[[], Coroutine[Any, Any, None]] | None = None

    def reports(self) -> tuple[SetReport, ...]:
        return (report(7),)

    def probe(self, request: ProbeSets) -> tuple[SetReport, ...]:
        self.probes.append(request)
        return tuple(report(replica_set.replica_set_id) for replica_set in request.sets)

    def release(self, request: ReleasePromises) -> None:
        self.released.append(request)

    async def prepare_transfer(self, request: PrepareTransfer) -> TransferReady:
        return TransferReady(request_id=request.request_id, is_ready=True, log_end_position=5)

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        self.sent_ms = sent_ms
        self.is_caught_up = is_caught_up
        self.controller_count += 1

    async def register(self) -> None:
        self.registered_count += 1
        if self.registering is not None:
            await self.registering()


class Tasks:
    """What a supervisor does in a node: it keeps tasks and lets nothing unexpected pass."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.failures: list[BaseException] = []

    def spawn(self, _name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self.failures == []


class Process:
    """A process's copy of the metadata, and its tasks."""

    def __init__(self, group: LogGroup, peer_id: int) -> None:
        self.peer_id = peer_id
        self.tasks = Tasks()
        self.log = group.join(peer_id)
        self.image = ClusterImage()
        self.driver = ControllerDriver(
            Controller(config=ControllerConfig(), image=self.image, new_topic_id=self._new_id),
            self.log,
        )
        self._ids = 1_000 * peer_id

    def _new_id(self) -> TopicId:
        self._ids += 1
        return TopicId(self._ids.to_bytes(16, "big"))


class NamedRequests:
    """Features that answer with the name of what was asked."""

    async def answer(self, request: FeaturesRequest | ChangeFeature) -> str:
        return type(request).__name__


class ControllerProcess(Process):
    def __init__(self, group: LogGroup, peer_id: int) -> None:
        super().__init__(group, peer_id)
        self.brain = WatchedBrain()
        self.changes: list[ChangeControllers] = []
        self.operators = OperatorPorts(
            change_membership=self._change, quorum=str, features=NamedRequests()
        )
        self.service = ControllerService(
            own_id=BrokerId(peer_id),
            driver=self.driver,
            make_brain=self._make_brain,
            spawn=self.tasks.spawn,
            operators=self.operators,
        )
        self.log.on_leadership = self.service.on_leadership
        self.driver.start()
        self.listener = PeerListener(
            "127.0.0.1",
            0,
            PeerHello(b"", "c", peer_id, 0),
            SECURITY,
            {PURPOSE: self.service.on_link},
            frame_bytes_max=FRAME_BYTES_MAX,
        )
        self.listener.start()
        self.address = ("127.0.0.1", self.listener.port)

    def _make_brain(self, ports: BrainPorts) -> WatchedBrain:
        self.submit, _ = ports
        return self.brain

    async def _change(self, request: ChangeControllers) -> str:
        self.changes.append(request)
        return f"{request.action} {request.peer_id}"

    def kill(self) -> None:
        """Be gone, as far as others can see."""
        self.log.is_cut_off = True
        self.listener.stop()

    async def stop(self) -> None:
        self.listener.stop()
        self.service.stop()
        await self.tasks.stop()


class BrokerProcess:
    """A broker of its own, or within a controller's process."""

    def __init__(
        self, process: Process, config: SessionConfig, local: ControllerService | None = None
    ) -> None:
        self.process = process
        self.owner = WatchedOwner()
        self.client = SessionClient(
            SessionIdentity(
                broker_id=BrokerId(process.peer_id), incarnation="first", cluster_id=lambda: "c"
            ),
            config,
            SessionPorts(
                security=SECURITY,
                randomness=SystemRandomness(),
                clock=SystemClock(),
                owner=self.owner,
                log=process.driver,
                local=local,
                spawn=process.tasks.spawn,
            ),
        )

    @property
    def image(self) -> ClusterImage:
        return self.process.image

    async def create(self, name: str) -> bool:
        (outcome,) = await self.client.submit(CreateTopics(topics=(NewTopic(name=name),)))
        return outcome.error is None


class SessionCluster:
    """Controllers 1, 2, ...; brokers get ids from 11 on."""

    def __init__(self, controller_count: int) -> None:
        self.group = LogGroup(LoopScheduler(asyncio.get_running_loop()))
        self.controllers = {
            number: ControllerProcess(self.group, number)
            for number in range(1, controller_count + 1)
        }
        self.brokers: list[BrokerProcess] = []

    @property
    def addresses(self) -> dict[PeerId, tuple[str, int]]:
        return {PeerId(number): one.address for number, one in self.controllers.items()}

    async def broker(self, config: SessionConfig = QUICK) -> BrokerProcess:
        process = Process(self.group, 11 + len(self.brokers))
        process.log.on_leadership = process.driver.on_leadership
        process.driver.start()
        return await self._started(BrokerProcess(process, config))

    async def combined(self, number: int, config: SessionConfig = QUICK) -> BrokerProcess:
        """Return a broker in the process of a controller."""
        process = self.controllers[number]
        return await self._started(BrokerProcess(process, config, process.service))

    async def _started(self, broker: BrokerProcess) -> BrokerProcess:
        self.brokers.append(broker)
        broker.client.start(self.addresses)
        await until(lambda: len(broker.client.open_sessions()) == len(self.controllers))
        return broker

    async def found(self) -> None:
        """Make controller 1 active and give the cluster a set for topics."""
        self.group.lead(1)
        driver = self.controllers[1].driver
        await driver.submit(RegisterBroker(broker_id=BrokerId(11), host="h", port=1))
        await driver.submit(
            CreateReplicaSet(replica_set_id=ReplicaSetId(0), replicas=as_brokers(11))
        )

    async def stop(self) -> None:
        self.group.is_open = True
        for broker in self.brokers:
            await broker.client.stop()
            await broker.process.tasks.stop()
        for controller in self.controllers.values():
            await controller.stop()
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def session_cluster(controller_count: int = 3) -> AsyncIterator[SessionCluster]:
    cluster = SessionCluster(controller_count)
    try:
        yield cluster
    finally:
        await cluster.stop()
