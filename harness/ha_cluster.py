"""Several brokers' replica managers in one process: real links, real logs, one judge of metadata.

The controllers are one `Controller` whose entries are replayed by every broker that is not cut off;
who is to be elected the tests say. Logs lie in real directories, links go over loopback.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from harness.ids import as_brokers
from harness.log_world import make_batch
from harness.waiting import until
from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import BrokerId, Position, ReplicaSetId, SessionId, TopicId, TopicPartition
from penstock.controller.commands.command import (
    BeginMasterships,
    Command,
    CreateCluster,
    CreateReplicaSet,
    NewMastership,
    RegisterBroker,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.errors import MetadataTimeout
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import ClusterImage, ReplicaSetImage
from penstock.controller.metadata.records import MetadataRecord
from penstock.net.peer import Credentials, PeerHello, PeerListener, PeerSecurity
from penstock.record.batch import read_header
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.config import ReplicationConfig
from penstock.runtime.ha.client import FRAME_BYTES_MAX
from penstock.runtime.ha.host import ManagerPorts, OpenedLog
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.disk import FileDisk, ThreadOffload
from penstock.runtime.replica_manager import ReplicaManager
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig
from penstock.storage.errors import SegmentNotReady
from penstock.storage.recover.repair import cut_below_damage

SECRET = b"the secret of these tests"
LOG = LogConfig(
    segment_bytes=65_536,
    staging_bytes=16_384,
    large_batch_bytes=4096,
    checkpoint_interval_bytes=20_000,
    checkpoint_interval_ms=0,
    reserve_bytes=0,
)
CONFIG = ReplicationConfig(
    replica_lag_time_ms=60_000,
    disconnect_grace_ms=100,
    dial_timeout_ms=2_000,
    change_retry_ms=20,
    reconnect_ms=5,
    reconnect_ms_max=50,
    keep_alive_ms=100,
    link_silence_ms=2_000,
    run_bytes=8_192,
    in_flight_bytes=65_536,
)
PARTITION = TopicPartition(TopicId(bytes(15) + b"\x01"), 0)


class Controllers:
    """The metadata log: judges commands, and lets brokers replay what was recorded."""

    def __init__(self) -> None:
        self.entries: list[tuple[MetadataRecord, ...]] = []
        self.judge = self.make_replica()
        self.brokers: list[Broker] = []
        self.is_reachable = True

    def make_replica(self) -> Controller:
        return Controller(
            config=ControllerConfig(),
            image=ClusterImage(),
            new_topic_id=lambda: TopicId(bytes(16)),
        )

    def submit(self, command: Command[Any]) -> Any:
        result = self.judge.handle(command)
        if result.records:
            self.record(*result.records)
        return result.response

    def record(self, *records: MetadataRecord) -> None:
        """Let an entry be committed."""
        self.entries.append(records)
        self.judge.replay(records)
        for broker in self.brokers:
            broker.catch_up()

    def elect(self, set_id: int, master: int, *in_step: int, is_unclean: bool = False) -> int:
        """Begin a mastership; without `in_step` the sync-state set stays as it is."""
        found = self.judge.image.replica_sets[ReplicaSetId(set_id)]
        new = NewMastership(
            replica_set_id=ReplicaSetId(set_id),
            master=BrokerId(master),
            leader_epoch=found.leader_epoch,
            sync_state_set_epoch=found.sync_state_set_epoch,
            cause=Cause.UNCLEAN if is_unclean else Cause.OPERATOR,
            sync_state_set=as_brokers(*in_step or found.sync_state_set),
            is_unclean=is_unclean,
        )
        epochs: tuple[int, ...] = self.submit(BeginMasterships(masterships=(new,)))
        return epochs[0]

    def image_of(self, set_id: int) -> ReplicaSetImage:
        return self.judge.image.replica_sets[ReplicaSetId(set_id)]


class Broker:
    """One broker process: it can be started, stopped, killed, cut off from controllers."""

    def __init__(
        self, cluster: "HaCluster", broker_id: int, directory: Path, config: ReplicationConfig
    ) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.directory = directory
        self.config = config
        self.log_config = LOG
        self.replica: Controller = cluster.controllers.make_replica()
        self.replayed = 0
        self.sees_controllers = True
        self.logs: dict[int, SetLog] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.manager: ReplicaManager
        self.listener: PeerListener
        self.offload: ThreadOffload
        self.is_running = False

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.listener.port

    def catch_up(self) -> None:
        entries = self.cluster.controllers.entries
        while self.sees_controllers and self.replayed < len(entries):
            self.replayed += 1
            self.replica.replay(entries[self.replayed - 1])

    def cut_off(self, is_cut: bool = True) -> None:
        self.sees_controllers = not is_cut
        self.catch_up()

    def forget_entries(self, known: int) -> None:
        """Begin the next process with the first `known` entries only, and hear of no others."""
        self.cut_off()
        self.replica, self.replayed = self.cluster.controllers.make_replica(), known
        for records in self.cluster.controllers.entries[:known]:
            self.replica.replay(records)

    def trouble(self, set_id: int = 1) -> str:
        """Return why the newest wish for the set is not fulfilled."""
        driver = self.manager.drivers.get(ReplicaSetId(set_id))
        return "" if driver is None else driver.trouble

    # --- the manager's ports -------------------------------------------------------------------

    async def submit(self, command: Command[Any]) -> Any:
        await asyncio.sleep(0)
        if not self.sees_controllers:
            raise MetadataTimeout(1)
        return self.cluster.controllers.submit(command)

    async def open(self, replica_set_id: ReplicaSetId) -> OpenedLog:
        disk = FileDisk(self.directory)
        name = f"set-{replica_set_id}"
        id_path = self.directory / f"{name}.log-id"
        if not id_path.exists():
            id_path.write_text(f"log-{next(self.cluster.numbers)}")
        set_log = SetLog(
            disk=disk,
            directory=name,
            config=self.log_config,
            clock=SystemClock(),
            offload=self.offload,
            scheduler=LoopScheduler(asyncio.get_running_loop()),
        )
        set_log.is_sole_member = False  # or the snapshot of a start takes all for confirmed
        set_log.open(set_log.replay(lambda _done, _total: None))
        self.logs[replica_set_id] = set_log
        return OpenedLog(set_log, id_path.read_text())

    async def repair(self, replica_set_id: ReplicaSetId, position: Position) -> Position:
        name = f"set-{replica_set_id}"
        (self.directory / f"{name}.log-id").write_text(f"log-{next(self.cluster.numbers)}")
        return cut_below_damage(FileDisk(self.directory), name, position, self.log_config)

    def close(self, replica_set_id: ReplicaSetId, log: SetLog) -> None:
        log.close()
        self.logs.pop(replica_set_id, None)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.cluster.failures.append(task.exception())

    # --- life ----------------------------------------------------------------------------------

    async def start(self, *, is_registering: bool = True) -> None:
        loop = asyncio.get_running_loop()
        self.offload = ThreadOffload(loop, name=f"disk-{self.broker_id}")
        incarnation = f"process-{next(self.cluster.numbers)}"
        security = PeerSecurity(Credentials(SECRET))
        self.manager = ReplicaManager(
            broker_id=BrokerId(self.broker_id),
            incarnation=incarnation,
            image=self.replica.image,
            config=self.config,
            ports=ManagerPorts(
                clock=SystemClock(),
                scheduler=LoopScheduler(loop),
                logs=self,
                controller=self,
                security=security,
                spawn=self._spawn,
                new_session_id=lambda: SessionId(next(self.cluster.numbers)),
            ),
        )
        self.listener = PeerListener(
            "127.0.0.1",
            getattr(self, "port", 0),
            PeerHello(b"", "the-cluster", self.broker_id, next(self.cluster.numbers)),
            security,
            {b"ha": self.manager.on_link},
            frame_bytes_max=FRAME_BYTES_MAX,
        )
        self.listener.start()
        self.port = self.listener.port
        self.is_running = True
        if self not in self.cluster.controllers.brokers:
            self.cluster.controllers.brokers.append(self)
        self.catch_up()
        self.manager.start()
        if is_registering:
            self.register(incarnation)

    def register(self, incarnation: str) -> None:
        self.cluster.controllers.submit(
            RegisterBroker(
                broker_id=BrokerId(self.broker_id),
                host="127.0.0.1",
                port=9092,
                ha_host="127.0.0.1",
                ha_port=self.port,
                identity=f"disks-of-{self.broker_id}",
                incarnation=incarnation,
            )
        )

    async def stop(self) -> None:
        """End the process cleanly."""
        if not self.is_running:
            return
        self.is_running = False
        await self.manager.stop()
        await self._end()
        for set_log in self.logs.values():
            set_log.close()
        self.logs.clear()
        self.offload.close()

    async def _end(self) -> None:
        self.listener.stop()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def crash(self) -> None:
        """End the process without a word; what was written stays, also what was not synced."""
        self.is_running = False
        for driver in self.manager.drivers.values():
            if driver.member is not None:
                driver.member.log.on_durable = driver.member.log.on_written = _nothing
        links = [served.live.link for served in self.manager.server.links]
        links += [one.live.link for one in self.manager.client.links.values() if one.live]
        for link in links:
            link.abort("crashed")
        for driver in self.manager.drivers.values():
            driver.stop()
        if self.manager._timer is not None:
            self.manager._timer.cancel()
        self.manager.client.stop()
        await self._end()
        for set_log in self.logs.values():
            set_log.writer.fence("crashed")
            set_log.close()
        self.logs.clear()
        self.offload.close()

    def member(self, set_id: int = 1) -> ReplicaSetMember:
        return self.manager.members[ReplicaSetId(set_id)]

    def append(self, records: int = 1, *, size: int = 100, set_id: int = 1, fill: int = 0) -> int:
        """Append one batch as master; returns the end of the log."""
        member = self.member(set_id)
        member.check_writable()
        self.append_unchecked(records, size=size, set_id=set_id, fill=fill)
        return member.log.end_position

    def append_unchecked(
        self, records: int = 1, *, size: int = 100, set_id: int = 1, fill: int = 0
    ) -> None:
        own_log = self.member(set_id).log
        batch = make_batch(records=records, size=size, fill=fill)
        own_log.append(own_log.open_partition(PARTITION), batch, read_header(batch))

    async def append_when_ready(self, *, size: int, fill: int) -> None:
        """Append as producers do: a log that is waiting for its next segment is asked again."""
        while True:
            try:
                self.append(size=size, fill=fill)
                return
            except SegmentNotReady:
                await asyncio.sleep(0.001)

    def frames(self, set_id: int = 1) -> bytes:
        """Return every byte of the log from its start to its end, as it lies in the files."""
        own_log = self.member(set_id).log
        start, end = own_log.start_position, own_log.end_position
        found = b""
        for segment in own_log._store.segments:
            base = segment.base
            path = self.directory / segment.path
            data = path.read_bytes()
            found += data[max(start - base, 0) : min(end, segment.end) - base]
        return found


class HaCluster:
    """The brokers and their controllers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.numbers = count(1)
        self.controllers = Controllers()
        self.brokers: dict[int, Broker] = {}
        self.failures: list[BaseException | None] = []

    async def start(self, *broker_ids: int, config: ReplicationConfig = CONFIG) -> None:
        if not self.controllers.entries:
            self.controllers.submit(CreateCluster(cluster_id="the-cluster"))
        for broker_id in broker_ids:
            directory = self.root / f"broker-{broker_id}"
            directory.mkdir()
            broker = self.brokers[broker_id] = Broker(self, broker_id, directory, config)
            await broker.start()

    async def make_set(
        self,
        *members: int,
        set_id: int = 1,
        policy: AckPolicy | None = None,
    ) -> None:
        """Make a set whose first member is master of all others, in step."""
        self.controllers.submit(
            CreateReplicaSet(
                replica_set_id=ReplicaSetId(set_id), replicas=as_brokers(*members), policy=policy
            )
        )
        self.controllers.elect(set_id, members[0], *members)
        await self.leads(members[0], set_id)

    def __getitem__(self, broker_id: int) -> Broker:
        return self.brokers[broker_id]

    async def until(self, condition: Callable[[], bool], what: str = "") -> None:
        """Let everything run until the condition holds."""

        def is_so() -> bool:
            holds = condition()
            assert holds or not self.failures, self.failures
            return holds

        try:
            await until(is_so, every_seconds=0.005)
        except TimeoutError:
            raise AssertionError(f"never: {what}\n{self.describe()}") from None

    async def pause(self, seconds: float) -> None:
        """Let everything run for a while."""
        await asyncio.sleep(seconds)

    def describe(self) -> str:
        lines = [str(self.controllers.judge.image.replica_sets)]
        for broker in self.brokers.values():
            if broker.is_running:
                lines += [
                    f"{broker.broker_id}: {driver.member and driver.member.role} "
                    f"trouble={driver.trouble!r} done={driver._done} "
                    f"state={driver.followed and driver.followed.state} "
                    f"end={driver.member and driver.member.log.end_position} "
                    f"confirm={driver.member and driver.member.confirm_position} "
                    f"epochs={driver.member and driver.member.log.epochs}"
                    for driver in broker.manager.drivers.values()
                ]
        return "\n".join(lines)

    async def leads(self, broker_id: int, set_id: int = 1) -> None:
        broker = self[broker_id]

        def is_master() -> bool:
            member = broker.manager.members.get(ReplicaSetId(set_id))
            return member is not None and member.is_master

        await self.until(is_master, f"broker {broker_id} leads set {set_id}")

    async def confirmed(self, broker_id: int, set_id: int = 1) -> None:
        """Wait until the master's whole log is confirmed."""
        member = self[broker_id].member(set_id)
        await self.until(
            lambda: member.confirm_position == member.log.end_position,
            f"all of broker {broker_id}'s set {set_id} is confirmed",
        )

    async def in_step(self, *broker_ids: int, set_id: int = 1) -> None:
        await self.until(
            lambda: tuple(sorted(self.controllers.image_of(set_id).sync_state_set)) == broker_ids,
            f"in step are {broker_ids}",
        )

    async def equal(self, *broker_ids: int, set_id: int = 1) -> None:
        """Wait until the logs end at the same position, then compare them byte for byte."""
        await self.until(
            lambda: all(set_id in self[broker_id].manager.members for broker_id in broker_ids)
        )
        members = [self[broker_id].member(set_id) for broker_id in broker_ids]
        await self.until(
            lambda: (
                len({member.log.end_position for member in members}) == 1
                and all(
                    member.log.durable_position == member.log.end_position for member in members
                )
            ),
            f"brokers {broker_ids} hold the same",
        )
        first, *others = [self[broker_id].frames(set_id) for broker_id in broker_ids]
        assert first
        for other in others:
            assert other == first
        assert len({tuple(member.log.epochs) for member in members}) == 1

    def roles(self, set_id: int = 1) -> dict[int, Role]:
        return {
            broker.broker_id: broker.member(set_id).role
            for broker in self.brokers.values()
            if broker.is_running
        }


@asynccontextmanager
async def ha_cluster(root: Path, *broker_ids: int, **changes: Any) -> AsyncIterator[HaCluster]:
    """Start brokers; stop them at the end and see that no task of theirs has failed."""
    cluster = HaCluster(root)
    try:
        await cluster.start(*broker_ids, config=replace(CONFIG, **changes))
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            await broker.stop()
    assert not cluster.failures, cluster.failures


def _nothing() -> None:
    """Stand for a callback of a process that is no more."""
