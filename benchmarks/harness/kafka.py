"""Apache Kafka (KRaft, one process) as a peer to measure beside, from its jars on Maven Central.

It runs with the JVM options of its own start script and its default settings: the page cache
answers. The same handles as NodeProcess and StubProcess.
"""

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from benchmarks.harness.maven import jars
from benchmarks.harness.node import NodeFailed, answers, cpu_seconds
from benchmarks.harness.ports import free_port

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_SECONDS = 60.0
_JVM = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def why_not() -> str | None:
    """Return why Kafka can not be run here, or None when it can."""
    found = jars("kafka-tools")
    return found if isinstance(found, str) else None


class KafkaProcess:
    """One Kafka broker that is its own controller."""

    def __init__(self, settings: Sequence[str] = ()) -> None:
        """`settings` are further lines of server.properties."""
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-bench-kafka-"))
        self._properties = self._directory / "server.properties"
        controller = free_port()
        lines = [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={self._directory / 'data'}",
            "offsets.topic.replication.factor=1",
            "group.initial.rebalance.delay.ms=0",
            *settings,
        ]
        self._properties.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "KafkaProcess":
        self._run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c")
        command = [*_java(), "kafka.Kafka", str(self._properties)]
        with (self._directory / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.port):
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.__exit__(None, None, None)
                raise NodeFailed("Kafka did not start")
            time.sleep(0.1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def _run_tool(self, name: str, *arguments: str) -> None:
        command = [*_java(), name, *arguments, str(self._properties)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def _java() -> list[str]:
    found = jars("kafka-tools")
    assert not isinstance(found, str), found
    return ["java", *_JVM, "-cp", ":".join(str(jar) for jar in found)]
