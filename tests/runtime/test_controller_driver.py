"""The driver over the real log: one command at a time, whatever the callers do."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

import pytest

from harness.first_start import first_start
from harness.ids import as_brokers
from penstock.base.ids import BrokerId, PeerId, ReplicaSetId, TopicId
from penstock.base.ports import Buffer, Cancellable, Lane
from penstock.controller.commands.command import (
    AllocateProducerIds,
    BeginMastership,
    CreateCluster,
    CreateReplicaSet,
    CreateTopics,
    NewTopic,
    RegisterBroker,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.errors import (
    MetadataLogFull,
    MetadataQueueFull,
    MetadataTimeout,
    NotActiveController,
    UnknownBroker,
)
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.replicated_log import Leadership
from penstock.raft.configuration import Configuration
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.ports import RaftPorts
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.storage import RaftStorage
from penstock.runtime.raft.transport import Address, RaftReceiver
from tests.runtime.raft_harness import ReservingDisk
from tests.runtime.shared_log import LogGroup

T = TypeVar("T")


def on_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class GatedWorker:
    """Scheduler and Offload on the running loop; closed, it keeps disk work until it is opened."""

    def __init__(self) -> None:
        self.is_open = True
        self._kept: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        return asyncio.get_running_loop().call_soon(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        del lane  # one thing after the other

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001  handed on, as a worker does
                done(None, error)
            else:
                done(result, None)

        self._kept.append(run)
        if self.is_open:
            self.open()

    def open(self) -> None:
        self.is_open = True
        kept, self._kept = self._kept, []
        for run in kept:
            asyncio.get_running_loop().call_soon(run)


class NoPeers:
    """The transport of a voter alone."""

    def start(self, receiver: RaftReceiver) -> None:
        """Nobody will be heard."""

    def set_peers(self, addresses: Mapping[PeerId, Address]) -> None:
        assert not addresses

    def send(self, peer_id: int, *frame: Buffer) -> None:
        raise AssertionError("nobody is there")

    def close(self) -> None:
        """Nothing is open."""


class Node:
    """A controller alone with its log; `found` waits until it leads."""

    def __init__(
        self,
        disk: ReservingDisk,
        *,
        commands_max: int = 1_000,
        snapshot_after_bytes: int = 1 << 20,
    ) -> None:
        self.worker = GatedWorker()
        self.image = ClusterImage()
        self._ids = 100
        controller = Controller(
            config=ControllerConfig(), image=self.image, new_topic_id=self._new_id
        )
        self.log = RaftLog(
            PeerId(1),
            RaftStorage(
                disk,
                "metadata",
                own_id=PeerId(1),
                first=first_start(Configuration.of({PeerId(1): ""})),
            ),
            NoPeers(),
            RaftPorts(
                offload=self.worker, scheduler=self.worker, random_below=lambda below: below // 2
            ),
            RaftLogConfig(snapshot_after_bytes=snapshot_after_bytes),
        )
        self.driver = ControllerDriver(controller, self.log, commands_max=commands_max)
        self._leads = asyncio.Event()
        self.log.on_leadership = self._on_leadership
        self.driver.start()

    def _on_leadership(self, leadership: Leadership) -> None:
        self.driver.on_leadership(leadership)
        if leadership.is_leader:
            self._leads.set()

    def _new_id(self) -> TopicId:
        self._ids += 1
        return TopicId(self._ids.to_bytes(16, "big"))

    async def leads(self) -> None:
        await self._leads.wait()

    async def found(self) -> None:
        await self.leads()
        await self.driver.submit(CreateCluster(cluster_id="c"))
        await self.driver.submit(RegisterBroker(broker_id=BrokerId(0), host="h", port=1))
        await self.driver.submit(
            CreateReplicaSet(replica_set_id=ReplicaSetId(0), replicas=as_brokers(0))
        )
        await self.driver.submit(
            BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(0))
        )

    async def create(self, name: str) -> bool:
        (outcome,) = await self.driver.submit(CreateTopics(topics=(NewTopic(name=name),)))
        return outcome.error is None


@on_loop
async def test_restarted_node_has_the_image_it_had() -> None:
    disk = ReservingDisk()
    node = Node(disk)
    await node.found()
    assert await node.create("t")
    disk.crash()
    assert Node(disk).image == node.image
    assert node.image.replica_sets[ReplicaSetId(0)].leader_epoch == 0


@on_loop
async def test_commands_at_the_same_time_see_each_other() -> None:
    node = Node(ReservingDisk())
    await node.found()
    created = await asyncio.gather(*[node.create("t") for _ in range(10)])
    assert sorted(created) == [False] * 9 + [True]
    blocks = await asyncio.gather(
        *[node.driver.submit(AllocateProducerIds(broker_id=BrokerId(0))) for _ in range(10)]
    )
    assert len({block.first_producer_id for block in blocks}) == 10


@on_loop
async def test_refused_command_raises_and_writes_nothing() -> None:
    node = Node(ReservingDisk())
    await node.leads()
    before = node.log.applied_index
    with pytest.raises(UnknownBroker):
        await node.driver.submit(AllocateProducerIds(broker_id=BrokerId(5)))
    assert node.log.applied_index == before


@on_loop
async def test_replaced_controller_that_has_not_heard_of_it_refuses_nothing_by_its_old_image() -> (
    None
):
    group = LogGroup(GatedWorker())
    drivers = {
        one: ControllerDriver(
            Controller(
                config=ControllerConfig(), image=ClusterImage(), new_topic_id=lambda: TopicId(b"t")
            ),
            group.join(one),
        )
        for one in (1, 2)
    }
    for one, member in group.members.items():
        member.on_leadership = drivers[one].on_leadership
        drivers[one].start()
    group.lead(1)
    group.members[1].is_cut_off = True
    asked = asyncio.ensure_future(drivers[1].submit(AllocateProducerIds(broker_id=BrokerId(5))))
    await asyncio.sleep(0)
    group.lead(2)
    await asyncio.sleep(0)
    assert not asked.done()
    group.members[1].heal()
    with pytest.raises(NotActiveController):
        await asked


@on_loop
async def test_command_that_times_out_still_happens_before_the_next_one() -> None:
    node = Node(ReservingDisk())
    await node.found()
    patience_ms, node.driver._timeout_ms = node.driver._timeout_ms, 20
    node.worker.is_open = False
    with pytest.raises(MetadataTimeout):
        await node.create("t")
    node.driver._timeout_ms = patience_ms  # a busy machine may need more than 20 ms for the next
    node.worker.open()
    assert not await node.create("t"), "it was there when the next command was judged"
    assert set(node.image.topics_by_name) == {"t"}


@on_loop
async def test_cancelled_caller_leaves_its_command_to_the_log() -> None:
    node = Node(ReservingDisk())
    await node.found()
    node.worker.is_open = False
    task = asyncio.create_task(node.create("t"))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    node.worker.open()
    assert await node.create("u")
    assert set(node.image.topics_by_name) == {"t", "u"}


@on_loop
async def test_full_disk_is_told_and_the_next_command_works() -> None:
    disk = ReservingDisk()
    node = Node(disk)
    await node.found()
    disk.room = disk.files["metadata/raft.log"].size()
    many = CreateTopics(topics=tuple(NewTopic(name=f"{n:0200}") for n in range(2_000)))
    with pytest.raises(MetadataLogFull):
        await node.driver.submit(many)
    assert node.image.topics_by_name == {}
    disk.room = 1 << 40
    assert await node.create("t")


@on_loop
async def test_too_many_waiting_commands_are_refused() -> None:
    node = Node(ReservingDisk(), commands_max=2)
    await node.found()
    outcomes = await asyncio.gather(
        *[node.create(f"t{number}") for number in range(3)], return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [bool, bool, MetadataQueueFull]


@on_loop
async def test_log_is_compacted_to_a_snapshot_and_restarts_from_it() -> None:
    disk = ReservingDisk()
    node = Node(disk, snapshot_after_bytes=2_000)
    await node.found()
    for number in range(40):
        await node.create(f"t{number}")
        await node.driver.submit(
            BeginMastership(replica_set_id=ReplicaSetId(0), master=BrokerId(0))
        )
    assert node.log.applied_index == 84
    disk.crash()
    again = Node(disk)
    assert again.image == node.image
    assert again.log.applied_index == 84
    assert again.image.replica_sets[ReplicaSetId(0)].leader_epoch == 40
