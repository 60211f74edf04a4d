"""Servers under one shape, whoever made them: started, loaded, measured, killed and removed.

`open_server(spec)` yields one that runs and has an empty data directory. Durability is what the
spec says: where a record is when it is acknowledged, the same on both sides of a comparison.
"""

import contextlib
import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.parts import kafka, native, rocketmq
from benchmarks.parts.java_servers import heap_used_bytes, process_cpu_seconds
from benchmarks.parts.nodes import FSYNC as NODE_FSYNC
from benchmarks.parts.nodes import PAGE_CACHE as NODE_PAGE_CACHE
from benchmarks.parts.nodes import merged
from benchmarks.parts.processes import children_of
from benchmarks.parts.second_level import NodeProgress, Progress
from benchmarks.parts.stub import StubProcess
from benchmarks.peers import cold
from benchmarks.peers.kafka_load import KafkaLoad, PenstockLoad, StubLoad
from benchmarks.peers.model import FSYNC, CanNotRun, Scale, Spec
from benchmarks.peers.over_tls import Loaded, OverTls, TlsFiles, penstock_listener
from benchmarks.peers.rocket_load import RocketLoad
from benchmarks.peers.second_level import KafkaProgress, kafka_lines, penstock_settings
from harness.cluster import ClusterProcess
from harness.failover import is_whole
from harness.node import NodeProcess, SettingsOf, private_bytes
from harness.ports import free_port
from harness.waiting import wait_until

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
RECYCLE_SECONDS = 1.5
"""Deleted topics' segments are written over again after this."""
WHOLE_SECONDS = 60.0
WARM_VALUE_BYTES = 1024
WARM_RATE = 2_000

PARTITIONS_MAX = 100_000

PENSTOCK_SETTINGS: Mapping[str, str] = {
    "log.flush_policy": "async where the page cache answers, sync (default) where the disk does",
    "log.recycle_count": "8 instead of 2: a log in steady state writes over recycled segments",
    "net.connections_per_address_max, connection_rate_per_address_max": "off: one client host",
    "broker.housekeeping_interval_ms": "1000: deleted topics would fill the disk",
    "controller.partitions_per_broker_max": "100000: the failover rows want 30,000",
    "log.segment_bytes": "default with one node, 32 MiB with three: nine logs on one disk",
    "security": "rows of TLS: a listener with a P-256 key beside the plain one",
    "remoting.port, grpc.port": "set in rows of messages alone",
    "log.level0_bytes": "rows clean-*: 1 TiB, so that only what is cleaned is moved; tier-*: 0",
    "log.housekeeper_bytes_per_second, housekeeper_sync_ms": "rows clean-*: 0, without a bound",
    "log.segment_bytes in rows clean-*, tier-*": "16 MiB in both, as Kafka's",
    "tier.url, look_ms": "rows tier-*: a directory; 200, so that copies are soon there",
    "three nodes": "a controller in each, replication factor 3, one replica set per node",
}


