"""Load for RocketMQ by its own Java client, since nothing else speaks to it.

One client process serves a server from its start to its end and takes commands on its standard
input (benchmarks/native/RocketLoad.java), so that its compiler is warm when it counts. It has the
same methods as `KafkaLoad`; its clock is the one this process measures by.
"""

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from benchmarks.parts import rocketmq
from benchmarks.parts.broker import Broker
from benchmarks.parts.native import LoadFailed
from benchmarks.peers.failover import ACKS_BEFORE, FAILOVER_SECONDS_MAX
from benchmarks.peers.java_client import JavaClient
from benchmarks.peers.model import CanNotRun

PARTITIONS_PER_TOPIC = 1_000
HEAP_MIB = 1_024

_numbers = itertools.count()


class RocketLoad:
    """What can be done to a RocketMQ cluster; the client starts with the first command."""

    def __init__(self) -> None:
        self._client: JavaClient | None = None

    def command(self, bootstrap: str, *words: object) -> dict[str, Any]:
        """Send one command and return its answer. Raises LoadFailed."""
        if self._client is None:
            arguments = (bootstrap, rocketmq.CLUSTER)
            sources = ("RocketLoad.java",)
            self._client = JavaClient(sources, rocketmq.class_path(), arguments, heap_mib=HEAP_MIB)
        return self._client.command(*words)

    def close(self) -> None:
        """End the client."""
        if self._client is not None:
            self._client.close()
            self._client = None

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
