"""One node's parts and the order in which they start and stop."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, PeerId, SessionId
from penstock.base.memory import FreeLists
from penstock.base.ports import Cancellable
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.sets.housekeeping import Housekeeping
from penstock.controller.metadata.image import ClusterImage
from penstock.coordinator.calls.asking import FRAME_BYTES_MAX as CALL_FRAME_BYTES_MAX
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.front import KafkaFront
from penstock.kafka.registry import load_apis
from penstock.net.listener import Listener
from penstock.net.memory_share import pinned_bytes_max
from penstock.net.peer import PeerListener
from penstock.net.sockets import raise_descriptor_limit
from penstock.net.stats import NetStats
from penstock.node.access.audit import end_audit, start_audit
from penstock.node.access.doors import NodeDoors
from penstock.node.apply_settings import follow_parts, new_broker, take_limits
from penstock.node.calls import new_calls
from penstock.node.clients.fronts import answer_brokers, rocketmq_fronts
from penstock.node.clients.listener import listener_of
from penstock.node.continuity import LogsBehindMetadata, check_metadata
from penstock.node.control_plane import ControlPlane, ProcessPorts
from penstock.node.coordinators.groups import answer_positions
from penstock.node.coordinators.starting import CoordinatorParts, start_coordinators
from penstock.node.dynamic_config import DynamicConfig
from penstock.node.forming import Forming
from penstock.node.hand_over import hand_over
from penstock.node.housekeeper.splitter import NodeSplitter, repair_extents, split_logs
from penstock.node.identity import DataDirectory
from penstock.node.layout import SetPlaces
from penstock.node.log_directories import log_directories
from penstock.node.logs import NodeLogs, close_log
from penstock.node.machine import Machine
from penstock.node.metadata_commands import MetadataCommands
from penstock.node.pages.metrics import MetricsSources, metrics_page
from penstock.node.pages.readiness import Readiness
from penstock.node.pages.serving import serve_pages
from penstock.node.peers import CONTROLLER_FRAME_BYTES_MAX, OnLink, PeerFiles, listen
from penstock.node.producer_share import share_producers
from penstock.node.recovery import LogOpener
from penstock.node.registration import Registration, registered_as
from penstock.node.relief import Relief
from penstock.node.settings.settings import NodeSettings
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.wire import SLAVE_FRAME_BYTES_MAX
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.calls.messages import PURPOSE as CALL_PURPOSE
from penstock.runtime.ha.host import ManagerPorts
from penstock.runtime.io.http_server import HttpServer, Page
from penstock.runtime.io.randomness import token_text
from penstock.runtime.io.settling import settle
from penstock.runtime.io.supervisor import Supervisor
from penstock.runtime.replica_manager import PURPOSE as HA_PURPOSE
from penstock.runtime.replica_manager import ReplicaManager
from penstock.runtime.session.client import SessionClient, SessionIdentity, SessionPorts
from penstock.runtime.session.config import SessionConfig

FOLLOW_CONTROLLERS_MS = 1_000
"""How often sessions follow changes of the voters: controllers added or removed."""

log = logging.getLogger(__name__)


class Node:
    """A node process's parts. `start` once, then `stop` once."""

    def __init__(
        self,
        settings: NodeSettings,
        directories: list[DataDirectory],
        stop_process: Callable[[str], None],
        machine: Machine,
    ) -> None:
        self._settings, self._machine = settings, machine
        self._identity = directories[0].identity
        self._directories = [directory.path for directory in directories]
        self._clock, self._scheduler = machine.clock, machine.scheduler
        self._stop_process, self._supervisor = stop_process, Supervisor(stop_process)
        self._workers = {
            path: machine.open_workers(path, f"disk-{number}")
            for number, path in enumerate(self._directories, 1)
        }
        self._batch_workers = machine.open_batch_workers()
        self._disks = {path: machine.open_disk(path) for path in self._directories}
        self._readiness = Readiness()
        self._opener = LogOpener(settings.log, self._clock, self._scheduler, self._readiness)
        self._behind_metadata = LogsBehindMetadata()
        own_id = PeerId(settings.node.broker_id)
        self._image = ClusterImage(controller_id=own_id, defaults=settings.topic)
        self._dynamic = DynamicConfig(settings, self._image, self._scheduler)
        self._broker = new_broker(settings, machine, self._image, self._batch_workers)
        self._front = KafkaFront(
            self._broker,
            load_apis(),
            self._new_session_id,
            self._supervisor.run_once,
            self._supervisor.begin,
        )
        self._front.configs = self._dynamic
        follow_parts(self._dynamic, settings, self._opener, self._broker)
        self.journal = InternalTopicJournal(self._broker, INTERNAL_TOPIC)
        self.housekeeping = Housekeeping(self._broker)
        rate = settings.log.housekeeper_bytes_per_second
        self._housekeeper = machine.open_housekeeper(rate, self._supervisor.run_once)
        self._peer_files = PeerFiles(settings.cluster, machine)
        self._ports = self._new_ports()
        self._calls = new_calls(settings, self._image, self._ports, self._new_session_id)
        self._rocketmq = rocketmq_fronts(settings, self._front, self._calls)
        self._plane = ControlPlane(settings, self._identity.cluster_id, self._image, self._ports)
        self._incarnation = token_text(machine.randomness, 12)
        self._controllers_timer: Cancellable | None = None
        self._sessions: SessionClient | None = None
        self._manager: ReplicaManager | None = None
        self._http: HttpServer | None = None
        self._listener: Listener | None = None
        self._doors = NodeDoors(settings.security, settings.grpc, self._image, machine)
        self._front.token_secrets = self._doors.token_secrets
        free_lists = FreeLists(machine.clock.monotonic_us)
        self._relief = Relief(self._front, self._disks.values, self._batch_workers, free_lists)
        self._peer_listeners: list[PeerListener] = []

    def _new_ports(self) -> ProcessPorts:
        first, machine = self._directories[0], self._machine
        return ProcessPorts(
            clock=self._clock,
            scheduler=self._scheduler,
            randomness=machine.randomness,
            disk=self._disks[first],
            workers=self._workers[first],
            security=self._peer_files.security,
            spawn=self._supervisor.run_once,
        )

    @property
    def address(self) -> str:
        """The advertised address for clients, as logged."""
        host, port = self._settings.node.advertised()
        return f"kafka={host}:{port}"

    @property
    def image(self) -> ClusterImage:
        """The cluster's image in this process; read only."""
        return self._image

    @property
    def plane(self) -> ControlPlane:
        """The metadata log and a controller's duties; has no log before it is open."""
        return self._plane

    @property
    def manager(self) -> ReplicaManager | None:
        """The replica set members; None before they are followed."""
        return self._manager

    @property
    def calls(self) -> BrokerCalls:
        """What this broker asks others, and who answers what others ask."""
        return self._calls

    @property
    def sessions(self) -> SessionClient | None:
        """The sessions with controllers, also for operators' requests; None before `start`."""
        return self._sessions

    async def start(self) -> None:
        """Start all parts; returns when the node answers clients.

        Raises ConfigError, StorageError, MetadataError, OSError. `stop` ends what it has opened.
        """
        raise_descriptor_limit()
        served = self._settings, self._readiness, self._plane
        self._http = await serve_pages(*served, self.metrics_page, self._broker)
        self._readiness.enter("metadata")
        self._plane.open(self._directories[0])
        self._plane.log.on_fenced = partial(self._on_fenced, "metadata log")
        sessions, manager = self._connect()
        manager.on_member_opened += start_coordinators(self._coordinator_parts())
        self._broker.follow(self._image)
        self._plane.start()
        check_metadata(
            self._image,
            self._disks,
            cluster_id=self._identity.cluster_id,
            is_only_copy=self._plane.is_only_voter,
        )
        if self._plane.is_only_voter:
            self._behind_metadata.expect(self._image)
        self._peer_listeners = self._listen_to_peers(manager)
        manager.start()
        sessions.start(self._plane.controllers())
        self._follow_controllers()
        forming = Forming(
            manager,
            self._image,
            replication_factor=self._settings.controller.default_replication_factor,
        )
        await forming.wait(self._settings.cluster.start_timeout_ms)
        self.housekeeping.start()
        self._listener = self._start_listener()
        self._readiness.ready()

    def _coordinator_parts(self) -> CoordinatorParts:
        return CoordinatorParts(
            settings=self._settings,
            front=self._front,
            dynamic=self._dynamic,
            groups_journal=self.journal,
            ports=self._ports,
            calls=self._calls,
            supervisor=self._supervisor,
            retention_now_ms=self.housekeeping.retention_clock.now_ms,
            desk=self._rocketmq.desk,
            cluster_id=self._identity.cluster_id,
            open_store=self._machine.open_store,
            on_unreadable=self._on_unreadable,
        )

    async def stop(self) -> bool:
        """Stop all parts: refuse new work, then close the logs so that none needs recovery.

        Returns whether every log was closed without an error; errors are logged.
        """
        self._opener.give_up()
        self._readiness.stop()
        if self._listener is not None and self._sessions is not None and self._manager is not None:
            await end_audit(self._broker)
            await hand_over(self._sessions, self._manager, self._image)
        await self._plane.hand_over()
        self.housekeeping.stop()
        if self._listener is not None:
            await self._listener.stop()
        self._doors.stop()
        self._peer_files.stop()
        self._batch_workers.close()  # while the logs that take their results are still open
        if self._sessions is not None:
            await self._sessions.stop()
        if self._manager is not None:
            await self._manager.stop()
        if self._controllers_timer is not None:
            self._controllers_timer.cancel()
        self._plane.close()
        self._calls.stop()
        for listener in self._peer_listeners:
            listener.stop()
        await self._supervisor.stop()
        await self._housekeeper.stop()
        members = list(self._broker.members.values())
        await asyncio.gather(*(settle(member.log) for member in members))
        failed = [member for member in members if not close_log(member)]
        for workers in self._workers.values():
            workers.close()
        if self._http is not None:
            self._http.stop()
        return not failed

    def _connect(self) -> tuple[SessionClient, ReplicaManager]:
        """Make the sessions with controllers and the replica manager, and connect both."""
        registration = Registration(
            self._identity.cluster_id,
            partial(
                registered_as,
                self._settings,
                self._identity.directory_id,
                incarnation=self._incarnation,
                directory_count=len(self._directories),
            ),
            self._broker.producer_ids,
            self._stop_process,
            self._doors.first_users,
        )
        sessions = self._new_sessions(registration)
        manager = self._new_manager(sessions)
        manager.on_member_opened.append(self._broker.add_member)
        manager.on_member_opened.append(self._share_producers)
        manager.on_member_opened.append(lambda _: sessions.report_soon())
        manager.on_became_master.append(lambda _: sessions.report_soon())  # its lease begins so
        manager.on_member_closed.append(self._broker.remove_member)
        manager.on_member_closed.append(self._share_producers)
        manager.on_member_fenced.append(self._on_set_fenced)
        self._dynamic.follow(lambda now: manager.server.use_config(now.replication))
        registration.manager, registration.controller = manager, sessions
        start_audit(self._front, self._supervisor.run_once, self._machine.randomness)
        self._sessions, self._manager = sessions, manager
        self._broker.controller = self._broker.operations = MetadataCommands(self._plane, sessions)
        self._broker.is_suspect = manager.is_suspect
        self._broker.leftovers.is_registered = lambda: manager.is_registered
        return sessions, manager

    def _new_sessions(self, registration: Registration) -> SessionClient:
        return SessionClient(
            SessionIdentity(
                broker_id=BrokerId(self._settings.node.broker_id),
                incarnation=self._incarnation,
                cluster_id=lambda: self._identity.cluster_id,
                identity=self._identity.directory_id,
            ),
            SessionConfig.of(self._settings.controller),
            SessionPorts(
                security=self._ports.security,
                clock=self._clock,
                randomness=self._machine.randomness,
                owner=registration,
                log=self._plane.driver,
                local=self._plane.service,
                spawn=self._supervisor.run_once,
            ),
        )

    def _new_manager(self, sessions: SessionClient) -> ReplicaManager:
        places = SetPlaces(self._disks)
        self._broker.log_directories = partial(log_directories, self._disks, places)
        splitter = NodeSplitter(self._housekeeper, places, self._identity.cluster_id)
        disks = self._disks.values()
        split_logs(self._settings.log, self.housekeeping, splitter, disks, self._incarnation)
        spawn = self._supervisor.run_once
        repair_extents(self._broker, self.housekeeping, self._calls, spawn, splitter)
        return ReplicaManager(
            broker_id=BrokerId(self._settings.node.broker_id),
            incarnation=self._incarnation,
            image=self._image,
            config=self._settings.replication,
            ports=ManagerPorts(
                clock=self._clock,
                scheduler=self._scheduler,
                logs=NodeLogs(
                    self._image,
                    places,
                    self._opener,
                    self._workers,
                    behind_metadata=self._behind_metadata,
                    randomness=self._machine.randomness,
                ),
                controller=sessions,
                security=self._ports.security,
                new_session_id=self._new_session_id,
                spawn=spawn,
            ),
        )

    def _share_producers(self, _: ReplicaSetMember) -> None:
        logs = [member.log for member in self._broker.members.values()]
        share_producers(logs, pinned_bytes_max(self._settings.net))

    def _new_session_id(self) -> SessionId:
        return SessionId(1 + self._machine.randomness.below((1 << 31) - 1))

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of the groups whose internal partitions are led here."""
        return self._broker.groups

    def _listen_to_peers(self, manager: ReplicaManager) -> list[PeerListener]:
        """Open the controller and HA ports that the settings contain."""
        self._peer_files.follow()
        answer_positions(self._broker, self._calls)
        answer_brokers(self._rocketmq, self._broker, self._calls)
        node, cluster = self._settings.node, self._settings.cluster
        ports: dict[int, tuple[Mapping[bytes, OnLink], int]] = {
            cluster.controller_port: (self._plane.purposes, CONTROLLER_FRAME_BYTES_MAX),
            cluster.ha_port: (
                {HA_PURPOSE: manager.on_link, CALL_PURPOSE: self._calls.on_link},
                max(SLAVE_FRAME_BYTES_MAX, CALL_FRAME_BYTES_MAX),
            ),
        }
        own, security = self._plane.hello(), self._ports.security
        host, open_socket = cluster.host or node.host, self._machine.open_socket
        return [
            listen(
                address=(host, port),
                own=own,
                security=security,
                purposes=purposes,
                frame_bytes_max=frame_bytes_max,
                open_socket=open_socket,
            )
            for port, (purposes, frame_bytes_max) in ports.items()
            if port
        ]

    def _follow_controllers(self) -> None:
        """Keep sessions with the controllers that the metadata log names."""
        assert self._sessions is not None
        self._sessions.set_controllers(self._plane.controllers())
        self._controllers_timer = self._scheduler.call_later(
            FOLLOW_CONTROLLERS_MS, self._follow_controllers
        )

    def _on_set_fenced(self, member: ReplicaSetMember, error: Exception) -> None:
        self._on_fenced(f"replica set {member.replica_set_id}", error)

    def _on_unreadable(self, topic: str, partition: int, error: PlatformError) -> None:
        log.error("topic=%s partition=%d not loaded: %s", topic, partition, error)
        self._readiness.fence(f"partition {partition} of {topic}", str(error))

    def _on_fenced(self, part: str, error: Exception) -> None:
        log.critical("%s fenced: %s", part, error)
        self._readiness.fence(part, str(error))

    def _start_listener(self) -> Listener:
        self._dynamic.prepare()
        listener = listener_of(self._front, self._settings, *self._rocketmq)
        listener.doors = self._doors.open()
        listener.measure_by(self._machine.stopwatch)
        listener.has_let_go, listener.on_relief = self._relief.is_due, self._relief.give_back
        listener.start(self._machine.open_socket)
        self._dynamic.follow(partial(take_limits, listener))
        return listener

    def metrics_page(self) -> Page:
        """Return what the port of metrics answers with."""
        net = NetStats() if self._listener is None else self._listener.stats
        disks = {str(path): disk.stats for path, disk in self._disks.items()}
        others = self._calls.stats, self.housekeeping, *self._rocketmq
        sources = MetricsSources(self._front, net, disks, self._plane, self._manager, *others)
        return metrics_page(sources)
