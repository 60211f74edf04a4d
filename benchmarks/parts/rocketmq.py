"""Apache RocketMQ 5 as a peer to measure beside, from its jars on Maven Central.

One broker with a name server; or three brokers in controller mode that elect their master, with
three name servers that hold the controllers. JVM options are those of RocketMQ's page on JVM and
system settings with the heap sized for the machine; `SETTINGS` says what else differs from the
defaults, and why. Durability is ASYNC_FLUSH, where the page cache answers, or SYNC_FLUSH.
With `has_grpc` the broker is that of a gRPC proxy in local mode: one process, which answers
remoting clients as the broker does alone, and spares those of gRPC a second hop.
"""

import json
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from benchmarks.parts import java_servers
from benchmarks.parts.java_servers import JavaServer, heap_mib, version_of
from harness.maven import jars
from harness.node import NodeFailed
from harness.ports import free_port

CLUSTER = "bench"
GROUP = "broker-a"
START_SECONDS = 120.0
HEAP_MIB_MAX = 8192
"""What RocketMQ's own page shows for a broker."""
NAME_SERVER_HEAP_MIB = 512
PORTS_PER_BROKER = 4
"""It also listens two below its port, for VIP clients, and on one for its replicas."""

_PROXY = "org.apache.rocketmq.proxy.ProxyStartup"
_BROKER = "org.apache.rocketmq.broker.BrokerStartup"
_NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
_GC = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:-UseLargePages",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)

SETTINGS: Mapping[str, str] = {
    "flushDiskType": "ASYNC_FLUSH where the page cache answers, SYNC_FLUSH where the disk does",
    "three nodes": "controller mode, three controllers in three name servers, elected master",
    "allAckInSyncStateSet, minInSyncReplicas": "true and 2 with three nodes, as acks=all elsewhere",
    "replicas with SYNC_FLUSH": "acknowledge what they have written, before their own flush: less "
    "than the others promise, and nothing can be set to change it",
    "enableElectUncleanMaster": "false",
    "autoCreateTopicEnable": "false (advised for production)",
    "transientStorePoolEnable": "false (default): with it records lie in the heap, not the cache",
    "maxTransferCount and BytesOnMessageInMemory, InDisk": "1024 and 1 MiB, or reads would be "
    "bounded by 32 messages an answer",
    "waitTimeMillsInSendQueue": "5000 instead of 200: it would refuse at full load",
    "diskMaxUsedSpaceRatio": "95: the machine's disk is not its own",
    "gRPC": "a proxy in local mode, the broker in its process; in rows of messages alone",
    "enablePropertyFilter": "true in rows of messages: SQL filters",
    "JVM": "the options of its page on JVM and OS settings without AlwaysPreTouch, because start "
    "is measured; heap a sixth of the memory, a twelfth each for three; name server 512 MiB",
}


def why_not(*, has_grpc: bool = False) -> str | None:
    """Return why RocketMQ can not be run here, or None when it can."""
    for project in ("rocketmq", *(["rocketmq-proxy"] if has_grpc else [])):
        found = jars(project)
        if isinstance(found, str):
            return found
    if shutil.which("javac") is None:
        return "javac is not installed: its client is compiled here, a JRE is not enough"
    return java_servers.why_not()


def class_path(project: str = "rocketmq") -> str:
    """Return RocketMQ's jars as Java wants them."""
    found = jars(project)
    assert not isinstance(found, str), found
    return ":".join(str(jar) for jar in found)


def any_request() -> bytes:
    """Return a whole request that every process of RocketMQ answers, if only with a refusal."""
    fields = {"code": 26, "language": "JAVA", "version": 0, "opaque": 1, "flag": 0, "extFields": {}}
    header = json.dumps(fields).encode()
    return struct.pack(">ii", 4 + len(header), len(header)) + header


