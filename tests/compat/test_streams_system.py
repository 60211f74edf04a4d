"""Kafka's own system tests of Kafka Streams, with the verifiers that Kafka judges itself by.

Instances are closed or killed, and so is a node, while the driver writes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.parts.java_servers import JavaServer
from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.java_programs import (
    end,
    printed,
    program,
    wait_ended,
    wait_printed,
    write_properties,
)

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]

PROJECT = "kafka-streams-tests"
PACKAGE = "org.apache.kafka.streams.tests"
NODES = 3
PARTITIONS = 5
RUNNING = "REBALANCING -> RUNNING"
SMOKE_TOPICS = (
    *("data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum"),
    *("sws-raw", "sws-suppressed", "cnt", "avg", "tagg", "fk"),
)
EOS_TOPICS = ("data", "echo", "min", "sum", "repartition", "max", "cnt")
SETTINGS: dict[str, dict[str, object]] = {
    "log": {"segment_bytes": 8 << 20, "level0_bytes": 0},
    "controller": {"session_timeout_ms": 3_000},
}

Program = Callable[..., JavaServer]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path / "cluster", brokers=NODES, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Program]:
    """Starts a class of Kafka's tests with arguments; each has a directory for its state."""
    begun: list[JavaServer] = []

    def start(name: str, main: str, *arguments: str) -> JavaServer:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        made = program(PROJECT, f"{PACKAGE}.{main}", *arguments, log=directory / "printed")
        begun.append(made)
        made.launch()
        return made

    yield start
    for one in begun:
        one.kill()


def create(cluster: ClusterProcess, topics: Sequence[str], partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    made = admin.create_topics([NewTopic(topic, partitions, NODES) for topic in topics])
    for future in made.values():
        future.result(UNTIL_SECONDS)


def settings_file(directory: Path, bootstrap: str) -> str:
    """Write the settings of one instance, whose silence is noticed after 6 s."""
    directory.mkdir(exist_ok=True)
    values = {
        "bootstrap.servers": bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": directory / "state",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_500,
    }
    file = directory / "streams.properties"
    write_properties(file, values)
    return str(file)


@pytest.mark.parametrize("leave", [end, JavaServer.kill], ids=["closed", "killed"])
def test_streams_smoke_test(
    cluster: ClusterProcess, start: Program, tmp_path: Path, leave: Callable[[JavaServer], None]
) -> None:
    create(cluster, SMOKE_TOPICS)
    driver_settings = settings_file(tmp_path / "driver", cluster.bootstrap)
    processor: JavaServer | None = None
    driver: JavaServer | None = None
    for number in range(3):
        name = f"processor-{number}"
        settings = settings_file(tmp_path / name, cluster.bootstrap)
        if processor is not None:
            leave(processor)
        processor = start(name, "StreamsSmokeTest", settings, "process")
        position = wait_printed(processor, RUNNING)
        if driver is None:
            driver = start("driver", "StreamsSmokeTest", driver_settings, "run")
        wait_printed(processor, "processed", after=position)
        if number == 1:
            cluster.nodes[cluster.wait_for_leader("data")].restart()
    assert driver is not None
    assert "Result Verification" not in printed(driver), "all was done before the last began"
    wait_ended(driver)
    assert "SUCCESS" in printed(driver), driver.log_tail(60)


@pytest.mark.parametrize("topology", ["process", "process-complex"])
def test_streams_eos_test(
    cluster: ClusterProcess, start: Program, tmp_path: Path, topology: str
) -> None:
    create(cluster, EOS_TOPICS)
    files = [settings_file(tmp_path / f"one-{n}", cluster.bootstrap) for n in range(3)]
    driver = start("driver", "StreamsEosTest", files[0], "run")
    ones = [start(f"one-{n}", "StreamsEosTest", file, topology) for n, file in enumerate(files)]
    for one in ones:
        wait_printed(one, "processed", after=wait_printed(one, RUNNING))
    for victim in ones:
        victim.kill()
        before = len(printed(victim))
        victim.launch()
        wait_printed(victim, "processed", after=wait_printed(victim, RUNNING, after=before))
    cluster.nodes[cluster.wait_for_leader("data")].restart()
    inputs = ("data",) if topology == "process" else ("data", "repartition")
    wait_committed(cluster, inputs)
    end(driver)
    for one in ones:
        end(one)
    verify = topology.replace("process", "verify")
    verifier = start("verifier", "StreamsEosTest", files[0], verify)
    wait_ended(verifier)
    assert "ALL-RECORDS-DELIVERED" in printed(verifier), verifier.log_tail(60)


def wait_committed(cluster: ClusterProcess, topics: Sequence[str]) -> None:
    """Wait until the application has committed a position in each partition of its input.

    Kafka's verifier takes for granted that it has.
    """
    group = {"bootstrap.servers": cluster.bootstrap, "group.id": "EosTest"}
    asked = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    with closing(Consumer(group)) as consumer:

        def has_all() -> bool:
            found = consumer.committed([*asked], timeout=UNTIL_SECONDS)
            return all(one.offset >= 0 for one in found)

        assert wait_until(has_all, UNTIL_SECONDS, every_seconds=0.5)


def test_relational_smoke_test(cluster: ClusterProcess, start: Program, tmp_path: Path) -> None:
    create(cluster, ("in-article", "out-augmented-article"), 3)
    create(cluster, ("in-comment", "out-augmented-comment"))
    main, bootstrap = "RelationalSmokeTest", cluster.bootstrap

    def application(name: str, protocol: str) -> JavaServer:
        """Start one; each is an application of its own, and all do the same."""
        guarantee, state = "exactly_once_v2", str(tmp_path / f"state-{name}")
        made = start(name, main, "application", bootstrap, name, guarantee, protocol, state)
        wait_printed(made, "Streams has started")
        return made

    first, second = application("first", "classic"), application("second", "streams")
    driver = start("driver", main, "driver", bootstrap)
    first.kill()
    application("third", "streams")
    cluster.nodes[cluster.wait_for_leader("in-comment")].restart()
    end(second)
    wait_ended(driver)
    assert "Smoke test complete: passed" in printed(driver), driver.log_tail(60)
