"""A controller process: the metadata log, sessions and elections, without partitions.

Like a node it has a data directory, a metrics port and a controller port, and nothing else.
"""

import logging
from collections.abc import Callable

from penstock.base.errors import ConfigError
from penstock.controller.metadata.image import ClusterImage
from penstock.net.peer import PeerListener
from penstock.net.sockets import raise_descriptor_limit
from penstock.node.apply_settings import LogLevel
from penstock.node.control_plane import ControlPlane, ProcessPorts
from penstock.node.dynamic_config import DynamicConfig
from penstock.node.identity import DataDirectory
from penstock.node.machine import Machine
from penstock.node.pages.metrics import ControllerSources, controller_page
from penstock.node.pages.readiness import Readiness
from penstock.node.pages.serving import serve_pages
from penstock.node.peers import CONTROLLER_FRAME_BYTES_MAX, PeerFiles, listen
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.io.http_server import HttpServer, Page
from penstock.runtime.io.supervisor import Supervisor

log = logging.getLogger(__name__)


class ControllerProcess:
    """A controller process's parts. `start` once, then `stop` once."""

    def __init__(
        self,
        settings: NodeSettings,
        directories: list[DataDirectory],
        stop_process: Callable[[str], None],
        machine: Machine,
    ) -> None:
        self._settings = settings
        self._directory = directories[0].path
        self._machine = machine
        self._supervisor = Supervisor(stop_process)
        self._workers = machine.open_workers(self._directory, "disk")
        self._readiness = Readiness()
        self._image = ClusterImage(defaults=settings.topic)
        dynamic = DynamicConfig(settings, self._image, machine.scheduler, is_broker=False)
        dynamic.follow(LogLevel(settings).take)
        self._peer_files = PeerFiles(settings.cluster, machine)
        self._ports = ProcessPorts(
            clock=machine.clock,
            scheduler=machine.scheduler,
            randomness=machine.randomness,
            disk=machine.open_disk(self._directory),
            workers=self._workers,
            security=self._peer_files.security,
            spawn=self._supervisor.run_once,
        )
        cluster_id = directories[0].identity.cluster_id
        self._plane = ControlPlane(settings, cluster_id, self._image, self._ports)
        self._http: HttpServer | None = None
        self._listener: PeerListener | None = None

    @property
    def address(self) -> str:
        """The address for peers, as logged."""
        cluster = self._settings.cluster
        return f"controller={cluster.host or self._settings.node.host}:{cluster.controller_port}"

    @property
    def image(self) -> ClusterImage:
        """The cluster's image in this process; read only."""
        return self._image

    @property
    def plane(self) -> ControlPlane:
        """The metadata log and a controller's duties; has no log before it is open."""
        return self._plane

    async def start(self) -> None:
        """Start all parts. Raises ConfigError, MetadataError, OSError."""
        cluster, node = self._settings.cluster, self._settings.node
        if not cluster.controller_port or not cluster.voters:
            raise ConfigError(
                "a controller alone needs cluster.voters and cluster.controller_port: "
                "others could not reach it"
            )
        raise_descriptor_limit()
        self._http = await serve_pages(
            self._settings, self._readiness, self._plane, self.metrics_page
        )
        self._readiness.enter("metadata")
        self._plane.open(self._directory)
        self._plane.log.on_fenced = self._on_fenced
        self._plane.start()
        self._peer_files.follow()
        self._listener = listen(
            address=(cluster.host or node.host, cluster.controller_port),
            own=self._plane.hello(),
            security=self._ports.security,
            purposes=self._plane.purposes,
            frame_bytes_max=CONTROLLER_FRAME_BYTES_MAX,
            open_socket=self._machine.open_socket,
        )
        self._readiness.ready()

    async def stop(self) -> bool:
        """Stop all parts; committed metadata is durable already. Returns True."""
        self._readiness.stop()
        self._peer_files.stop()
        await self._plane.hand_over()
        self._plane.close()
        if self._listener is not None:
            self._listener.stop()
        await self._supervisor.stop()
        self._workers.close()
        if self._http is not None:
            self._http.stop()
        return True

    def _on_fenced(self, error: Exception) -> None:
        log.critical("metadata log fenced: %s", error)
        self._readiness.fence("metadata log", str(error))

    def metrics_page(self) -> Page:
        """Return what the port of metrics answers with."""
        return controller_page(ControllerSources(self._plane, self._image))
