"""Load in the Kafka protocol, the same for Penstock, Kafka and the stub.

Throughput and latency by librdkafka in C; the latency schedule is open, so a record counts from
when it was due. Topics are made and removed by the Python binding of the same library.
"""

import contextlib
import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from benchmarks.parts.broker import Broker
from benchmarks.parts.native import NOTHING, LoadFailed, compiled, librdkafka, run
from benchmarks.peers.failover import SteadyWriter
from benchmarks.peers.model import CanNotRun
from benchmarks.peers.share_load import share_consume
from benchmarks.small_requests import produce_request

CREATE_SECONDS = 240.0
PARTITIONS_PER_TOPIC = 1_000
"""More are spread over several topics: Kafka refuses to create 10,000 at once."""
FIRST_RECORD_SECONDS = 120.0
SMALL_VALUE_BYTES = 100
KEYED_SECONDS = 240.0
"""Longer than any server takes: a part of the keys would be a load of another kind."""
Configs = Mapping[str, str]
NO_CONFIGS: Configs = MappingProxyType({})

_numbers = itertools.count()


class KafkaLoad:
    """What can be done to a server that speaks Kafka's protocol."""

    def __init__(self, *, acks: str, client: Mapping[str, object] = NOTHING) -> None:
        """`acks` as Kafka's clients call it: `1`, or `all` where there are replicas.

        `client` is how librdkafka comes in, where that is not by plain text.
        """
        self.acks = acks
        self._client = client

    def create(
        self, bootstrap: str, name: str, partitions: int, configs: Configs = NO_CONFIGS
    ) -> None:
        """Create a topic; returns when every partition has a leader. Raises CanNotRun."""
        admin = self._admin(bootstrap)
        try:
            topic = NewTopic(name, partitions, -1, config=dict(configs))
            made = admin.create_topics([topic], operation_timeout=60, request_timeout=120)
            made[name].result(CREATE_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise CanNotRun(f"no topic of {partitions} partitions: {error}") from error
        self._wait_led(admin, name, partitions)

    def create_led_by_one(self, bootstrap: str, partitions: int) -> str:
        """Create topics whose partitions are all led by one broker; returns the first's name."""
        admin = self._admin(bootstrap)
        brokers = sorted(admin.list_topics(timeout=30).brokers)
        placed = 0
        while placed < partitions:
            count = min(PARTITIONS_PER_TOPIC, partitions - placed)
            name = f"led-{placed}"
            topic = NewTopic(name, count, replica_assignment=[brokers] * count)
            try:
                made = admin.create_topics([topic], operation_timeout=60, request_timeout=120)
                made[name].result(CREATE_SECONDS)
            except KafkaException as error:
                raise CanNotRun(f"no topic of {count} placed partitions: {error}") from error
            self._wait_led(admin, name, count)
            placed += count
        return "led-0"

    def create_many(self, bootstrap: str, partitions: int, *, prefix: str) -> list[tuple[str, int]]:
        """Create topics that hold so many partitions together; returns names and counts."""
        topics: list[tuple[str, int]] = []
        while partitions > 0:
            count = min(PARTITIONS_PER_TOPIC, partitions)
            topics.append((f"{prefix}-{len(topics)}", count))
            self.create(bootstrap, *topics[-1])
            partitions -= count
        return topics

    def alter(self, bootstrap: str, name: str, configs: Configs) -> None:
        """Change the configuration of a topic. Raises KafkaException."""
        changes = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        topic = ConfigResource(
            ConfigResource.Type.TOPIC, name, set_config=None, incremental_configs=changes
        )
        admin = self._admin(bootstrap)  # held until the answer: it comes to nobody else
        admin.incremental_alter_configs([topic])[topic].result(30)

    @contextlib.contextmanager
    def topic(
        self, bootstrap: str, partitions: int = 1, configs: Configs = NO_CONFIGS
    ) -> Iterator[str]:
        """Yield a new topic that is deleted afterwards."""
        name = f"bench-{next(_numbers)}"
        self.create(bootstrap, name, partitions, configs)
        try:
            yield name
        finally:
            admin = self._admin(bootstrap)  # held until the answer: it comes to nobody else
            with contextlib.suppress(KafkaException):
                admin.delete_topics([name])[name].result(30)

    def produce(
        self, bootstrap: str, topic: str, how: Sequence[object], *, seconds_max: float = 0.0
    ) -> dict[str, Any]:
        """Write; `how` is partitions, bytes a value, bytes a batch, codec and bytes in all.

        With `seconds_max` what is acknowledged by then counts, and the rest is abandoned.
        """
        *shape, total = how
        limit = (seconds_max,) if seconds_max else ()
        how = (*shape, self.acks, total, *limit)
        return librdkafka("produce", bootstrap, topic, *how, settings=self._client)

    def produce_keyed(self, bootstrap: str, topic: str, how: Sequence[object]) -> int:
        """Write to one partition, with keys (see parts/keys.py); returns how many records.

        `how` is bytes a value, bytes a batch, codec, bytes in all, and how many keys there are.
        """
        *shape, total, keys = how
        how = (1, *shape, self.acks, total, KEYED_SECONDS, keys, 0)
        told = librdkafka("produce", bootstrap, topic, *how, settings=self._client)
        return int(told["records"]) + 1  # the one that opens the connection is not counted

    def consume(self, bootstrap: str, topic: str, partitions: int, total: int) -> dict[str, Any]:
        """Read so many bytes from the beginning of every partition."""
        how = (partitions, total)
        return librdkafka("consume", bootstrap, topic, *how, settings=self._client)

    def share_consume(self, bootstrap: str, topic: str, records: int) -> float:
        """Have Kafka's own tool read as a share group's one member; returns records per second.

        Raises CanNotRun.
        """
        return share_consume(bootstrap, topic, records)

    def latency(self, bootstrap: str, topic: str, how: Sequence[int]) -> dict[str, Any]:
        """Write one record at a time on an open schedule; `how` is bytes, records/s, seconds."""
        return librdkafka("latency", bootstrap, topic, *how, self.acks, settings=self._client)

    def transactions(self, bootstrap: str, topic: str, how: Sequence[int]) -> dict[str, Any]:
        """Commit one after the other; `how` is partitions, bytes, records each, and seconds."""
        return librdkafka("transactions", bootstrap, topic, *how, settings=self._client)

    def rebalance(
        self, bootstrap: str, topic: str, partitions: int, members: int, protocol: str
    ) -> dict[str, Any]:
        """Form a group of librdkafka's consumers, add a member, take it away; seconds of each."""
        return run("librdkafka_group", bootstrap, topic, partitions, members, protocol)

    def storm(
        self, server: Broker, connections: int, in_flight: int, seconds: int
    ) -> dict[str, Any]:
        """Send prepared requests of one record over many connections, as fast as answers come."""
        with self.topic(server.bootstrap) as topic, tempfile.TemporaryDirectory() as scratch:
            self.first_record(server.bootstrap, topic)  # or the first requests would be refused
            frame = Path(scratch) / "frame"
            frame.write_bytes(produce_request(topic, b"x" * SMALL_VALUE_BYTES))
            command = [str(compiled("request_storm")), *server.bootstrap.split(":"), str(frame)]
            error_at = 4 + 4 + 2 + len(topic) + 4 + 4
            command += [str(one) for one in (connections, in_flight, seconds, error_at)]
            found, used = _stormed(command, server)
        found["per_second"] = found["requests"] / found["seconds"]
        found["cpu_us"] = used / found["requests"] * 1e6
        return found

    def steady_writer(self, bootstrap: str, topic: str) -> SteadyWriter:
        """Return a writer that is started by `with`."""
        return SteadyWriter(bootstrap, topic, acks=self.acks)

    def first_record(self, bootstrap: str, topic: str) -> None:
        """Write one record, and return when it is acknowledged. Raises CanNotRun."""
        errors: list[object] = []
        settings: dict[str, Any] = {
            **self._client,
            "bootstrap.servers": bootstrap,
            "acks": self.acks,
            "linger.ms": 0,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.produce(topic, b"first", partition=0, on_delivery=lambda e, _: errors.append(e))
        if producer.flush(FIRST_RECORD_SECONDS) or errors != [None]:
            raise CanNotRun(f"no record was taken in {FIRST_RECORD_SECONDS:.0f} s: {errors}")

    def leader_of(self, bootstrap: str, topic: str) -> int:
        """Return the broker that leads partition 0."""
        found = self._admin(bootstrap).list_topics(topic, timeout=30).topics[topic].partitions
        return int(found[0].leader)

    def _admin(self, bootstrap: str) -> AdminClient:
        settings: dict[str, Any] = {**self._client, "bootstrap.servers": bootstrap, "log_level": 0}
        return AdminClient(settings)

    def _wait_led(self, admin: AdminClient, name: str, partitions: int) -> None:
        deadline = time.monotonic() + CREATE_SECONDS
        while not self._is_led(admin, name, partitions):
            if time.monotonic() > deadline:
                raise CanNotRun(f"{name} of {partitions} partitions has no leaders")
            time.sleep(0.1)

    def _is_led(self, admin: AdminClient, name: str, partitions: int) -> bool:
        found = admin.list_topics(name, timeout=30).topics[name].partitions
        return len(found) == partitions and all(one.leader >= 0 for one in found.values())


def _stormed(command: Sequence[str], server: Broker) -> tuple[dict[str, Any], float]:
    """Run the storm; returns what it counted and the server's CPU seconds meanwhile."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        client.stdout.readline()  # it has warmed up
        before = server.cpu_seconds()
        line = client.stdout.readline()
        used = server.cpu_seconds() - before
    if client.returncode != 0:
        raise LoadFailed(f"request_storm: {line or 'no answer'}")
    found: dict[str, Any] = json.loads(line)
    return found, used


class PenstockLoad(KafkaLoad):
    """A set's master leads all of its partitions, and every node is master of one set."""

    def create_led_by_one(self, bootstrap: str, partitions: int) -> str:
        brokers = len(self._admin(bootstrap).list_topics(timeout=30).brokers)
        return self.create_many(bootstrap, partitions * brokers, prefix="led")[0][0]


class StubLoad(KafkaLoad):
    """The mock broker has every topic that it is asked for, with four partitions."""

    def create(
        self, bootstrap: str, name: str, partitions: int, configs: Configs = NO_CONFIGS
    ) -> None:
        del bootstrap, name, partitions, configs

    @contextlib.contextmanager
    def topic(
        self, bootstrap: str, partitions: int = 1, configs: Configs = NO_CONFIGS
    ) -> Iterator[str]:
        del bootstrap, partitions, configs
        yield "stub"