class Server:
    """A running server of any product; subclasses say how it is started and killed."""

    greeting = _API_VERSIONS
    """A request for its port that is answered with four bytes of length and as many more."""

    def __init__(self, spec: Spec, load: Any) -> None:
        """`load` is KafkaLoad, or what has the same methods for another protocol."""
        self.spec = spec
        self.load = load
        self.started_seconds = 0.0
        """From its first start, with nothing in its directories, to its first answer."""

    @property
    def bootstrap(self) -> str:
        """What its clients are given to find it."""
        raise NotImplementedError

    @property
    def data(self) -> list[Path]:
        """Directories that hold its logs."""
        raise NotImplementedError

    @property
    def remoting(self) -> str:
        """What RocketMQ's remoting clients are given to find it. Raises CanNotRun."""
        raise CanNotRun(f"{self.spec.label} does not listen to remoting clients")

    @property
    def grpc(self) -> str:
        """What RocketMQ's gRPC clients are given to find it. Raises CanNotRun."""
        raise CanNotRun(f"{self.spec.label} does not listen to gRPC clients")

    def start(self) -> float:
        """Start it; returns the seconds to its first answer."""
        raise NotImplementedError

    def kill(self) -> None:
        """End all its processes with SIGKILL; their data stay."""
        raise NotImplementedError

    def close(self) -> None:
        """End all its processes and remove what they wrote."""
        raise NotImplementedError

    def pids(self) -> list[int]:
        """Return its processes that run."""
        raise NotImplementedError

    def over_tls(self) -> OverTls:
        """Return its listener with TLS, for the same loads. Raises CanNotRun."""
        raise CanNotRun(f"{self.spec.label} has no listener with TLS here")

    def ports(self) -> list[int]:
        """Return where its nodes take clients' connections."""
        return [int(address.rpartition(":")[2]) for address in self.bootstrap.split(",")]

    def kill_leader(self, topic: str) -> None:
        """Kill the node that leads partition 0 of a topic; returns when it is gone."""
        raise CanNotRun(f"{self.spec.label} has no other node to take over")

    def cleaning_of(self, topic: str, records: int) -> tuple[Progress, int]:
        """Return how far partition 0 of a topic is clean, and up to which offset it can be.

        It has so many records, and a filler was written behind it. Raises CanNotRun.
        """
        raise CanNotRun(f"{self.spec.label} cleans nothing here")

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes."""
        return sum(process_cpu_seconds(pid) for pid in self.pids())

    def memory_bytes(self) -> int:
        """Return the private memory of all its processes."""
        return sum(private_bytes(pid) for pid in self.pids())

    def live_bytes(self) -> int:
        """Return what it holds in memory now, without what only waits to be given back."""
        return self.memory_bytes()

    def warm_up(self, scale: Scale) -> None:
        """Touch memory and files, and let compilers see every path: batches, reads, one record."""
        reads = self.spec.product != "stub"
        warm_up(self, scale, reads=reads)
        if self.spec.has_tls:
            warm_up(self.over_tls(), scale, reads=reads)

    def restart_cold(self) -> None:
        """Kill it, put its files out of the page cache, start it."""
        self.kill()
        cold.forget(self.data)
        self.start()


def warm_up(loaded: Loaded, scale: Scale, *, reads: bool) -> None:
    """Put each kind of load on one way into a server."""
    load, bootstrap = loaded.load, loaded.bootstrap
    for batch in (16_384, 262_144, 1_000_000):
        with load.topic(bootstrap) as topic:
            how = (1, WARM_VALUE_BYTES, batch, "none", scale.warm_bytes)
            written = load.produce(bootstrap, topic, how, seconds_max=scale.write_seconds)
            if reads:
                load.consume(bootstrap, topic, 1, written["bytes"])
        time.sleep(0 if scale.is_smoke else RECYCLE_SECONDS)
    with load.topic(bootstrap) as topic:
        pace = (WARM_VALUE_BYTES, WARM_RATE, min(scale.seconds, 5))
        load.latency(bootstrap, topic, pace)


class PenstockServer(Server):
    """Our own node, or three of them."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, PenstockLoad(acks="1" if spec.nodes == 1 else "all"))
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        durability = NODE_FSYNC if spec.durable_in == FSYNC else NODE_PAGE_CACHE
        many: SettingsOf = {"controller": {"partitions_per_broker_max": PARTITIONS_MAX}}
        second_level = penstock_settings(spec, self._directory)
        settings = dict(merged(durability, many, *second_level))
        self._tls: TlsFiles | None = None
        if spec.has_tls:
            self._tls, self._tls_port = TlsFiles(self._directory), free_port()
            settings |= penstock_listener(self._tls, self._tls_port)
        self._message_ports: tuple[int, int] | None = None
        if spec.has_messages:
            self._message_ports = remoting, grpc = free_port(), free_port()
            settings |= {"remoting": {"port": remoting}, "grpc": {"port": grpc}}
        self.cluster: ClusterProcess | None = None
        if spec.nodes == 1:
            self.nodes = [NodeProcess(self._directory, settings=settings)]
        else:
            self.cluster = ClusterProcess(self._directory, brokers=spec.nodes, settings=settings)
            self.nodes = list(self.cluster.nodes.values())

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def remoting(self) -> str:
        return f"127.0.0.1:{self._message_ports[0]}" if self._message_ports else super().remoting

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self._message_ports[1]}" if self._message_ports else super().grpc

    @property
    def data(self) -> list[Path]:
        return [node.data for node in self.nodes]

    def start(self) -> float:
        if self.cluster is None:
            return self.nodes[0].start()
        cluster, took = self.cluster, self.cluster.start()
        if not wait_until(lambda: is_whole(cluster), WHOLE_SECONDS):
            raise CanNotRun(f"replicas are not in step after {WHOLE_SECONDS:.0f} s")
        return took

    def over_tls(self) -> OverTls:
        if self._tls is None:
            return super().over_tls()
        return OverTls(self, f"127.0.0.1:{self._tls_port}", self._tls.authority)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def pids(self) -> list[int]:
        running = [node.pid for node in self.nodes if node.is_running]
        if not self.spec.has_cleaner and not self.spec.has_store:
            return running
        return [*running, *(child for pid in running for child in children_of(pid))]

    def cleaning_of(self, topic: str, records: int) -> tuple[Progress, int]:
        return NodeProgress(self.nodes[0]), records

    def kill_leader(self, topic: str) -> None:
        if self.cluster is None:
            super().kill_leader(topic)
        else:
            self.cluster.nodes[self.cluster.wait_for_leader(topic)].kill()


