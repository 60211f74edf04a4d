"""Brokers of one cluster in the test's hand: real handlers, logs, groups and metadata, no sockets.

All brokers look at one cluster image. Time, threads and disks are the test's (tests/storage). What
a master has is copied to its slaves, as runs of its log, when the test says `replicate`. Who is
master the test says, too: `lead`.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from harness.ids import as_brokers
from harness.log_world import SMALL, World
from penstock.base.endpoints import FIRST_LISTENER
from penstock.base.ids import BrokerId, LeaderEpoch, Position, ReplicaSetId
from penstock.broker.broker import Broker
from penstock.broker.config import BrokerConfig
from penstock.broker.coordinators.group_cluster import GroupCluster
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.controller.commands.command import BeginMastership, Command, NewTopic, RegisterBroker
from penstock.controller.config import ControllerConfig
from penstock.frames.run import Run
from penstock.groups.config import GroupConfig
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.dispatch import Dispatcher
from penstock.kafka.front import KafkaFront
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import parse_response_header, request_header
from penstock.protocol.messages import decode_response, encode_request
from penstock.record.build import Record, build_batch
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.alignment import LogShape, consistent_point
from penstock.replication.confirm import Membership
from penstock.replication.epochs import EpochHistory
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig
from tests.controller.cluster import Cluster as Metadata
from tests.storage.faulty_disk import FaultyDisk

APIS = load_apis()
SET = 0
RUN_BYTES = 1 << 20


class LoopWorld(World):
    """The same world, with the microseconds that the dispatcher measures by."""

    def monotonic_us(self) -> int:
        return self.now_ms * 1000


class Wire:
    """A connection without a socket: answers are kept whole, in the order of their coming."""

    client_host = "10.0.0.9"
    listener_name = FIRST_LISTENER
    principal = ""
    is_by_token = False
    guard = None
    is_closed = False
    is_choked = False
    state: Any = None

    def __init__(self) -> None:
        self.answers: dict[int, bytes] = {}
        self.closed: str | None = None
        self.is_closed = False
        self.held_bytes = 0
        self.kept_bytes = 0
        self.mutes: list[int | None] = []

    def mute(self, delay_ms: int | None) -> None:
        self.mutes.append(delay_ms)

    def has_gone(self) -> bool:
        return self.is_closed

    def hold(self, size: int) -> None:
        self.held_bytes += size

    def go_on(self, size: int) -> None:
        self.held_bytes -= size

    def ask_room(self, most: int, begin: Callable[[int], int]) -> None:
        begin(most)

    def keep(self, size: int) -> None:
        self.kept_bytes += size

    def let_go(self, size: int) -> None:
        self.kept_bytes -= size

    def enqueue(self, place: Any, count: int = 1) -> bool:
        return True

    def answered(self, place: Any, buffers: Any, size: int, count: int = 1) -> None:
        self.answers[id(place)] = b"".join(buffers)

    def abort(self) -> None:
        self.is_closed = True

    def close(self, reason: str) -> None:
        self.closed = reason
        self.is_closed = True


class Asked:
    """A request under way; `answer` is None until it is answered."""

    def __init__(self, key: int, version: int) -> None:
        self.wire = Wire()
        self._key, self._version = key, version

    @property
    def answer(self) -> Any:
        if not self.wire.answers:
            return None
        (raw,) = self.wire.answers.values()
        frame = memoryview(raw)[4:]
        _, at = parse_response_header(frame, self._key, self._version)
        return decode_response(self._key, self._version, frame, at)


class AskedTogether:
    """Produce requests that arrived in one read; `taken` is how many were taken as a run."""

    def __init__(self, version: int) -> None:
        self.wire = Wire()
        self.taken = 0
        self._version = version

    @property
    def outcomes(self) -> list[tuple[int, int, int]]:
        """(correlation id, error code, base offset) of each answer there is."""
        found = []
        for number, answer in self._answers():
            (part,) = answer.responses[0].partition_responses
            found.append((number, int(part.error_code), part.base_offset))
        return found

    @property
    def throttles_ms(self) -> list[int]:
        """The delay that each answer tells."""
        return [round(answer.throttle_time.total_seconds() * 1000) for _, answer in self._answers()]

    def _answers(self) -> Iterator[tuple[int, Any]]:
        frame = memoryview(b"".join(self.wire.answers.values()))
        while frame:
            end = 4 + int.from_bytes(frame[:4], "big")
            number, at = parse_response_header(frame[4:end], ApiKey.PRODUCE, self._version)
            yield number, decode_response(ApiKey.PRODUCE, self._version, frame[4:end], at)
            frame = frame[end:]


class ControllerPort:
    """The shared controller as a broker's port."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    async def submit(self, command: Command[Any]) -> Any:
        return self._metadata.submit(command)