def answers(port: int, *, timeout_seconds: float = 1.0) -> bool:
    """Say whether something on `port` answers a request of RocketMQ's protocol."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            connection.sendall(any_request())
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def described() -> dict[str, str]:
    """Return version, heaps and settings, for the report."""
    found = jars("rocketmq")
    version = "none here" if isinstance(found, str) else version_of(found, "rocketmq-broker")
    heaps = [heap_mib(nodes, most_mib=HEAP_MIB_MAX) for nodes in (1, 3)]
    size = f"{heaps[0]} MiB for one node, {heaps[1]} MiB each for three"
    return {"version": version, "heap": size, **SETTINGS}


class RocketCluster:
    """One broker, or three of which one is elected master, with their name servers."""

    def __init__(self, *, nodes: int = 1, is_synced: bool = False, has_grpc: bool = False) -> None:
        """With `is_synced` a record is on the disk of every replica before it is acknowledged."""
        assert nodes == 1 or not has_grpc, "a proxy in local mode has one broker"
        self.heap_mib = heap_mib(nodes, most_mib=HEAP_MIB_MAX)
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-bench-rocketmq-"))
        ids = range(1, nodes + 1)
        self._name_ports = {one: free_port() for one in ids}
        self._controller_ports = {one: free_port() for one in ids} if nodes > 1 else {}
        self.ports = {one: free_port(PORTS_PER_BROKER) + 2 for one in ids}
        self.grpc_port = free_port() if has_grpc else 0
        self.name_servers = {one: self._name_server(one) for one in ids}
        self.brokers = {one: self._broker(one, is_synced=is_synced) for one in ids}

    @property
    def bootstrap(self) -> str:
        """The name servers, as clients want to hear them."""
        return ";".join(f"127.0.0.1:{port}" for port in self._name_ports.values())

    @property
    def controller(self) -> str:
        """One of the controllers, which knows who leads them; nothing where there are none."""
        return next((f"127.0.0.1:{port}" for port in self._controller_ports.values()), "")

    @property
    def data(self) -> list[Path]:
        """Where its logs lie."""
        return [self._directory / f"broker-{broker}" / "store" for broker in self.brokers]

    @property
    def _all(self) -> list[JavaServer]:
        return [*self.name_servers.values(), *self.brokers.values()]

    def start(self) -> float:
        """Start every process; returns the seconds until each answered its first request."""
        begun = time.perf_counter()
        for server in self.name_servers.values():
            server.launch()
        self._wait_for(self.name_servers, self._name_ports)
        for server in self.brokers.values():
            server.launch()
        self._wait_for(self.brokers, self.ports)
        return time.perf_counter() - begun

    def kill(self) -> None:
        """End every process with SIGKILL."""
        for server in self._all:
            server.kill()

    def kill_broker_at(self, address: str) -> None:
        """Kill the broker that listens there."""
        port = int(address.rpartition(":")[2])
        (broker_id,) = [one for one, own in self.ports.items() if own == port]
        self.brokers[broker_id].kill()

    def pids(self) -> list[int]:
        """Return the processes that run."""
        return [server.pid for server in self._all if server.is_running]

    def close(self) -> None:
        """End every process and remove what they wrote."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> "RocketCluster":
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

    def _name_server(self, number: int) -> JavaServer:
        settings: dict[str, object] = {"listenPort": self._name_ports[number]}
        if self._controller_ports:
            voters = [f"n{one}-127.0.0.1:{port}" for one, port in self._controller_ports.items()]
            settings |= {
                "enableControllerInNamesrv": "true",
                "controllerDLegerGroup": "controllers",
                "controllerDLegerPeers": ";".join(voters),
                "controllerDLegerSelfId": f"n{number}",
                "controllerStorePath": self._directory / f"names-{number}" / "controller",
                "enableElectUncleanMaster": "false",
                "notifyBrokerRoleChanged": "true",
            }
        return self._process(f"names-{number}", _NAME_SERVER, settings, NAME_SERVER_HEAP_MIB)

    def _broker(self, number: int, *, is_synced: bool) -> JavaServer:
        port = self.ports[number]
        store = self._directory / f"broker-{number}" / "store"
        settings: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": GROUP,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": self.bootstrap,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "flushDiskType": "SYNC_FLUSH" if is_synced else "ASYNC_FLUSH",
            "brokerRole": "ASYNC_MASTER",
            "autoCreateTopicEnable": "false",
            "maxTransferCountOnMessageInMemory": 1024,
            "maxTransferBytesOnMessageInMemory": 1 << 20,
            "maxTransferCountOnMessageInDisk": 1024,
            "maxTransferBytesOnMessageInDisk": 1 << 20,
            "waitTimeMillsInSendQueue": 5000,
            "diskMaxUsedSpaceRatio": 95,
        }
        if self._controller_ports:
            controllers = [
                f"127.0.0.1:{controller_port}"
                for controller_port in self._controller_ports.values()
            ]
            settings |= {
                "enableControllerMode": "true",
                "controllerAddr": ";".join(controllers),
                "allAckInSyncStateSet": "true",
                "minInSyncReplicas": 2,
                "totalReplicas": len(self.ports),
            }
        if not self.grpc_port:
            return self._process(f"broker-{number}", _BROKER, settings, self.heap_mib)
        return self._proxy(number, settings)

    def _proxy(self, number: int, settings: dict[str, object]) -> JavaServer:
        """A broker with the proxy for gRPC in one process."""
        name = f"broker-{number}"
        file = self._directory / "proxy.json"
        own = {
            "rocketMQClusterName": CLUSTER,
            "namesrvAddr": self.bootstrap,
            "localServeAddr": "127.0.0.1",
            "grpcServerPort": self.grpc_port,
            "remotingListenPort": free_port(),
        }
        file.write_text(json.dumps(own), encoding="utf-8")
        settings["enablePropertyFilter"] = "true"
        broker = self._process(name, _PROXY, settings, self.heap_mib, project="rocketmq-proxy")
        conf = broker.command.pop()  # the settings of the broker, which are not the proxy's
        del broker.command[-1]
        broker.command += ["-pm", "local", "-pc", str(file), "-bc", conf]
        return broker

    def _process(
        self,
        name: str,
        main: str,
        settings: Mapping[str, object],
        heap: int,
        *,
        project: str = "rocketmq",
    ) -> JavaServer:
        own = self._directory / name
        own.mkdir()
        file = own / "conf.properties"
        lines = [f"{key}={value}" for key, value in settings.items()]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        size = (f"-Xms{heap}m", f"-Xmx{heap}m", f"-Xmn{heap // 2}m")
        command = ["java", *size, *_GC, f"-Duser.home={own}", "-cp", class_path(project)]
        home = {"ROCKETMQ_HOME": str(own)}
        return JavaServer([*command, main, "-c", str(file)], own / "out.log", home)

    def _wait_for(self, servers: Mapping[int, JavaServer], ports: Mapping[int, int]) -> None:
        """Wait until each of these servers answers on its port."""
        deadline = time.monotonic() + START_SECONDS
        while not all(answers(port) for port in ports.values()):
            has_ended = not all(server.is_running for server in servers.values())
            if has_ended or time.monotonic() > deadline:
                tails = " ".join(server.log_tail(4) for server in servers.values())
                raise NodeFailed(f"RocketMQ {'ended' if has_ended else 'is silent'}: {tails}")
            time.sleep(0.02)
