"""Load for RocketMQ by its own Java client, since nothing else speaks to it.

One client process serves a server from its start to its end and takes commands on its standard
input (benchmarks/native/RocketLoad.java), so that its compiler is warm when it counts. It has the
same methods as `KafkaLoad`; its clock is the one this process measures by.
"""

import contextlib
import functools
import itertools
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.parts import rocketmq
from benchmarks.parts.broker import Broker
from benchmarks.parts.native import SOURCES, LoadFailed
from benchmarks.peers.failover import ACKS_BEFORE, FAILOVER_SECONDS_MAX
from benchmarks.peers.model import CanNotRun

ANSWER_SECONDS = 300.0
PARTITIONS_PER_TOPIC = 1_000
_JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-Duser.language=en", "-Duser.country=US")

_numbers = itertools.count()


class RocketLoad:
    """What can be done to a RocketMQ cluster; the client starts with the first command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def command(self, bootstrap: str, *words: object) -> dict[str, Any]:
        """Send one command and return its answer. Raises LoadFailed."""
        process = self._client(bootstrap)
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(ANSWER_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(" ".join(str(word) for word in words) + "\n")
            process.stdin.flush()
            answers = (line[1:] for line in process.stdout if line.startswith("@"))
            found: dict[str, Any] = json.loads(next(answers, '{"error": "the client ended"}'))
        except BrokenPipeError as error:
            raise LoadFailed(f"{words}: the client is gone") from error
        finally:
            timer.cancel()
        if "error" in found:
            raise LoadFailed(f"{' '.join(map(str, words))}: {found['error']}")
        return found

    def close(self) -> None:
        """End the client."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _client(self, bootstrap: str) -> "subprocess.Popen[str]":
        if self._process is None:
            home = str(compiled())
            class_path = f"{home}:{rocketmq.class_path()}"
            command = ["java", *_JVM, f"-Duser.home={home}", "-cp", class_path, "RocketLoad"]
            self._process = subprocess.Popen(
                [*command, bootstrap, rocketmq.CLUSTER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process

    def await_whole(self, bootstrap: str, brokers: int, controller: str) -> None:
        """Wait until so many brokers are registered, one is master, and all are in its set."""
        self.command(bootstrap, "await", brokers, controller)

    def create(self, bootstrap: str, name: str, partitions: int) -> None:
        """Create a topic of so many queues."""
        self.command(bootstrap, "create", name, partitions)

    def create_many(self, bootstrap: str, partitions: int, *, prefix: str) -> list[tuple[str, int]]:
        """Create topics that hold so many queues together; returns names and counts."""
        topics: list[tuple[str, int]] = []
        while partitions > 0:
            count = min(PARTITIONS_PER_TOPIC, partitions)
            topics.append((f"{prefix}-{len(topics)}", count))
            self.create(bootstrap, *topics[-1])
            partitions -= count
        return topics

    def create_led_by_one(self, bootstrap: str, partitions: int) -> str:
        """All queues of a broker group are its master's; returns the first topic's name.

        A slave that becomes master before it has copied the list of topics refuses them for ever.
        """
        topics = self.create_many(bootstrap, partitions, prefix="led")
        self.command(bootstrap, "everywhere", topics[-1][0])
        return topics[0][0]

    @contextlib.contextmanager
    def topic(self, bootstrap: str, partitions: int = 1) -> Iterator[str]:
        """Yield a new topic that is deleted afterwards."""
        name = f"bench-{next(_numbers)}"
        self.create(bootstrap, name, partitions)
        try:
            yield name
        finally:
            with contextlib.suppress(LoadFailed):
                self.command(bootstrap, "delete", name)

    def produce(
        self, bootstrap: str, topic: str, how: Sequence[object], *, seconds_max: float = 0.0
    ) -> dict[str, Any]:
        """Write, all of it; the codec is left out, because the client compresses no batches."""
        del seconds_max  # it was never this slow
        partitions, value, batch, _, total = how
        return self.command(bootstrap, "produce", topic, partitions, value, batch, total)

    def consume(self, bootstrap: str, topic: str, partitions: int, total: int) -> dict[str, Any]:
        """Read so many bytes from the beginning of every queue."""
        del partitions
        return self.command(bootstrap, "consume", topic, total)

    def latency(self, bootstrap: str, topic: str, how: Sequence[int]) -> dict[str, Any]:
        """Write one record at a time on an open schedule; `how` is bytes, records/s, seconds."""
        return self.command(bootstrap, "latency", topic, *how)

    def storm(
        self, server: Broker, connections: int, in_flight: int, seconds: int
    ) -> dict[str, Any]:
        """Send one record a request; at most four connections share what is on its way."""
        with self.topic(server.bootstrap) as topic:
            before = server.cpu_seconds()
            words = ("small", topic, connections, in_flight, seconds)
            found = self.command(server.bootstrap, *words)
            used = server.cpu_seconds() - before
        found["per_second"] = found["requests"] / found["seconds"]
        found["cpu_us"] = used / found["requests"] * 1e6
        return found

    def first_record(self, bootstrap: str, topic: str) -> None:
        """Write one record, and return when it is acknowledged."""
        self.command(bootstrap, "first", topic)

    def steady_writer(self, bootstrap: str, topic: str) -> "RocketWriter":
        """Return a writer that is started by `with`."""
        return RocketWriter(self, bootstrap, topic)


class RocketWriter:
    """The counterpart of `SteadyWriter`: the client writes, this asks it what was acknowledged."""

    def __init__(self, load: RocketLoad, bootstrap: str, topic: str) -> None:
        self.acked_at: list[float] = []
        self._load, self._bootstrap, self._topic = load, bootstrap, topic

    def wait_for_acks(self, *, sent_after: float | None = None) -> None:
        """Wait until the writes flow; with `sent_after`, those of records sent after that time."""
        deadline = time.monotonic() + FAILOVER_SECONDS_MAX
        while time.monotonic() < deadline:
            acks = self._load.command(self._bootstrap, "acks")["acks"]
            self.acked_at = [acked for _, acked in acks]
            if sent_after is None and len(acks) >= ACKS_BEFORE:
                return
            if sent_after is not None and any(sent > sent_after for sent, _ in acks):
                return
            time.sleep(0.2)
        raise CanNotRun(f"no write was acknowledged for {FAILOVER_SECONDS_MAX:.0f} s")

    def __enter__(self) -> "RocketWriter":
        self._load.command(self._bootstrap, "writer", self._topic)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(LoadFailed):
            self._load.command(self._bootstrap, "stop")


@functools.cache
def compiled() -> Path:
    """Compile the client; returns the directory of its classes."""
    holder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
    _KEEP.append(holder)
    command = ["javac", "-proc:none", "-d", holder.name, "-cp", rocketmq.class_path()]
    command.append(str(SOURCES / "RocketLoad.java"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise CanNotRun(f"RocketLoad.java does not compile: {done.stderr[-300:]}")
    return Path(holder.name)


_KEEP: list[tempfile.TemporaryDirectory[str]] = []
