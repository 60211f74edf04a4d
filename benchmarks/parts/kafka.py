"""Apache Kafka 4 (KRaft) as a peer to measure beside, from its jars on Maven Central.

One node that is its own controller, or three of which each is broker and controller. JVM options
are those of Kafka's start script with the heap sized for the machine; settings are the defaults and
what its documentation shows for production (`SETTINGS` says which and why). Durability is either
Kafka's default, where the page cache answers, or `flush.messages=1`, where the disk does.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.parts import java_servers
from benchmarks.parts.java_servers import JavaServer, heap_mib, version_of
from harness.maven import jars
from harness.node import NodeFailed, answers
from harness.ports import free_port

PROJECT = "kafka-tools"
"""Of tests/compat/java: which version of Kafka."""
TIERED_PROJECT = "kafka-tiered"
"""The same with its LocalTieredStorage, which is in test jars."""
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_SECONDS = 120.0
SHARE_FEATURE = "share.version=1"
"""Share groups are a preview in 4.1, and off until the feature has a level (KIP-932)."""
HEAP_MIB_MAX = 6144
"""What Kafka's page on Java shows for a big machine."""

_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_TOOL_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller (KRaft, combined: three voters with three nodes)",
    "default.replication.factor, min.insync.replicas": "3 and 2 with three nodes (production page)",
    "offsets.topic.replication.factor": "3 with three nodes, 1 with one",
    "transaction.state.log.replication.factor, .min.isr": "3 and 2 with three nodes, 1 with one",
    "share.coordinator.state.topic.replication.factor, .min.isr": "3 and 2, and 1 with one node",
    "auto.create.topics.enable": "false (production page)",
    "log.flush.interval.messages": "1 where the disk answers; unset (default) where the page cache",
    "log.segment.delete.delay.ms": "1000 instead of 60000: deleted topics would fill the disk",
    "group.initial.rebalance.delay.ms": "0: nothing here waits for members",
    "ssl.keystore": "rows of TLS: a PEM file with a P-256 key, beside the plain listener",
    "log.cleaner.*": "defaults: one thread, no bound of its rate, 128 MiB for keys",
    "log.cleaner.backoff.ms": "1000 instead of 15000 in rows clean-*: ours looks every second",
    "min.cleanable.dirty.ratio": "0.01 in rows clean-*, on both sides",
    "log.segment.bytes": "16 MiB in rows clean-* and tier-*, as ours",
    "remote.log.storage.manager.class.name": "rows tier-*: LocalTieredStorage of Kafka's test jars",
    "remote.log.manager.task.interval.ms, log.retention.check.interval.ms": "1000 in rows tier-*: "
    "so that copies are soon there, and local ones gone",
    "threads, buffers, segments": "defaults elsewhere",
    "JVM": "kafka-server-start's own options; heap a sixth of the memory, a twelfth each for three",
}


def why_not(project: str = PROJECT) -> str | None:
    """Return why Kafka can not be run here, or None when it can."""
    found = jars(project)
    return found if isinstance(found, str) else java_servers.why_not()


def described() -> dict[str, str]:
    """Return version, heaps and settings, for the report."""
    found = jars(PROJECT)
    version = "none here" if isinstance(found, str) else version_of(found, "kafka_2.13")
    heaps = [heap_mib(nodes, most_mib=HEAP_MIB_MAX) for nodes in (1, 3)]
    size = f"{heaps[0]} MiB for one node, {heaps[1]} MiB each for three"
    return {"version": version, "heap": size, **SETTINGS}


