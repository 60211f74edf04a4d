"""Brokers and controllers in virtual time: sessions, heartbeats, probes and one metadata log.

Controllers share a list as their log; `lead` says which of them is active. Brokers are as dumb as
can be: they answer what they hold. Everything takes a millisecond; nothing sleeps.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.ids import as_brokers
from penstock.base.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PeerId,
    ReplicaSetId,
    SessionId,
    TopicId,
)
from penstock.base.ports import Cancellable
from penstock.controller import session as s
from penstock.controller.active.controller import ActiveController
from penstock.controller.active.operations import Operation
from penstock.controller.commands import command as c
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.errors import MetadataError, MetadataTimeout, NotActiveController
from penstock.controller.metadata.image import ClusterImage, ReplicaSetImage
from penstock.controller.metadata.record_codec import decode_records, encode_records
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.controller.replicated_log import Leadership
from penstock.replication.promise import Asker, Promise
from tests.controller.joining import joining

COMMIT_MS = 2
START_MS = 1_000_000


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Time:
    """Clock and scheduler; a hung process is one whose callbacks are put off."""

    def __init__(self) -> None:
        self.now = START_MS
        self._heap: list[tuple[int, int, _Timer]] = []
        self._count = 0

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now

    def monotonic_ms(self) -> int:
        return self.now

    def monotonic_us(self) -> int:
        return self.now * 1000

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        return self.call_later(0, callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        timer = _Timer(callback)
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay_ms, self._count, timer))
        return timer

    @property
    def waiting_count(self) -> int:
        """Callbacks that will run and were not cancelled."""
        return sum(timer.callback is not None for _, _, timer in self._heap)

    def run(self, for_ms: int) -> None:
        until = self.now + for_ms
        while self._heap and self._heap[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._heap)
            if timer.callback is not None:
                timer.callback()
        self.now = until


@dataclass(slots=True)
class Log:
    log_id: str
    epoch: int = -1
    end: int = 0
    confirm: int = 0
    has_failed: bool = False


class Broker:
    """A broker's sessions and logs. `is_hung`: its connections are open and nothing happens."""

    def __init__(self, world: "World", broker_id: int, rack: str | None, directories: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.rack = rack
        self.directories = directories
        self.identity = f"identity-{broker_id}"
        self.starts = 0
        self.logs: dict[int, Log] = {}
        self.is_up = False
        self.is_hung = False
        self.is_cut = False
        self.is_opening = False
        """Whether its process is still reading its logs: it can say nothing about them."""
        self.is_ready_to_transfer = True
        self.is_stopping = False
        self.sessions: dict[int, int] = {}
        self.prepared: list[s.PrepareTransfer] = []
        self.promises: dict[int, Promise] = {}

    @property
    def incarnation(self) -> str:
        return f"run-{self.broker_id}-{self.starts}"

    @property
    def is_acting(self) -> bool:
        return self.is_up and not self.is_hung

    def start(self) -> None:
        self.is_up, self.is_hung, self.is_stopping = True, False, False
        self.starts += 1
        self.promises = {}
        for process in self.world.controllers.values():
            self.connect(process)
        self._beat(self.starts)

    def connect(self, process: "Process") -> None:
        if not process.is_up:
            return
        self.world.sessions += 1
        session_id = self.sessions[process.own_id] = self.world.sessions
        process.active.on_session_opened(BrokerId(self.broker_id), SessionId(session_id))
        self._heartbeat(process)

    @property
    def opened(self) -> dict[int, Log]:
        return {} if self.is_opening else self.logs

    def open_logs(self) -> None:
        """Its logs are read: it tells the controllers at once."""
        self.is_opening = False
        for process in self.world.controllers.values():
            self._heartbeat(process)

    def kill(self) -> None:
        """kill -9: every connection is closed by the kernel."""
        self.is_up = False
        self.disconnect()

    def disconnect(self) -> None:
        sessions, self.sessions = self.sessions, {}
        for own_id, session_id in sessions.items():
            self.world.controllers[own_id].active.on_session_closed(
                BrokerId(self.broker_id), SessionId(session_id)
            )

    def reconnect(self) -> None:
        for process in self.world.controllers.values():
            self.connect(process)

    def _beat(self, run: int) -> None:
        if run != self.starts or not self.is_up:
            return
        if not self.is_hung and not self.is_cut:
            for process in self.world.controllers.values():
                self._heartbeat(process)
        interval = self.world.config.heartbeat_interval_ms
        self.world.time.call_later(interval, lambda: self._beat(run))

    def _heartbeat(self, process: "Process") -> None:
        session_id = self.sessions.get(process.own_id)
        if session_id is None or not process.is_up:
            return
        answer = process.active.on_heartbeat(
            BrokerId(self.broker_id),
            s.Heartbeat(
                session_id=SessionId(session_id),
                broker_id=BrokerId(self.broker_id),
                incarnation=self.incarnation,
                sets=tuple(self.report(set_id) for set_id in sorted(self.opened)),
                is_stopping=self.is_stopping,
            ),
        )
        if answer is not None and answer.is_registration_wanted:
            self.world.time.call_later(1, self.register)

    def report(self, set_id: int) -> s.SetReport:
        log = self.logs[set_id]
        return s.SetReport(
            replica_set_id=ReplicaSetId(set_id),
            log_id=log.log_id,
            role=s.FAILED if log.has_failed else "idle",
            leader_epoch=LeaderEpoch(
                self.world.replica_set(set_id).leader_epoch if log.has_failed else -1
            ),
            last_log_epoch=LeaderEpoch(log.epoch),
            log_start_position=0,
            log_end_position=log.end,
            confirm_position=log.confirm,
            promised_to=ControllerEpoch(self.promised_to(set_id)),
        )

    def promised_to(self, set_id: int) -> int:
        """The controller epoch that this member keeps a promise to, -1 for none."""
        promise = self.promises.get(set_id)
        asker = None if promise is None else promise.asker
        return s.NOT_PROMISED if asker is None else asker.controller_epoch

    def promise(self, one: s.ProbedSet, asker: Asker) -> None:
        if one.is_promise_wanted:
            self.promises.setdefault(one.replica_set_id, Promise()).make(one.leader_epoch, asker)

    def register(self) -> None:
        if not self.is_acting:
            return
        command = c.RegisterBroker(
            broker_id=BrokerId(self.broker_id),
            host="h",
            port=9092,
            rack=self.rack,
            identity=self.identity,
            incarnation=self.incarnation,
            directory_count=self.directories,
        )
        self.world.submit(command, lambda answer: self.look_for_sets())

    def look_for_sets(self) -> None:
        """Make and register the logs of the sets that this broker is a member of."""
        for set_id, replica_set in self.world.image.replica_sets.items():
            if not self.is_acting or self.is_opening or self.broker_id not in replica_set.replicas:
                continue
            log = self.logs.setdefault(set_id, Log(f"log-{self.broker_id}-{self.starts}"))
            if replica_set.log_ids.get(BrokerId(self.broker_id)) != log.log_id:
                command = c.RegisterReplica(
                    replica_set_id=ReplicaSetId(set_id),
                    broker_id=BrokerId(self.broker_id),
                    log_id=log.log_id,
                )
                self.world.submit(command)

    def receive(self, message: s.FromController, process: "Process") -> None:
        if not self.is_acting or self.is_cut:
            return
        match message:
            case s.ReleasePromises():
                asker = Asker(message.controller_epoch, message.request_id)
                for replica_set in message.sets:
                    promise = self.promises.setdefault(replica_set.replica_set_id, Promise())
                    promise.release(replica_set.leader_epoch, asker)
            case s.ProbeSets():
                for replica_set in message.sets:
                    self.promise(replica_set, Asker(message.controller_epoch, message.request_id))
                reports = tuple(
                    self.report(replica_set.replica_set_id)
                    for replica_set in message.sets
                    if replica_set.replica_set_id in self.opened
                )
                answer = s.ProbeAnswer(request_id=message.request_id, reports=reports)
                process.active.on_answer(BrokerId(self.broker_id), answer)
            case s.PrepareTransfer():
                self.prepared.append(message)
                probed = s.ProbedSet(
                    replica_set_id=message.replica_set_id,
                    leader_epoch=message.leader_epoch,
                    is_promise_wanted=message.is_promise_wanted,
                )
                if self.is_ready_to_transfer:
                    self.promise(probed, Asker(message.controller_epoch, message.request_id))
                ready = s.TransferReady(
                    request_id=message.request_id,
                    is_ready=self.is_ready_to_transfer,
                    reason="" if self.is_ready_to_transfer else "the target is too far behind",
                )
                process.active.on_answer(BrokerId(self.broker_id), ready)
            case _:
                raise AssertionError(f"the active controller sends no {message}")


@dataclass
class Process:
    """A controller process; stopped, it neither applies nor decides."""

    own_id: int
    controller: Controller
    active: ActiveController
    is_up: bool = True
    applied: int = 0


@dataclass
class World:
    """`brokers` of them, numbered from 1, in a cluster with this replication factor."""

    broker_count: int = 3
    factor: int = 3
    controller_count: int = 1
    directories: int = 1
    racks: dict[int, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    is_started: bool = True

    def __post_init__(self) -> None:
        self.time = Time()
        self.sessions = 0
        self.log: list[bytes] = []
        self.commands: list[c.Command[Any]] = []
        self.is_log_stuck = False
        self.is_log_slow = False
        """Proposals are told `late_error`; the first of them is kept in `late`."""
        self.late_error: MetadataError = MetadataTimeout(1)
        self.late: list[c.Command[Any]] = []
        self.config = ControllerConfig(default_replication_factor=self.factor, **self.settings)
        self.controllers = {one: self._process(one) for one in range(1, self.controller_count + 1)}
        self.leader, self.term = 1, 0
        self.brokers = {
            one: Broker(self, one, self.racks.get(one), self.directories)
            for one in range(1, self.broker_count + 1)
        }
        self.lead(1)
        self.submit(c.CreateCluster(cluster_id="the-cluster"))
        if self.is_started:
            for broker in self.brokers.values():
                broker.start()
            self.run(200)

    def _process(self, own_id: int) -> Process:
        image = ClusterImage(controller_id=PeerId(own_id))
        controller = Controller(
            config=self.config,
            image=image,
            new_topic_id=lambda: TopicId(bytes(16)),
            wall_ms=self.time.wall_ms,
        )
        active = ActiveController(
            own_id=BrokerId(own_id),
            image=image,
            config=self.config,
            clock=self.time,
            scheduler=self.time,
            ports=(
                lambda command, done: self._submit(own_id, command, done),
                lambda broker_id, message: self._send(own_id, broker_id, message),
            ),
        )
        active.start()
        return Process(own_id, controller, active)

    @property
    def active(self) -> ActiveController:
        return self.controllers[self.leader].active

    @property
    def image(self) -> ClusterImage:
        return self.controllers[self.leader].controller.image

    def replica_set(self, set_id: int = 1) -> ReplicaSetImage:
        return self.image.replica_sets[ReplicaSetId(set_id)]

    def run(self, for_ms: int) -> None:
        self.time.run(for_ms)

    def lead(self, own_id: int) -> None:
        """Consensus elects another leader; the old one hears of it."""
        self.term += 1
        self.leader = own_id
        for controller in self.controllers.values():
            if controller.is_up:
                self._catch_up(controller)
                leadership = Leadership(
                    PeerId(own_id),
                    ControllerEpoch(self.term),
                    is_leader=controller.own_id == own_id,
                )
                controller.active.on_leadership(leadership)

    def stop_controller(self, own_id: int) -> None:
        process = self.controllers[own_id]
        process.is_up = False
        process.active.stop()
        for broker in self.brokers.values():
            broker.sessions.pop(own_id, None)

    def submit(
        self, command: c.Command[Any], done: Callable[[Any], None] = lambda answer: None
    ) -> None:
        self._submit(self.leader, command, done)

    def ask(self, command: c.Command[Any]) -> Any:
        answers: list[Any] = []
        self.submit(command, answers.append)
        self.run(COMMIT_MS + 5)
        return answers[0]

    def operate(self, request: Operation) -> list[s.OperationAnswer]:
        answers: list[s.OperationAnswer] = []
        self.active.on_operation(request, answers.append)
        return answers

    def _submit(self, own_id: int, command: c.Command[Any], done: Callable[[Any], None]) -> None:
        self.commands.append(command)
        self.time.call_later(COMMIT_MS, lambda: self._commit(own_id, command, done))

    def _commit(self, own_id: int, command: c.Command[Any], done: Callable[[Any], None]) -> None:
        if own_id != self.leader or self.is_log_stuck:
            done(NotActiveController(PeerId(self.leader)))
            return
        if self.is_log_slow or self.late:
            if not self.late:
                self.late.append(command)
            done(self.late_error)
            return
        try:
            result = self.controllers[own_id].controller.handle(command)
        except MetadataError as error:
            done(error)
            return
        if result.records:
            level = self.controllers[own_id].controller.image.metadata_level
            self.log.append(encode_records(result.records, level))
            for controller in self.controllers.values():
                self._catch_up(controller)
            for broker in self.brokers.values():
                self.time.call_later(1, broker.look_for_sets)
        done(result.response)

    def commit_late(self) -> None:
        """The log is quick again, and commits what it had taken."""
        self.is_log_slow = False
        late, self.late = self.late, []
        for command in late:
            self._commit(self.leader, command, lambda answer: None)

    def lose_late(self) -> None:
        """The log is quick again, and what it was asked for was never made an entry."""
        self.is_log_slow = False
        self.late = []

    def _catch_up(self, process: Process) -> None:
        while process.is_up and process.applied < len(self.log):
            process.controller.replay(decode_records(self.log[process.applied]))
            process.applied += 1

    def _send(self, own_id: int, broker_id: int, message: s.FromController) -> None:
        process, broker = self.controllers[own_id], self.brokers[broker_id]
        if own_id in broker.sessions:
            self.time.call_later(1, lambda: broker.receive(message, process))

    def write(self, count: int, set_id: int = 1) -> None:
        """Append to the log of every member in step that is up, and confirm."""
        replica_set = self.replica_set(set_id)
        for one in replica_set.sync_state_set:
            log = self.brokers[one].logs[set_id]
            log.epoch, log.end = replica_set.leader_epoch, log.end + count
            log.confirm = log.end

    def shrink(self, *members: int, set_id: int = 1) -> Any:
        """The master reports another sync-state set."""
        one = self.replica_set(set_id)
        return self.ask(
            c.ChangeSyncStateSet(
                replica_set_id=ReplicaSetId(set_id),
                master=one.master,
                leader_epoch=one.leader_epoch,
                sync_state_set_epoch=one.sync_state_set_epoch,
                sync_state_set=as_brokers(*members),
                joining=joining(one, self.image.brokers, members),
            )
        )

    def check_replay(self) -> None:
        """The log, and a snapshot of its outcome, give the same image anywhere."""
        again = Controller(
            config=self.config, image=ClusterImage(), new_topic_id=lambda: TopicId(bytes(16))
        )
        for entry in self.log:
            again.replay(decode_records(entry))
        short = Controller(
            config=self.config, image=ClusterImage(), new_topic_id=lambda: TopicId(bytes(16))
        )
        short.install(decode_records(encode_records(snapshot_records(again.image))))
        again.image.controller_id = short.image.controller_id = self.image.controller_id
        assert short.image == again.image == self.image
