"""The active controller of an `HaCluster`: heartbeats and probes reach it without links."""

import asyncio
from typing import Any

from harness.ha_cluster import Broker, HaCluster
from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, SessionId
from penstock.controller.active.controller import ActiveController
from penstock.controller.commands.command import Command
from penstock.controller.config import ControllerConfig
from penstock.controller.errors import MetadataError
from penstock.controller.replicated_log import Leadership
from penstock.controller.session import (
    FromController,
    Heartbeat,
    PrepareTransfer,
    ProbeAnswer,
    ProbeSets,
    ReleasePromises,
)
from penstock.runtime.io.clock import LoopScheduler, SystemClock

CONFIG = ControllerConfig(
    default_replication_factor=3, heartbeat_interval_ms=20, session_timeout_ms=10_000
)


class Brain:
    """The active controller; brokers' heartbeats and probes reach it without links."""

    def __init__(self, cluster: HaCluster) -> None:
        self.cluster = cluster
        self.loop = asyncio.get_running_loop()
        self.sessions: dict[int, tuple[int, str]] = {}
        self.active = ActiveController(
            own_id=BrokerId(9),
            image=cluster.controllers.judge.image,
            config=CONFIG,
            clock=SystemClock(),
            scheduler=LoopScheduler(self.loop),
            ports=(self.submit, self.send),
        )
        self.active.start()
        self.active.on_leadership(Leadership(PeerId(9), ControllerEpoch(1), is_leader=True))
        self.beat()

    def submit(self, command: Command[Any], done: Any) -> None:
        def work() -> None:
            try:
                answer = self.cluster.controllers.submit(command)
            except MetadataError as error:
                answer = error
            done(answer)

        self.loop.call_soon(work)

    def send(self, broker_id: BrokerId, message: FromController) -> None:
        broker = self.cluster[broker_id]
        match message:
            case ProbeSets():
                reports = broker.manager.probe(message)
                answer = ProbeAnswer(request_id=message.request_id, reports=reports)
                self.loop.call_soon(self.active.on_answer, broker_id, answer)
            case ReleasePromises():
                broker.manager.release(message)
            case PrepareTransfer():
                broker._spawn("transfer", self._transfer(broker, message))
            case _:
                raise AssertionError(f"no broker here expects {message}")

    async def _transfer(self, broker: Broker, message: PrepareTransfer) -> None:
        ready = await broker.manager.prepare_transfer(message)
        if broker.is_running:
            self.active.on_answer(BrokerId(broker.broker_id), ready)

    def beat(self) -> None:
        for broker in self.cluster.brokers.values():
            if broker.is_running:
                self.hear(broker)
        self.timer = self.loop.call_later(0.02, self.beat)

    def hear(self, broker: Broker) -> None:
        broker_id = broker.broker_id
        incarnation = broker.manager.incarnation
        session_id, known = self.sessions.get(broker_id, (0, ""))
        if known != incarnation:
            session_id += 1
            self.sessions[broker_id] = (session_id, incarnation)
            self.active.on_session_opened(BrokerId(broker_id), SessionId(session_id))
        heartbeat = Heartbeat(
            session_id=SessionId(session_id),
            broker_id=BrokerId(broker_id),
            incarnation=incarnation,
            sets=broker.manager.reports(),
        )
        answer = self.active.on_heartbeat(BrokerId(broker_id), heartbeat)
        if answer is not None and answer.is_registration_wanted:
            broker.register(incarnation)

    def stop(self) -> None:
        self.timer.cancel()
        self.active.stop()
