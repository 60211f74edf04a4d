"""The real active controller behind real sessions: a broker registers, leads, dies, is replaced."""

import asyncio

from harness.waiting import until
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId
from penstock.controller.active.controller import ActiveController
from penstock.controller.commands.command import ChangeSyncStateSet, RegisterBroker, RegisterReplica
from penstock.controller.config import ControllerConfig
from penstock.controller.session import ProbeSets, SetReport
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.service import BrainPorts, ControllerService
from tests.runtime.session_cluster import (
    BrokerProcess,
    ControllerProcess,
    SessionCluster,
    on_loop,
    report,
    session_cluster,
)

PATIENCE = ControllerConfig(
    default_replication_factor=2, heartbeat_interval_ms=20, session_timeout_ms=2_000
)
SESSIONS = SessionConfig.of(PATIENCE)


def give_brain(controller: ControllerProcess) -> ActiveController:
    """Put the real brain in place of the one that only watches."""
    made: list[ActiveController] = []

    def make_brain(ports: BrainPorts) -> ActiveController:
        brain = ActiveController(
            own_id=BrokerId(controller.peer_id),
            image=controller.image,
            config=PATIENCE,
            clock=SystemClock(),
            scheduler=LoopScheduler(asyncio.get_running_loop()),
            ports=ports,
        )
        made.append(brain)
        return brain

    controller.service = ControllerService(
        own_id=BrokerId(controller.peer_id),
        driver=controller.driver,
        make_brain=make_brain,
        spawn=controller.tasks.spawn,
        operators=controller.operators,
    )
    controller.log.on_leadership = controller.service.on_leadership
    controller.listener.purposes = {b"session": controller.service.on_link}
    made[0].start()
    return made[0]


def give_duties(broker: BrokerProcess) -> None:
    """Register the broker and its replicas, and answer probes with their log ids."""
    broker_id, client = broker.process.peer_id, broker.client
    log_id = f"log of {broker_id}"

    async def registering() -> None:
        await client.submit(
            RegisterBroker(
                broker_id=BrokerId(broker_id),
                host="h",
                port=9_092,
                ha_host="h",
                ha_port=9_094,
                identity=f"disk of {broker_id}",
                incarnation="first",
            )
        )

    async def register_replicas() -> None:
        while True:
            for set_id, one in sorted(broker.image.replica_sets.items()):
                if broker_id in one.replicas and one.log_ids.get(BrokerId(broker_id)) != log_id:
                    await client.submit(
                        RegisterReplica(
                            replica_set_id=ReplicaSetId(set_id),
                            broker_id=BrokerId(broker_id),
                            log_id=log_id,
                        )
                    )
            await asyncio.sleep(0.005)

    def probe(request: ProbeSets) -> tuple[SetReport, ...]:
        return tuple(_report(replica_set.replica_set_id, log_id) for replica_set in request.sets)

    broker.owner.registering = registering
    broker.owner.probe = probe  # type: ignore[method-assign]
    broker.process.tasks.spawn("replicas", register_replicas())


def _report(set_id: int, log_id: str) -> SetReport:
    known = report(set_id)
    return SetReport(
        replica_set_id=ReplicaSetId(set_id),
        log_id=log_id,
        role="slave",
        leader_epoch=LeaderEpoch(-1),
        last_log_epoch=LeaderEpoch(-1),
        log_start_position=known.log_start_position,
        log_end_position=known.log_end_position,
        confirm_position=known.confirm_position,
    )


async def founded(cluster: SessionCluster) -> list[BrokerProcess]:
    """Return two brokers that carry a set each way, with masters."""
    for controller in cluster.controllers.values():
        give_brain(controller)
    cluster.group.lead(1)
    brokers = []
    for _ in range(2):
        broker = await cluster.broker(SESSIONS)
        give_duties(broker)
        brokers.append(broker)
    image = brokers[0].image
    await until(lambda: len(image.replica_sets) == 2)
    await until(
        lambda: {replica_set.master for replica_set in image.replica_sets.values()} == {11, 12}
    )
    return brokers


@on_loop
async def test_registered_brokers_get_sets_and_masterships() -> None:
    async with session_cluster() as cluster:
        brokers = await founded(cluster)
        assert sorted(brokers[0].image.brokers) == [11, 12]
        assert not any(broker.is_fenced for broker in brokers[0].image.brokers.values())
        status = await brokers[1].client.commands.status()
        assert status.controller.active_id == 1
        assert [replica_set.replica_set_id for replica_set in status.sets] == sorted(
            brokers[0].image.replica_sets
        )


@on_loop
async def test_stopped_broker_is_fenced_and_its_heir_leads() -> None:
    async with session_cluster() as cluster:
        first, second = await founded(cluster)
        image = second.image
        for replica_set in tuple(image.replica_sets.values()):
            await second.client.submit(
                ChangeSyncStateSet(
                    replica_set_id=replica_set.replica_set_id,
                    master=replica_set.master,
                    leader_epoch=replica_set.leader_epoch,
                    sync_state_set_epoch=replica_set.sync_state_set_epoch,
                    sync_state_set=replica_set.replicas,
                )
            )
        await first.client.stop()
        await until(lambda: image.brokers[BrokerId(11)].is_fenced)
        await until(
            lambda: {replica_set.master for replica_set in image.replica_sets.values()} == {12}
        )


@on_loop
async def test_controller_that_takes_over_knows_who_lives() -> None:
    async with session_cluster() as cluster:
        first, second = await founded(cluster)
        cluster.controllers[1].kill()
        cluster.group.lead(2)
        await until(lambda: first.client.active_id == second.client.active_id == 2)
        status = await first.client.commands.status()
        assert status.controller.answered_by == 2
        assert all(broker.is_live for broker in status.brokers)
        assert not any(broker.is_fenced for broker in first.image.brokers.values())
