"""One node's parts and the order in which they start and stop."""

import asyncio
import gc
import logging
import secrets
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from penstock.base.errors import ConfigError, PlatformError
from penstock.base.ids import LeaderEpoch, ReplicaId, TopicId
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Dispatcher
from penstock.broker.group_journal import OFFSETS_TOPIC, InternalTopicJournal
from penstock.broker.housekeeping import Housekeeping
from penstock.broker.partitions import HostedPartition
from penstock.broker.registry import load_apis
from penstock.broker.replica_set import ReplicaSetMember
from penstock.controller.commands import (
    BeginMastership,
    CreateCluster,
    CreateReplicaSet,
    CreateTopics,
    EndMastership,
    NewTopic,
    RegisterBroker,
)
from penstock.controller.controller import Controller
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.controller.image import ClusterImage
from penstock.groups.coordinator import GroupCoordinator
from penstock.net.listener import Endpoint, Listener, raise_descriptor_limit
from penstock.net.stats import NetStats
from penstock.node.continuity import (
    check_leader_epochs,
    check_metadata,
    check_metadata_is_there,
    sets_with_data,
    sets_without_directory,
)
from penstock.node.identity import DataDirectory
from penstock.node.layout import METADATA_DIRECTORY, ReplicaSetPlace, place_replica_sets
from penstock.node.metrics_page import MetricsSources, metrics_page
from penstock.node.readiness import Readiness
from penstock.node.recovery import LogOpener
from penstock.node.settings import NodeSettings
from penstock.node.settings_entries import settings_entries
from penstock.runtime.clock import LoopScheduler, SystemClock
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.disk import FileDisk, ThreadOffload
from penstock.runtime.http_server import HttpServer, Page
from penstock.runtime.metadata_log import MetadataLog
from penstock.runtime.supervisor import Supervisor

log = logging.getLogger(__name__)


