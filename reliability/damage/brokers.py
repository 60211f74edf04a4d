"""Brokers in one process whose logs are opened, named and cut as a node does it."""

import asyncio
from dataclasses import replace
from pathlib import Path
from struct import unpack_from

from harness.ha_brain import Brain
from harness.ha_cluster import CONFIG, LOG, Broker, HaCluster
from harness.ids import as_brokers
from penstock.base.ids import BrokerId, Position, ReplicaSetId, SessionId
from penstock.controller.commands.command import CreateCluster, CreateReplicaSet
from penstock.node.continuity import LogsBehindMetadata
from penstock.node.layout import SetPlaces
from penstock.node.logs import NodeLogs
from penstock.node.pages.readiness import Readiness
from penstock.node.recovery import LogOpener
from penstock.replication.config import ReplicationConfig
from penstock.runtime.ha.host import OpenedLog
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.disk import FileDisk
from penstock.runtime.io.randomness import SystemRandomness

WHOLE_SECONDS = 45.0
SMALL_LOG = replace(LOG, checkpoint_interval_bytes=9_000)


class NodeBroker(Broker):
    """A broker whose logs are opened, named and cut as a node does it."""

    def _logs(self) -> NodeLogs:
        loop = asyncio.get_running_loop()
        opener = LogOpener(self.log_config, SystemClock(), LoopScheduler(loop), Readiness())
        return NodeLogs(
            self.replica.image,
            SetPlaces({self.directory: FileDisk(self.directory)}),
            opener,
            {self.directory: self.offload},
            behind_metadata=LogsBehindMetadata(),
            randomness=SystemRandomness(),
        )

    async def open(self, replica_set_id: ReplicaSetId) -> OpenedLog:
        opened = await self._logs().open(replica_set_id)
        self.logs[replica_set_id] = opened.log
        return opened

    async def repair(self, replica_set_id: ReplicaSetId, position: Position) -> Position:
        return await self._logs().repair(replica_set_id, position)


class NodeCluster(HaCluster):
    """Three such brokers with many sets between them, and an active controller."""

    def __init__(self, root: Path, set_count: int) -> None:
        super().__init__(root)
        self.set_ids = tuple(range(1, set_count + 1))
        self.brain: Brain

    async def begin(self) -> None:
        """Start everything, and have every set led."""
        self.controllers.submit(CreateCluster(cluster_id="the-cluster"))
        for broker_id in (1, 2, 3):
            directory = self.root / f"broker-{broker_id}"
            directory.mkdir()
            broker = NodeBroker(self, broker_id, directory, _calm(CONFIG))
            broker.log_config = SMALL_LOG
            self.brokers[broker_id] = broker
            await broker.start()
        for set_id in self.set_ids:
            order = [1 + (set_id + one) % 3 for one in range(3)]
            self.controllers.submit(
                CreateReplicaSet(replica_set_id=ReplicaSetId(set_id), replicas=as_brokers(*order))
            )
        self.brain = Brain(self)
        await self.whole()

    async def end(self) -> None:
        """Stop everything; no task may have failed."""
        self.brain.stop()
        for broker in self.brokers.values():
            await broker.stop()
        assert not self.failures, self.failures

    async def ends(self, broker_id: int, *, is_clean: bool) -> None:
        """End a broker's process; the controller hears of it at once."""
        broker = self[broker_id]
        await (broker.stop() if is_clean else broker.crash())
        session_id, _ = self.brain.sessions[broker_id]
        self.brain.active.on_session_closed(BrokerId(broker_id), SessionId(session_id))

    def frames(self, broker_id: int, set_id: int) -> bytes:
        """Return every frame of a log, end markers too, and nothing of what lies between."""
        broker = self[broker_id]
        log, found = broker.member(set_id).log, bytearray()
        for segment in log.parts.store.segments:
            data = (broker.directory / segment.path).read_bytes()
            at = 0
            while segment.base + at < log.end_position and len(data) - at >= 48:
                length, position = unpack_from(">I4xQ", data, at + 8)
                if position != segment.base + at or data[at + 4 : at + 6] != b"PS":
                    break
                found += data[at : at + length]
                at += length
        return bytes(found)

    def master(self, set_id: int) -> int:
        return self.controllers.image_of(set_id).master

    def is_whole(self, set_id: int) -> bool:
        """Whether all three hold the same, durably, and are in step."""
        image = self.controllers.image_of(set_id)
        if len(image.sync_state_set) != 3 or image.master not in self.brokers:
            return False
        members = [
            broker.manager.members.get(ReplicaSetId(set_id)) for broker in self.brokers.values()
        ]
        ends = {
            (member.log.end_position, member.log.durable_position, member.log.is_busy)
            for member in members
            if member is not None
        }
        master = self[image.master].manager.members.get(ReplicaSetId(set_id))
        return (
            None not in members
            and len(ends) == 1
            and master is not None
            and master.is_master
            and master.confirm_position == master.log.end_position
        )

    async def whole(self) -> None:
        """Wait until all sets are."""
        try:
            async with asyncio.timeout(WHOLE_SECONDS):
                while not all(self.is_whole(set_id) for set_id in self.set_ids):
                    assert not self.failures, self.failures
                    await asyncio.sleep(0.02)
        except TimeoutError:
            missing = [set_id for set_id in self.set_ids if not self.is_whole(set_id)]
            text = "\n".join(self.describe().splitlines()[1:])
            raise AssertionError(f"sets {missing} do not become whole\n{text}") from None


def _calm(config: ReplicationConfig) -> ReplicationConfig:
    """Many sets on two processors: nobody is to be taken for dead."""
    return replace(config, link_silence_ms=10_000, keep_alive_ms=500)
