"""Sessions with controllers that elect each other by Raft, over sockets: the whole way round."""

import asyncio
from functools import partial
from pathlib import Path
from random import Random

from harness.first_start import first_start
from harness.ports import free_port
from harness.waiting import until
from penstock.base.ids import BrokerId, PeerId, TopicId
from penstock.controller.active.controller import ActiveController
from penstock.controller.commands.command import AllocateProducerIds, CreateCluster, RegisterBroker
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.metadata.image import ClusterImage
from penstock.net.peer import PeerHello, PeerListener
from penstock.raft.configuration import Configuration
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.disk import FileDisk, ThreadOffload
from penstock.runtime.io.randomness import SystemRandomness
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.ports import RaftPorts
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.storage import RaftStorage
from penstock.runtime.raft.transport import PURPOSE as RAFT
from penstock.runtime.raft.transport import PeerTransport, parse_address
from penstock.runtime.session.client import SessionClient, SessionIdentity, SessionPorts
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.messages import PURPOSE as SESSION
from penstock.runtime.session.messages import ChangeControllers
from penstock.runtime.session.operator_ports import OperatorPorts
from penstock.runtime.session.service import BrainPorts, ControllerService
from penstock.runtime.session.service_membership import membership_by
from tests.runtime.session_cluster import (
    FRAME_BYTES_MAX,
    SECURITY,
    NamedRequests,
    Tasks,
    WatchedOwner,
)

PATIENCE = ControllerConfig(heartbeat_interval_ms=50, session_timeout_ms=2_000)


class Member:
    """A process that is broker and, if it votes, controller."""

    def __init__(self, peer_id: int, voters: Configuration, directory: Path) -> None:
        directory.mkdir()
        self.peer_id = peer_id
        self.tasks = Tasks()
        self.image = ClusterImage()
        loop = asyncio.get_running_loop()
        hello = partial(PeerHello, cluster_id="c", peer_id=peer_id, session_id=0)
        self._offload = ThreadOffload(loop, name="metadata", threads=1)
        config = RaftLogConfig()
        transport = PeerTransport(lambda: hello(purpose=RAFT), SECURITY, SystemClock(), config)
        self.log = RaftLog(
            PeerId(peer_id),
            RaftStorage(
                FileDisk(directory), "metadata", own_id=PeerId(peer_id), first=first_start(voters)
            ),
            transport,
            RaftPorts(
                offload=self._offload,
                scheduler=LoopScheduler(loop),
                random_below=Random(peer_id).randrange,
            ),
            config,
        )
        controller = Controller(
            config=PATIENCE, image=self.image, new_topic_id=lambda: TopicId(bytes(16))
        )
        self.driver = ControllerDriver(controller, self.log)
        self.log.on_leadership = self.driver.on_leadership
        self.service: ControllerService | None = None
        self.listener: PeerListener | None = None
        address = voters.addresses.get(PeerId(peer_id))
        if address is not None:
            self.service = self._make_service()
            self.listener = PeerListener(
                *parse_address(address),
                hello(purpose=b""),
                SECURITY,
                {RAFT: transport.take_link, SESSION: self.service.on_link},
                frame_bytes_max=FRAME_BYTES_MAX,
            )
            self.listener.start()
        self.driver.start()
        self.client = SessionClient(
            SessionIdentity(
                broker_id=BrokerId(peer_id), incarnation="first", cluster_id=lambda: "c"
            ),
            SessionConfig.of(PATIENCE),
            SessionPorts(
                security=SECURITY,
                randomness=SystemRandomness(),
                clock=SystemClock(),
                owner=WatchedOwner(),
                log=self.driver,
                local=self.service,
                spawn=self.tasks.spawn,
            ),
        )
        self.client.start({one: parse_address(text) for one, text in voters.voters})

    def _make_service(self) -> ControllerService:
        def make_brain(ports: BrainPorts) -> ActiveController:
            self.brain = ActiveController(
                own_id=BrokerId(self.peer_id),
                image=self.image,
                config=PATIENCE,
                clock=SystemClock(),
                scheduler=LoopScheduler(asyncio.get_running_loop()),
                ports=ports,
            )
            return self.brain

        service = ControllerService(
            own_id=BrokerId(self.peer_id),
            driver=self.driver,
            make_brain=make_brain,
            spawn=self.tasks.spawn,
            operators=OperatorPorts(
                change_membership=membership_by(self.log.voters),
                quorum=str,
                features=NamedRequests(),
            ),
        )
        self.log.on_leadership = service.on_leadership
        self.brain.start()
        return service

    async def stop(self) -> None:
        """Go, as a killed process would: nobody is told but by the closed sockets."""
        await self.client.stop()
        if self.service is not None and self.listener is not None:
            self.listener.stop()
            self.brain.stop()
            self.service.stop()
        self.log.close()
        await self.tasks.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._offload.close)
        await asyncio.sleep(0)


def test_commands_go_on_when_the_active_controller_dies(tmp_path: Path) -> None:
    async def story() -> None:
        voters = Configuration.of({PeerId(one): f"127.0.0.1:{free_port()}" for one in (1, 2, 3)})
        members = {one: Member(one, voters, tmp_path / str(one)) for one in (1, 2, 3, 11)}
        broker = members[11]
        assert await broker.client.submit(CreateCluster(cluster_id="c")) == "c"
        await broker.client.submit(RegisterBroker(broker_id=BrokerId(11), host="h", port=1))
        assert 11 in broker.image.brokers, "a learner's own image holds it"
        firsts = []
        for number in range(20):
            if number == 10:
                await members.pop(broker.client.active_id).stop()
            block = await broker.client.submit(AllocateProducerIds(broker_id=BrokerId(11)))
            firsts.append(block.first_producer_id)
            assert broker.image.next_producer_id >= block.next_producer_id
        assert firsts == sorted(set(firsts)), "no block was given twice"
        status = await broker.client.commands.status()
        assert status.controller.active_id in members
        for member in members.values():
            block = await member.client.submit(AllocateProducerIds(broker_id=BrokerId(11)))
            assert block.first_producer_id > firsts[-1], "from wherever it is asked"
        for member in members.values():
            await member.stop()

    asyncio.run(story())


def test_leadership_moves_to_the_controller_that_an_operator_names(tmp_path: Path) -> None:
    async def story() -> None:
        voters = Configuration.of({PeerId(one): f"127.0.0.1:{free_port()}" for one in (1, 2, 3)})
        members = [Member(one, voters, tmp_path / str(one)) for one in (1, 2, 3)]
        client = members[0].client
        await client.submit(CreateCluster(cluster_id="c"))
        target = 1 + client.active_id % 3
        text = await client.commands.operate(
            lambda number: ChangeControllers(
                request_id=number, action="transfer", peer_id=PeerId(target)
            )
        )
        assert text == f"{target} is the active controller."
        await until(lambda: client.active_id == target)
        assert await client.submit(CreateCluster(cluster_id="d")) == "c"
        for member in members:
            await member.stop()

    asyncio.run(story())