class Node:
    """A node process's parts. `start` once, then `stop` once."""

    def __init__(
        self,
        settings: NodeSettings,
        directories: list[DataDirectory],
        stop_process: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._directories = [directory.path for directory in directories]
        self._places: list[ReplicaSetPlace] = []
        self._cluster_id = directories[0].identity.cluster_id
        self._clock = SystemClock()
        self._scheduler = LoopScheduler(asyncio.get_running_loop())
        self._supervisor = Supervisor(stop_process)
        self._workers = {
            path: ThreadOffload(asyncio.get_running_loop(), name=f"disk-{number}")
            for number, path in enumerate(self._directories, 1)
        }
        self._disks = {path: FileDisk(path) for path in self._directories}
        self._readiness = Readiness()
        self._opener = LogOpener(settings.log, self._clock, self._scheduler, self._readiness)
        self._image = ClusterImage(controller_id=settings.node.broker_id, defaults=settings.topic)
        self._broker = Broker(
            broker_id=settings.node.broker_id,
            config=settings.broker,
            clock=self._clock,
            scheduler=self._scheduler,
            metadata=self._image,
            new_session_id=lambda: 1 + secrets.randbelow((1 << 31) - 1),
        )
        self._journal = InternalTopicJournal(self._broker)
        self._housekeeping = Housekeeping(self._broker, self._journal)
        self._http: HttpServer | None = None
        self._listener: Listener | None = None
        self._metadata_log: MetadataLog | None = None

    @property
    def address(self) -> str:
        """Where clients are told to connect."""
        host, port = self._settings.node.advertised()
        return f"{host}:{port}"

    async def start(self) -> None:
        """Bring the node up; returns when clients are answered.

        Raises ConfigError, StorageError, MetadataError, OSError. Cancelling it leaves what has
        been opened to `stop`.
        """
        raise_descriptor_limit()
        await self._start_http()
        self._readiness.enter("metadata")
        driver = self._start_controller()
        await self._register(driver)
        await self._recover_logs()
        await self._take_masterships(driver)
        self._broker.follow(self._image)
        await self._start_groups(driver)
        self._housekeeping.start()
        self._listener = self._start_listener()
        # What lives now lives for long: keep the collector away from it.
        gc.collect()
        gc.freeze()
        self._readiness.ready()

    async def stop(self) -> bool:
        """Take the node down: no new work, then close the logs so that nothing needs recovery.

        Returns whether every log was closed as it should; what failed is in the node's log.
        """
        self._opener.give_up()
        self._readiness.is_ready = False
        self._readiness.enter("stopping")
        self._housekeeping.stop()
        if self._listener is not None:
            await self._listener.stop()
        await self._supervisor.stop()
        failed = [member for member in self._broker.members.values() if not _close(member)]
        if self._metadata_log is not None:
            self._metadata_log.close()
        for workers in self._workers.values():
            workers.close()
        if self._http is not None:
            self._http.stop()
        return not failed

    async def _start_http(self) -> None:
        node = self._settings.node
        if not node.metrics_port:
            return
        self._http = HttpServer(
            {
                "/metrics": self._metrics_page,
                "/health": self._readiness.health_page,
                "/ready": self._readiness.ready_page,
            }
        )
        await self._http.start(node.metrics_host, node.metrics_port)

    def _start_controller(self) -> ControllerDriver:
        """Open the metadata log in the first data directory and replay it into the image."""
        metadata_log = self._metadata_log = self._open_metadata_log(self._directories[0])
        metadata_log.on_fenced = partial(self._on_fenced, "metadata log")
        controller = Controller(
            config=self._settings.controller,
            image=self._image,
            new_topic_id=lambda: TopicId(uuid.uuid4().bytes),
        )
        driver = ControllerDriver(controller, metadata_log)
        driver.start()
        check_metadata(self._image, self._directories, cluster_id=self._cluster_id)
        self._places = place_replica_sets(self._directories, sets_with_data(self._image))
        self._broker.controller = driver
        return driver

    def _open_metadata_log(self, first: Path) -> MetadataLog:
        check_metadata_is_there(self._directories)
        disk, workers = self._disks[first], self._workers[first]
        try:
            return MetadataLog(disk, METADATA_DIRECTORY, workers, self._scheduler)
        except (CorruptMetadata, UnsupportedMetadata) as error:
            raise ConfigError(f"{first}: {error}; it is not changed: restore a copy") from error

    async def _register(self, driver: ControllerDriver) -> None:
        """Say who this broker is and which replica sets it carries; what is known stays."""
        node = self._settings.node
        host, port = node.advertised()
        await driver.submit(CreateCluster(cluster_id=self._cluster_id))
        await driver.submit(
            RegisterBroker(broker_id=node.broker_id, host=host, port=port, rack=node.rack or None)
        )
        for place in self._places:
            await driver.submit(
                CreateReplicaSet(replica_set_id=place.replica_set_id, replicas=(node.broker_id,))
            )

    async def _recover_logs(self) -> None:
        """Open every commit log; what the last run left unfinished is replayed and cut here."""
        own_id = ReplicaId(self._settings.node.broker_id)
        for place in self._places:
            set_id, directory = place.replica_set_id, place.directory
            set_log = await self._opener.open(
                place, self._disks[directory], self._workers[directory]
            )
            member = ReplicaSetMember(set_id, own_id, set_log)
            member.on_fenced = self._on_set_fenced
            self._broker.members[set_id] = member
            check_leader_epochs(self._image, place, set_log.epochs)

    async def _take_masterships(self, driver: ControllerDriver) -> None:
        broker_id = self._settings.node.broker_id
        for lost in sets_without_directory(self._image, self._places, broker_id=broker_id):
            set_id = lost.replica_set_id
            await driver.submit(EndMastership(replica_set_id=set_id))
            log.error(
                "set=%d is in none of node.data_directories: its %d partitions are not served",
                set_id,
                self._image.partition_counts[set_id],
            )
        for set_id, member in self._broker.members.items():
            leader_epoch = await driver.submit(
                BeginMastership(replica_set_id=set_id, master=broker_id)
            )
            member.begin_mastership(LeaderEpoch(leader_epoch), (ReplicaId(broker_id),))
            log.info("set=%d master epoch=%d end=%d", set_id, leader_epoch, member.log.end_position)

    def _on_set_fenced(self, member: ReplicaSetMember, error: Exception) -> None:
        self._on_fenced(f"replica set {member.replica_set_id}", error)

    def _on_fenced(self, part: str, error: Exception) -> None:
        log.critical("%s fenced: %s", part, error)
        self._readiness.fence(part, str(error))

    async def _start_groups(self, driver: ControllerDriver) -> None:
        """Make the internal topic where it is not there yet, and load the groups kept in it."""
        config = self._settings.groups
        if OFFSETS_TOPIC not in self._image.topics_by_name:
            topic = NewTopic(name=OFFSETS_TOPIC, partition_count=config.partition_count)
            await driver.submit(CreateTopics(topics=(topic,), internal=True))
        # The topic's own count holds: the setting may have been changed since it was made.
        config = replace(config, partition_count=len(self._journal.partitions))
        self._broker.groups = GroupCoordinator(
            self._clock, self._journal, config=config, new_suffix=lambda: str(uuid.uuid4())
        )
        for hosted in self._journal.partitions:
            if hosted is not None:
                self._load_groups(hosted)

    def _load_groups(self, hosted: HostedPartition) -> None:
        groups, partition = self._broker.groups, hosted.partition

        def on_record(key: bytes | None, value: bytes | None) -> None:
            if key is not None:
                groups.load(partition, key, value)

        def on_done(error: PlatformError | None) -> None:
            if error is None:
                groups.finish_loading(partition)
            else:
                log.error("internal partition=%d not loaded: %s", partition, error)
                self._readiness.fence(f"groups of internal partition {partition}", str(error))

        groups.begin_loading(partition)
        self._journal.load(hosted, on_record, on_done)

    def _start_listener(self) -> Listener:
        node = self._settings.node
        self._broker.apis = load_apis()
        self._broker.settings_entries = partial(settings_entries, self._settings)
        dispatcher = Dispatcher(self._broker, self._broker.apis, self._supervisor.run_once)
        endpoint = Endpoint(node.host, node.port)
        listener = Listener(endpoint, self._settings.net, dispatcher.on_frame)
        listener.start()
        return listener

    def _metrics_page(self) -> Page:
        net = NetStats() if self._listener is None else self._listener.stats
        disks = {str(path): disk.stats for path, disk in self._disks.items()}
        return metrics_page(MetricsSources(self._broker, net, disks, self._metadata_log))


def _close(member: ReplicaSetMember) -> bool:
    """Close one log; the others must be closed too, whatever this disk says."""
    try:
        member.log.close()
    except (PlatformError, OSError) as error:
        log.critical("set=%d was not closed cleanly: %s", member.replica_set_id, error)
        return False
    return True