class Node:
    """One broker with its logs."""

    def __init__(self, cluster: "Cluster", broker_id: int, config: BrokerConfig) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.disk = FaultyDisk()
        self._suffixes = count()
        image = cluster.metadata.image
        self.broker = Broker(
            broker_id=BrokerId(broker_id),
            config=config,
            clock=cluster.world,
            scheduler=cluster.world,
            metadata=image,
        )
        self.broker.controller = ControllerPort(cluster.metadata)
        self.broker.workers = cluster.world
        self.journal = InternalTopicJournal(self.broker, INTERNAL_TOPIC)
        self.broker.groups = GroupCoordinator(
            cluster.world,
            self.journal,
            config=GroupConfig(partition_count=2),
            new_suffix=lambda: f"{broker_id}-{next(self._suffixes)}",
            cluster=GroupCluster(image, cluster.world.wall_ms),
        )
        self.front = KafkaFront(self.broker, APIS, lambda: 7, run_at_once, run_at_once)
        self._dispatcher = Dispatcher(self.front)
        self.broker.follow(image)
        self.broker.host(CoordinatorHosting(self.broker, self.broker.groups.runtime, self.journal))

    def open_member(self, replica_set_id: int = SET) -> ReplicaSetMember:
        log = SetLog.recover(
            disk=self.disk,
            directory=f"set-{replica_set_id}",
            config=self.cluster.log_config,
            clock=self.cluster.world,
            offload=self.cluster.world,
            scheduler=self.cluster.world,
        )
        member = ReplicaSetMember(
            ReplicaSetId(replica_set_id),
            BrokerId(self.broker_id),
            log,
            self.cluster.world.call_soon,
        )
        self.broker.add_member(member)
        return member

    @property
    def member(self) -> ReplicaSetMember:
        return self.broker.members[ReplicaSetId(SET)]

    def send(
        self, key: int, version: int, fields: Mapping[str, Any], *, host: str = Wire.client_host
    ) -> Asked:
        asked = Asked(key, version)
        asked.wire.client_host = host
        head = request_header(key, version, correlation_id=1, client_id="test")
        frame = memoryview(bytearray(head + encode_request(key, version, fields)))
        self._dispatcher.on_frame(asked.wire, frame)  # type: ignore[arg-type]
        return asked

    def ask(self, key: int, version: int, fields: Mapping[str, Any]) -> Any:
        """Send, let everything happen but time, and return the answer."""
        asked = self.send(key, version, fields)
        self.cluster.world.run()
        assert asked.wire.closed is None, asked.wire.closed
        return asked.answer

    # Requests in short

    def produce(
        self, *values: bytes, topic: str = "events", acks: int = -1, version: int = 11, **batch: int
    ) -> Asked:
        return self.send(ApiKey.PRODUCE, version, produce_fields(topic, values, acks, batch))

    def produce_together(self, *requests: Mapping[str, Any], version: int = 11) -> AskedTogether:
        """Hand over the requests' frames at once; correlation ids count from 0."""
        asked = AskedTogether(version)
        memory = memoryview(bytearray(b"".join(frames_of(requests, version))))
        on_run = self._dispatcher.on_run
        asked.taken, _ = on_run(asked.wire, memory, 0, len(memory), 64)  # type: ignore[arg-type]
        return asked

    def fetch(
        self,
        offset: int,
        *,
        topic: str = "events",
        wait_ms: int = 0,
        epoch: int = -1,
        last_epoch: int = -1,
        version: int = 12,
        rack: str = "",
    ) -> Asked:
        fields = fetch_fields(topic, offset, wait_ms, epoch, last_epoch) | {"rack_id": rack}
        return self.send(ApiKey.FETCH, version, fields)

    def list_offset(self, timestamp: int, *, version: int = 7, epoch: int = -1) -> Any:
        partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": epoch}
        topics = [{"name": "events", "partitions": [partition]}]
        fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        return self.ask(ApiKey.LIST_OFFSETS, version, fields).topics[0].partitions[0]

    def epoch_end(self, epoch: int, *, current: int = -1) -> Any:
        partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        fields = {"replica_id": -1, "topics": [{"topic": "events", "partitions": [partition]}]}
        answer = self.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, fields)
        return answer.topics[0].partitions[0]