class KafkaServer(Server):
    """Apache Kafka."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, KafkaLoad(acks="1" if spec.nodes == 1 else "all"))
        self._scratch = Path(tempfile.mkdtemp(prefix="penstock-bench-tls-"))
        self._tls = TlsFiles(self._scratch) if spec.has_tls else None
        self._kafka = kafka.KafkaCluster(
            nodes=spec.nodes,
            is_synced=spec.durable_in == FSYNC,
            certificate=self._tls.server if self._tls else None,
            project=kafka_project(spec),
            more=kafka_lines(spec, self._scratch),
        )

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap

    def over_tls(self) -> OverTls:
        if self._tls is None:
            return super().over_tls()
        return OverTls(self, self._kafka.tls_bootstrap, self._tls.authority)

    @property
    def data(self) -> list[Path]:
        return self._kafka.data

    def start(self) -> float:
        return self._kafka.start()

    def kill(self) -> None:
        self._kafka.kill()

    def close(self) -> None:
        self._kafka.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def pids(self) -> list[int]:
        return self._kafka.pids()

    def kill_leader(self, topic: str) -> None:
        if len(self._kafka.servers) == 1:
            super().kill_leader(topic)
        self._kafka.servers[self.load.leader_of(self.bootstrap, topic)].kill()

    def cleaning_of(self, topic: str, records: int) -> tuple[Progress, int]:
        progress = KafkaProgress(self.data[0], topic)
        assert progress.end_offset <= records
        return progress, progress.end_offset


class RocketServer(Server):
    """Apache RocketMQ."""

    greeting = rocketmq.any_request()

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, RocketLoad())
        self._cluster = rocketmq.RocketCluster(
            nodes=spec.nodes,
            is_synced=spec.durable_in == FSYNC,
            has_grpc=spec.has_messages,
        )

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def remoting(self) -> str:
        return self._cluster.bootstrap

    @property
    def grpc(self) -> str:
        port = self._cluster.grpc_port
        return f"127.0.0.1:{port}" if port else super().grpc

    def live_bytes(self) -> int:
        """Its heap is there from the start: what counts is what it holds after a collection."""
        return sum(heap_used_bytes(pid) for pid in self.pids())

    @property
    def data(self) -> list[Path]:
        return self._cluster.data

    def start(self) -> float:
        took = self._cluster.start()
        self.load.await_whole(self.bootstrap, self.spec.nodes, self._cluster.controller)
        return took

    def kill(self) -> None:
        self._cluster.kill()

    def close(self) -> None:
        self.load.close()
        self._cluster.close()

    def pids(self) -> list[int]:
        return self._cluster.pids()

    def ports(self) -> list[int]:
        return list(self._cluster.ports.values())

    def kill_leader(self, topic: str) -> None:
        if self.spec.nodes == 1:
            super().kill_leader(topic)
        address = self.load.command(self.bootstrap, "master")["address"]
        self._cluster.kill_broker_at(address)


class StubServer(Server):
    """librdkafka's mock broker: a bound, not a competitor."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, StubLoad(acks="1"))
        self._stub = StubProcess()

    @property
    def bootstrap(self) -> str:
        return self._stub.bootstrap

    @property
    def data(self) -> list[Path]:
        return []

    def start(self) -> float:
        begun = time.perf_counter()
        self._stub.__enter__()
        return time.perf_counter() - begun

    def kill(self) -> None:
        self._stub.__exit__(None, None, None)

    def close(self) -> None:
        self.kill()

    def pids(self) -> list[int]:
        return [self._stub.pid]


_SERVERS: Mapping[str, Callable[[Spec], Server]] = {
    "penstock": PenstockServer,
    "kafka": KafkaServer,
    "rocketmq": RocketServer,
    "stub": StubServer,
}


def kafka_project(spec: Spec) -> str:
    """Return which jars of Kafka's a server is made of."""
    return kafka.TIERED_PROJECT if spec.has_store else kafka.PROJECT


def why_not(spec: Spec) -> str | None:
    """Return why this server can not be run here, or None when it can."""
    if spec.product == "kafka":
        return native.why_not() or kafka.why_not(kafka_project(spec))
    if spec.product not in _SERVERS:
        return f"{spec.product} is no server that can be started here"
    if spec.product == "rocketmq":
        return rocketmq.why_not(has_grpc=spec.has_messages)
    return native.why_not()


def settings_of(spec: Spec) -> Mapping[str, str]:
    """Return its version and what it was told beyond its defaults, and why."""
    if spec.product == "kafka":
        return kafka.described()
    if spec.product == "rocketmq":
        return rocketmq.described()
    return PENSTOCK_SETTINGS if spec.product == "penstock" else {}


@contextlib.contextmanager
def open_server(spec: Spec) -> Iterator[Server]:
    """Yield a server that runs; it and its data are gone afterwards. Raises CanNotRun."""
    reason = why_not(spec)
    if reason is not None:
        raise CanNotRun(reason)
    server = _SERVERS[spec.product](spec)
    try:
        server.started_seconds = server.start()
        yield server
    finally:
        server.close()
