"""Several real processes that are one cluster, for tests and measurements of failure.

Controllers live inside the first three nodes, or apart in processes of their own. Ports are free
ones of the loopback address; all processes are children of this one and end with the `with` block.
"""

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka.admin import AdminClient

from harness.cluster_settings import ClusterSettings, log_tails
from harness.node import (
    LOOPBACK,
    NodeFailed,
    NodeProcess,
    Place,
    SettingsOf,
)
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until

FORM_SECONDS = UNTIL_SECONDS
STATUS_SECONDS = UNTIL_SECONDS
PAGE_SECONDS = 2.0
CONTROLLERS_INSIDE_MAX = 3
FIRST_CONTROLLER_ID = 101
SEGMENT_BYTES = 32 << 20
"""Nine copies of logs: with files of the default size a long run takes several GB."""

DataOf = Callable[[int], Path]
PlaceOf = Callable[[int], Place]
"""Both by peer id."""


class ClusterProcess:
    """`brokers` nodes with ids from 1; `controllers` apart with ids from 101, 0 for inside."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        controllers: int = 0,
        replicas: int = 3,
        settings: SettingsOf | None = None,
        data_of: DataOf | None = None,
        advertised_host: str = "",
        place_of: PlaceOf = lambda _: Place(LOOPBACK),
        listener: str = "",
        listener_security: Mapping[str, object] | None = None,
        listener_advertised: str = "",
        has_racks: bool = False,
        has_remoting: bool = False,
        has_grpc: bool = False,
    ) -> None:
        """With an `advertised_host` something has to listen there and pass bytes on.

        With a `listener` each broker has one of that name beside its first, at `listener_ports`,
        and `listener_security` as its section `security`; clients of it are told the host
        `listener_advertised` with the same ports, where something has to pass bytes on;
        with `has_racks` each stands in a rack of its own, whose name is its id;
        with `has_remoting` each has a port for RocketMQ's clients, at `remoting_ports`, and with
        `has_grpc` one for those of gRPC, at `grpc_ports`.
        `data_of` says where the data of each process lie, `place_of` where it runs.
        """
        self.directory = directory
        self._shared = ClusterSettings(directory)
        self._replicas = replicas
        self._extra = settings or {}
        self._data_of = data_of
        self._place_of = place_of
        self._peer_ports: dict[int, int] = {}
        broker_ids = range(1, brokers + 1)
        self._listener, self._listener_security = listener, listener_security or {}
        self._listener_advertised = listener_advertised
        self._has_racks = has_racks
        self.listener_ports = (
            {broker_id: free_port() for broker_id in broker_ids} if listener else {}
        )
        self.remoting_ports = {one: free_port() for one in broker_ids} if has_remoting else {}
        self.grpc_ports = {one: free_port() for one in broker_ids} if has_grpc else {}
        apart = range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + controllers)
        self.voters = tuple(apart if controllers else broker_ids[:CONTROLLERS_INSIDE_MAX])
        ports = {peer_id: free_port() for peer_id in (*broker_ids, *apart)}
        self._advertised_host = advertised_host
        self._voters = [f"{voter}@{self._host_of(voter)}:{ports[voter]}" for voter in self.voters]
        self.controllers = {
            peer_id: self._process(peer_id, ports[peer_id], role="controller") for peer_id in apart
        }
        self.nodes = {peer_id: self._process(peer_id, ports[peer_id]) for peer_id in broker_ids}

    @property
    def bootstrap(self) -> str:
        """All brokers, as clients want to hear them."""
        return ",".join(self.address_of(broker_id) for broker_id in self.nodes)

    @property
    def listener_bootstrap(self) -> str:
        """The listeners beside the first of all brokers, likewise."""
        return ",".join(
            f"{self._place_of(one).address}:{port}" for one, port in self.listener_ports.items()
        )

    def address_of(self, broker_id: int) -> str:
        """Where clients find one broker."""
        return f"{self._host_of(broker_id)}:{self.nodes[broker_id].port}"

    def _host_of(self, peer_id: int) -> str:
        return self._advertised_host or self._place_of(peer_id).address

    @property
    def secret(self) -> bytes:
        """What every process of this cluster knows, and no stranger."""
        return self._shared.secret.read_text(encoding="utf-8").strip().encode()

    @property
    def ports(self) -> dict[int, int]:
        """Every port that others dial: number -> peer id."""
        kafka = {node.port: peer_id for peer_id, node in self.nodes.items()}
        return {**self._peer_ports, **kafka}

    @property
    def processes(self) -> Mapping[int, NodeProcess]:
        """Every process by its peer id."""
        return {**self.controllers, **self.nodes}

    def start(self) -> float:
        """Start every process; returns the seconds until every set had a master."""
        begun = time.perf_counter()
        for process in self.processes.values():
            process.launch()
        with ThreadPoolExecutor(len(self.processes)) as pool:
            list(pool.map(NodeProcess.wait_ready, self.processes.values()))
        if not wait_until(self._is_formed, FORM_SECONDS):
            raise NodeFailed(f"no whole cluster after {FORM_SECONDS} s:\n{self.log_tails()}")
        return time.perf_counter() - begun

    def status(self) -> dict[str, Any]:
        """Return what the active controller knows, as `penstock cluster status -o json` shows it.

        Waits while there is none, or none that answers soon: both come and go. Raises NodeFailed.
        """
        found: dict[str, Any] | None = None

        def is_said() -> bool:
            nonlocal found
            found = self.status_now()
            return found is not None

        if not wait_until(is_said, STATUS_SECONDS) or found is None:
            raise NodeFailed(f"no active controller in {STATUS_SECONDS} s:\n{self.log_tails()}")
        return found

    def status_now(self) -> dict[str, Any] | None:
        """Return the same, None when no process says now that it is the active controller."""
        for process in self.processes.values():
            found = _cluster_page(process) if process.is_running else None
            if found and found["controller"]["active_id"] == found["controller"]["answered_by"]:
                return found
        return None

    def is_heard_everywhere(self) -> bool:
        """Whether every controller that runs has a session with every broker that runs.

        One that comes back knows of no broker at first; elected just then, it has to wait.
        """
        pages = [
            _cluster_page(self.processes[voter])
            for voter in self.voters
            if self.processes[voter].is_running
        ]
        running = {peer_id for peer_id, node in self.nodes.items() if node.is_running}
        return all(
            page is not None
            and running <= {one["broker_id"] for one in page["brokers"] if one["is_live"]}
            for page in pages
        )

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the broker id of a partition's leader, -1 for none, as clients are told."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.list_topics(topic, timeout=10).topics[topic].partitions
        return int(found[partition].leader) if partition in found else -1

    def wait_for_leader(
        self, topic: str, partition: int = 0, *, seconds: float = UNTIL_SECONDS
    ) -> int:
        """Wait until the partition has a leader that runs; return its broker id."""
        found = -1

        def is_led() -> bool:
            nonlocal found
            with contextlib.suppress(Exception):
                found = self.leader_of(topic, partition)
                return found in self.nodes and self.nodes[found].is_running
            return False

        if not wait_until(is_led, seconds):
            raise NodeFailed(f"{topic}-{partition} has no leader:\n{self.log_tails()}")
        return found

    def log_tails(self, lines: int = 12) -> str:
        """Return the end of every process's log."""
        return log_tails(self.processes, lines)

    def stop(self) -> None:
        """End every process with SIGTERM."""
        with ThreadPoolExecutor(len(self.processes)) as pool:
            list(pool.map(NodeProcess.stop, self.processes.values()))

    def __enter__(self) -> "ClusterProcess":
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End every process with SIGKILL, also one that is stopped."""
        for process in self.processes.values():
            process.kill()

    def _process(self, peer_id: int, controller_port: int, *, role: Any = "node") -> NodeProcess:
        directory = self.directory / f"{role}-{peer_id}"
        settings = self._settings(peer_id, controller_port)
        data = self._data_of(peer_id) if self._data_of else None
        place = self._place_of(peer_id)
        return NodeProcess(directory, data=data, settings=settings, place=place, role=role)

    def _settings(self, peer_id: int, controller_port: int) -> dict[str, dict[str, object]]:
        own: dict[str, dict[str, object]] = {
            "node": {"advertised_host": self._host_of(peer_id)},
            "log": {"segment_bytes": SEGMENT_BYTES},
        }
        if self._has_racks:
            own["node"]["rack"] = str(peer_id)
        if peer_id in self.listener_ports:
            port = self.listener_ports[peer_id]
            host = self._place_of(peer_id).address
            own["node"]["listeners"] = [f"{self._listener}://{host}:{port}"]
            own["security"] = dict(self._listener_security)
            if self._listener_advertised:
                told = f"{self._listener}://{self._listener_advertised}:{port}"
                own["node"]["advertised_listeners"] = [told]
        if peer_id in self.remoting_ports:
            own["remoting"] = {"port": self.remoting_ports[peer_id]}
        if peer_id in self.grpc_ports:
            own["grpc"] = {"port": self.grpc_ports[peer_id]}
        settings = self._shared.of(
            peer_id,
            voters=self._voters,
            controller_port=controller_port,
            replicas=self._replicas,
            more=(own, self._extra),
        )
        replication_port = settings["cluster"]["ha_port"]
        assert isinstance(replication_port, int)
        self._peer_ports.update({controller_port: peer_id, replication_port: peer_id})
        return settings

    def _is_formed(self) -> bool:
        found = self.status_now()
        sets = found["sets"] if found else []
        return bool(sets) and all(replica_set["master"] in self.nodes for replica_set in sets)


def _cluster_page(process: NodeProcess) -> dict[str, Any] | None:
    """Return the /cluster page of a process, None when it does not answer soon."""
    page = get_page(process, "/cluster")
    with contextlib.suppress(ValueError):
        found: dict[str, Any] | None = json.loads(page) if page is not None else None
        return found
    return None


def get_page(process: NodeProcess, path: str) -> bytes | None:
    """Return what a process says on its metrics port, None when it does not answer soon."""
    host, port = process.place.address, process.metrics_port
    connection = http.client.HTTPConnection(host, port, timeout=PAGE_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    else:
        return body if response.status == 200 else None
    finally:
        connection.close()