class Cluster:
    """Brokers 0, 1, ..., all of them members of every set; broker 0 leads them at the start."""

    def __init__(
        self,
        broker_count: int = 3,
        *,
        set_count: int = 1,
        log_config: LogConfig = SMALL,
        **config: Any,
    ) -> None:
        self.log_config = log_config
        self.world = LoopWorld()
        self.metadata = Metadata(
            sets=(tuple(range(broker_count)),) * set_count,
            config=ControllerConfig(default_replication_factor=broker_count),
        )
        for broker_id in range(broker_count):
            self.register(broker_id)
        self.nodes = [Node(self, one, BrokerConfig(**config)) for one in range(broker_count)]
        for set_id in range(set_count):
            for node in self.nodes:
                node.open_member(set_id)
            self.lead(0, set_id=set_id)
            self.replicate(set_id=set_id)

    def register(self, broker_id: int) -> None:
        self.metadata.submit(
            RegisterBroker(
                broker_id=BrokerId(broker_id),
                host=f"host-{broker_id}",
                port=9092,
                rack=f"rack-{broker_id}",
            )
        )

    def create(self, name: str = "events", partitions: int = 1, **configs: str) -> None:
        configs = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name=name, partition_count=partitions, configs=configs)
        (outcome,) = self.metadata.create(topic)
        assert outcome.error is None, outcome.error

    def lead(
        self, broker_id: int, *, members: tuple[int, ...] | None = None, set_id: int = SET
    ) -> int:
        """Make a broker master, the others its slaves; `members` are those in step."""
        command = BeginMastership(replica_set_id=ReplicaSetId(set_id), master=BrokerId(broker_id))
        leader_epoch = LeaderEpoch(self.metadata.submit(command))
        everybody = tuple(node.broker_id for node in self.nodes)
        for node in self.nodes:
            if node.broker_id != broker_id:
                node.broker.members[ReplicaSetId(set_id)].become_slave(
                    leader_epoch, BrokerId(broker_id)
                )
        membership = Membership(
            replicas=as_brokers(*everybody), committed=as_brokers(*members or everybody)
        )
        self.nodes[broker_id].broker.members[ReplicaSetId(set_id)].become_master(
            leader_epoch, membership
        )
        self.world.run()
        return leader_epoch

    def align(self, set_id: int = SET) -> None:
        """Let every slave cut what its new master does not have."""
        members = [node.broker.members[ReplicaSetId(set_id)] for node in self.nodes]
        master = next(one for one in members if one.role is Role.MASTER)
        errors: list[Any] = []
        for member in members:
            common = consistent_point(_shape(member), _shape(master))
            if member is not master and common is not None:
                member.log.truncate(common.start_position, errors.append)
                self.world.run()
        assert not any(errors), errors

    def replicate(self, *slaves: int, set_id: int = SET) -> None:
        """Copy the master's log to these slaves (all without any), acknowledge and confirm."""
        members = {node.broker_id: node.broker.members[ReplicaSetId(set_id)] for node in self.nodes}
        master = next(member for member in members.values() if member.role is Role.MASTER)
        wanted = [slave for slave in slaves or members if members[slave] is not master]
        self.world.run()
        for broker_id in wanted:
            log = members[broker_id].log
            self._copy(master.log, log)
            master.acknowledge(BrokerId(broker_id), log.durable_position)
        for broker_id in wanted:
            members[broker_id].note_master_confirmed(master.confirm_position)
        self.world.run()

    def _copy(self, source: SetLog, target: SetLog) -> None:
        while target.end_position < source.end_position:
            run = source.read_run(target.end_position, RUN_BYTES, source.written_position)
            assert isinstance(run, Run)
            target.append_run(run)
            self.world.run()


def _shape(member: ReplicaSetMember) -> LogShape:
    log = member.log
    start, end = Position(log.start_position), Position(log.end_position)
    return LogShape(EpochHistory(log.epochs).entries(), start, end)


def run_at_once(_: str, work: Coroutine[Any, Any, None]) -> None:
    """Run a handler to its end: nothing in this world makes it wait."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("a handler waits for something")


def batch(*values: bytes, **fields: int) -> bytes:
    return build_batch([Record(None, value, (), 1_700_000_000_000) for value in values], **fields)


def produce_fields(
    topic: str, values: tuple[bytes, ...], acks: int, fields: dict[str, int], partition: int = 0
) -> dict[str, Any]:
    data = [{"index": partition, "records": batch(*values, **fields)}]
    topics = [{"name": topic, "partition_data": data}]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 5000, "topic_data": topics}


def frames_of(
    requests: Iterable[Mapping[str, Any]], version: int, client_id: str = "test"
) -> Iterator[bytes]:
    """Whole frames of produce requests, numbered from 0."""
    for number, fields in enumerate(requests):
        head = request_header(ApiKey.PRODUCE, version, correlation_id=number, client_id=client_id)
        body = encode_request(ApiKey.PRODUCE, version, fields)
        yield (len(head) + len(body)).to_bytes(4, "big") + head + body


def fetch_fields(
    topic: str, offset: int, wait_ms: int, epoch: int, last_epoch: int
) -> dict[str, Any]:
    partition = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": offset}
    partition |= {"last_fetched_epoch": last_epoch, "log_start_offset": -1}
    partition |= {"partition_max_bytes": 1 << 20}
    base = {"replica_id": -1, "max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20}
    base |= {"isolation_level": 0, "session_id": 0, "session_epoch": -1}
    return base | {
        "forgotten_topics_data": [],
        "topics": [{"topic": topic, "partitions": [partition]}],
    }


def produced(asked: Asked) -> Any:
    """The answer of a produce's one partition, None while it waits."""
    return asked.answer and asked.answer.responses[0].partition_responses[0]


def fetched(asked: Asked) -> Any:
    """The answer of a fetch's one partition, None while it is parked."""
    return asked.answer and asked.answer.responses[0].partitions[0]