class KafkaCluster:
    """One or three Kafka nodes, each broker and controller."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        is_synced: bool = False,
        project: str = PROJECT,
        more: Iterable[str] = (),
        certificate: Path | None = None,
    ) -> None:
        """With `is_synced` a record is on the disk of every replica before it is acknowledged.

        `more` are lines of each node's properties. With a `certificate`, which has its key in the
        same file, each node has a listener with TLS, at `tls_ports`.
        """
        self._project, self._certificate = project, certificate
        self.heap_mib = heap_mib(nodes, most_mib=HEAP_MIB_MAX)
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-bench-kafka-"))
        ids = range(1, nodes + 1)
        self.ports = {node_id: free_port() for node_id in ids}
        self.tls_ports = {node_id: free_port() for node_id in ids} if certificate else {}
        controllers = {node_id: free_port() for node_id in ids}
        voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in controllers.items())
        whole = [f"controller.quorum.voters={voters}", *more]
        for node_id in ids:
            (self._directory / str(node_id)).mkdir()
            lines = self._properties(node_id, nodes, controllers[node_id], is_synced=is_synced)
            text = "\n".join([*lines, *whole]) + "\n"
            self._file_of(node_id).write_text(text, encoding="utf-8")
        self.servers = {node_id: self._server(node_id) for node_id in ids}
        self._is_formatted = False

    @property
    def bootstrap(self) -> str:
        """All nodes, as clients want to hear them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def tls_bootstrap(self) -> str:
        """The listeners with TLS of all nodes, likewise."""
        return ",".join(f"127.0.0.1:{port}" for port in self.tls_ports.values())

    @property
    def data(self) -> list[Path]:
        """Where its logs lie."""
        return [self._directory / str(node_id) / "data" for node_id in self.servers]

    def start(self) -> float:
        """Start every node; returns the seconds until each answered its first request."""
        if not self._is_formatted:
            for node_id in self.servers:
                self._format(node_id)
            self._is_formatted = True
        begun = time.perf_counter()
        for server in self.servers.values():
            server.launch()
        self._wait_for(self._all_answer, "did not answer")
        took = time.perf_counter() - begun
        self._wait_for(self._is_whole, "did not become whole")
        return took

    def kill(self) -> None:
        """End every node with SIGKILL."""
        for server in self.servers.values():
            server.kill()

    def pids(self) -> list[int]:
        """Return the nodes that run."""
        return [server.pid for server in self.servers.values() if server.is_running]

    def close(self) -> None:
        """End every node and remove what they wrote."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> "KafkaCluster":
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _properties(
        self, node_id: int, nodes: int, controller_port: int, *, is_synced: bool
    ) -> list[str]:
        lines = [
            "process.roles=broker,controller",
            f"node.id={node_id}",
            *self._listeners(node_id, controller_port),
            f"log.dirs={self._directory / str(node_id) / 'data'}",
            f"default.replication.factor={nodes}",
            f"min.insync.replicas={2 if nodes > 1 else 1}",
            f"offsets.topic.replication.factor={nodes}",
            f"transaction.state.log.replication.factor={nodes}",
            f"transaction.state.log.min.isr={2 if nodes > 1 else 1}",
            f"share.coordinator.state.topic.replication.factor={nodes}",
            f"share.coordinator.state.topic.min.isr={2 if nodes > 1 else 1}",
            "auto.create.topics.enable=false",
            "log.segment.delete.delay.ms=1000",
            "group.initial.rebalance.delay.ms=0",
        ]
        return [*lines, "log.flush.interval.messages=1"] if is_synced else lines

    def _listeners(self, node_id: int, controller_port: int) -> list[str]:
        own = f"PLAINTEXT://127.0.0.1:{self.ports[node_id]}"
        secure: list[str] = []
        if self._certificate is not None:
            own += f",SSL://127.0.0.1:{self.tls_ports[node_id]}"
            secure = ["ssl.keystore.type=PEM", f"ssl.keystore.location={self._certificate}"]
        return [
            f"listeners={own},CONTROLLER://127.0.0.1:{controller_port}",
            f"advertised.listeners={own}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            *secure,
        ]

    def _server(self, node_id: int) -> JavaServer:
        heap = (f"-Xms{self.heap_mib}m", f"-Xmx{self.heap_mib}m")
        command = [*_java(self._project, *heap, *_JVM), "kafka.Kafka", str(self._file_of(node_id))]
        return JavaServer(command, self._directory / str(node_id) / "kafka.log")

    def _file_of(self, node_id: int) -> Path:
        return self._directory / str(node_id) / "server.properties"

    def _format(self, node_id: int) -> None:
        command = [
            *_java(self._project, *_TOOL_JVM),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER_ID,
            "-c",
        ]
        command += [str(self._file_of(node_id)), "--feature", SHARE_FEATURE]
        subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS)

    def _all_answer(self) -> bool:
        return all(answers(port) for port in self.ports.values())

    def _is_whole(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        with contextlib.suppress(KafkaException):
            return len(admin.list_topics(timeout=10).brokers) == len(self.servers)
        return False

    def _wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_so():
            ended = not all(server.is_running for server in self.servers.values())
            if ended or time.monotonic() > deadline:
                tails = "\n".join(server.log_tail() for server in self.servers.values())
                raise NodeFailed(f"Kafka {what}:\n{tails}")
            time.sleep(0.02)


def _java(project: str, *options: str) -> list[str]:
    found = jars(project)
    assert not isinstance(found, str), found
    return ["java", *options, "-cp", ":".join(str(jar) for jar in found)]
