"""Settings that change what a cluster promises, in real processes: the lease, and reads by lag."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from harness.workload import create_topic
from tests.integration.clients import acked, send, send_all
from tests.integration.layouts import FAST, SMALL, WAIT_SECONDS, run_penstock

pytestmark = pytest.mark.process

TOPIC = "settings"
LEASE_SECONDS = 1.2
CHUNK_RECORDS = 256
RECORD = b"x" * (64 << 10)


@contextlib.contextmanager
def cut_off_master(directory: Path, *, is_lease_wanted: bool) -> Iterator[str]:
    """Yield the address of a master whose controller and other member are stopped.

    Its set's policy waits for no other member.
    """
    replication = {"lease_ms": int(LEASE_SECONDS * 1000), "is_lease_wanted": is_lease_wanted}
    settings: dict[str, Mapping[str, object]] = {**FAST, "replication": replication}
    with ClusterProcess(
        directory, brokers=2, controllers=1, replicas=2, settings=settings
    ) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1)
        sets = [one for one in cluster.status()["sets"] if one["partition_count"]]
        assert len(sets) == 1
        config = next(iter(cluster.controllers.values())).config
        command = ("set", "policy", str(sets[0]["replica_set_id"]), "async-may-lose")
        code, printed = run_penstock(*command, "--config", str(config))
        assert code == 0, printed
        master = cluster.wait_for_leader(TOPIC)
        address = cluster.address_of(master)
        send_all(address, TOPIC, [b"one"])
        for peer_id, process in cluster.processes.items():
            if peer_id != master:
                process.pause()
        yield address


def is_acknowledged(address: str) -> bool:
    """Whether a record that is sent now is confirmed."""
    timing = {"request.timeout.ms": 500, "message.timeout.ms": 2_000}
    return bool(acked(send(address, TOPIC, [b"one"], settings=timing)))


def is_read(address: str, seconds: float = 1.0) -> bool:
    """Whether the first record is read within this time."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        message = consumer.poll(seconds)
        return message is not None and message.error() is None
    finally:
        consumer.close()


def test_a_cut_off_master_confirms_and_reads_nothing_once_its_lease_is_over(
    tmp_path: Path,
) -> None:
    with cut_off_master(tmp_path, is_lease_wanted=True) as address:
        assert wait_until(
            lambda: not is_acknowledged(address) and not is_read(address), WAIT_SECONDS
        )


def test_without_the_lease_a_cut_off_master_goes_on(tmp_path: Path) -> None:
    with cut_off_master(tmp_path, is_lease_wanted=False) as address:
        over = time.monotonic() + 3 * LEASE_SECONDS
        while time.monotonic() < over:
            assert acked(send(address, TOPIC, [b"one"]))
        assert is_read(address, WAIT_SECONDS)


def test_who_reads_far_behind_is_sent_to_a_slave_where_reads_go_by_lag(tmp_path: Path) -> None:
    """One percent of the machine's memory is trusted; so much is written that 0 lies behind it."""
    settings = {**SMALL, "broker": {"slave_reads": "lag", "slave_read_memory_percent": 1}}
    with ClusterProcess(tmp_path, brokers=2, replicas=2, settings=settings) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1)
        master = cluster.wait_for_leader(TOPIC)
        slave = next(node for node in cluster.nodes if node != master)
        assert _broker_read_from(cluster, _produce(cluster.bootstrap)) == master

        def is_sent_to_the_slave() -> bool:
            _produce(cluster.bootstrap)
            return _broker_read_from(cluster, 0) == slave

        assert wait_until(is_sent_to_the_slave, WAIT_SECONDS)
        assert _broker_read_from(cluster, _produce(cluster.bootstrap)) == master


def _produce(bootstrap: str) -> int:
    """Send a chunk of 16 MiB; return the offset of its last record."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for _ in range(CHUNK_RECORDS):
        producer.produce(
            TOPIC,
            RECORD,
            partition=0,
            on_delivery=lambda _, one: offsets.append(int(one.offset() or 0)),
        )
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    return max(offsets)


def _broker_read_from(cluster: ClusterProcess, offset: int) -> int:
    """Read one record; return the broker that librdkafka fetched it from in the end."""
    brokers: list[int] = []

    def on_statistics(text: str) -> None:
        partition = json.loads(text)["topics"].get(TOPIC, {}).get("partitions", {}).get("0")
        if partition:
            brokers.append(partition["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "lag",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "statistics.interval.ms": 50,
            "stats_cb": on_statistics,
            "fetch.message.max.bytes": 1 << 16,
            "queued.min.messages": 1,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        assert wait_until(lambda: consumer.poll(0.2) is not None, WAIT_SECONDS)
        seen = len(brokers)

        def has_told() -> bool:
            consumer.poll(0.05)
            return len(brokers) > seen

        assert wait_until(has_told, WAIT_SECONDS)
        return brokers[-1]
    finally:
        consumer.close()
