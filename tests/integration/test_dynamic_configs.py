"""Brokers, groups and client metrics are configured by stock clients while nodes die.

Nobody here wrote the clients: librdkafka's admin client (confluent-kafka) and kafka-python's.
"""

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from reliability.faults.trials import QUICK_SESSIONS

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.admin as python_admin

    from kafka import KafkaAdminClient

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SECONDS = UNTIL_SECONDS
_SET_DEFAULT = ("config", "set", "broker", "default")
SMALL = "1000"
SCRUB = "log.scrub_bytes_per_second"


def own(resource: ResourceType, name: str, *edits: tuple[str, str | None]) -> ConfigResource:
    """A resource with keys to set, or to take away where the value is None."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for key, value in edits
    ]
    return ConfigResource(resource, name, incremental_configs=entries)


def alter(bootstrap: str, resource: ConfigResource) -> None:
    """Ask until it is taken: the broker that answers may have no controller for a moment."""

    def is_taken() -> bool:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        asked = admin.incremental_alter_configs([resource], request_timeout=5)
        with suppress(KafkaException):
            asked[resource].result(10)
            return True
        return False

    assert wait_until(is_taken, SECONDS)


def described(bootstrap: str, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = admin.describe_configs([asked], request_timeout=5)[
        asked
    ].result(10)
    return found


def set_default(address: str, setting: str) -> None:
    """Set it for all brokers: neither client takes the empty name, and `kafka-configs` is in
    tests/compat.
    """
    command = [sys.executable, "-m", "penstock.cli.main", *_SET_DEFAULT, setting]
    command += ["--bootstrap", address, "--timeout", str(int(SECONDS))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stderr


def comes_to(
    cluster: ClusterProcess, broker_id: int, wanted: tuple[str, int], key: str = "message.max.bytes"
) -> bool:
    """Whether a broker comes to say so of one of its settings."""
    return wait_until(lambda: told(cluster, broker_id, key) == wanted, SECONDS)


def told(cluster: ClusterProcess, broker_id: int, key: str) -> tuple[str | None, object]:
    """What a broker says of itself."""
    with suppress(KafkaException):
        entry = described(cluster.bootstrap, ResourceType.BROKER, str(broker_id))[key]
        return entry.value, entry.source
    return None, -1


def is_large_refused(address: str, topic: str) -> bool:
    """Whether whoever leads the topic refuses a batch of 3,000 bytes."""
    errors: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": address, "log_level": 0, "message.timeout.ms": 5000, "retries": 0}
    )
    producer.produce(topic, b"x" * 3000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    codes = [error.code() for error in errors if error is not None]
    return codes == [KafkaError.MSG_SIZE_TOO_LARGE]


@contextmanager
def python_client(bootstrap: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def active_node(cluster: ClusterProcess) -> int:
    return int(cluster.status()["controller"]["active_id"])


def test_what_is_set_holds_on_every_broker_through_deaths_and_restarts(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path, settings=QUICK_SESSIONS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(SECONDS)
        dead = active_node(cluster)
        living = [one for one in cluster.nodes if one != dead]
        cluster.nodes[dead].kill()

        # The controllers elect another one meanwhile; the change is made without the dead node.
        set_default(cluster.address_of(living[0]), f"message.max.bytes={SMALL}")
        for one in living:
            assert comes_to(cluster, one, (SMALL, 3))
            alter(cluster.bootstrap, own(ResourceType.BROKER, str(one), (SCRUB, "1")))
        cluster.wait_for_leader("t")
        assert wait_until(lambda: is_large_refused(cluster.bootstrap, "t"), SECONDS)

        cluster.nodes[dead].start()
        assert comes_to(cluster, dead, (SMALL, 3))
        assert wait_until(lambda: told(cluster, dead, SCRUB)[1] == 5, SECONDS)
        alter(cluster.bootstrap, own(ResourceType.BROKER, str(dead), ("message.max.bytes", "9000")))
        assert comes_to(cluster, dead, ("9000", 2))
        entry = described(cluster.bootstrap, ResourceType.BROKER, str(dead))["message.max.bytes"]
        assert [synonym.value for synonym in entry.synonyms.values()][-1] == "1048588"

        for node in cluster.nodes.values():
            node.kill()
        cluster.start()
        assert comes_to(cluster, dead, ("9000", 2))
        for one in living:
            assert comes_to(cluster, one, (SMALL, 3))
            assert comes_to(cluster, one, ("1", 2), SCRUB)
        alter(cluster.bootstrap, own(ResourceType.BROKER, str(dead), ("message.max.bytes", None)))
        assert comes_to(cluster, dead, (SMALL, 3))


def test_kafka_python_configures_all_kinds_of_resources(tmp_path: Path) -> None:
    kinds = python_admin.ConfigResourceType
    with (
        ClusterProcess(tmp_path, settings=QUICK_SESSIONS) as cluster,
        python_client(cluster.bootstrap) as client,
    ):

        def change(kind: Any, name: str, configs: dict[str, str]) -> None:
            resource = python_admin.ConfigResource(kind, name, configs)
            client.alter_configs([resource], raise_on_unknown=False)

        def value(kind: Any, name: str, key: str) -> Any:
            resource = python_admin.ConfigResource(kind, name, None)
            found = client.describe_configs([resource], config_filter="all")
            ((_, by_name),) = found.items()
            return by_name[name][key]

        wanted = [
            (kinds.BROKER, "2", "groups.group_size_max", "17"),
            (kinds.GROUP, "readers", "consumer.session.timeout.ms", "50000"),
            (kinds.CLIENT_METRICS, "all", "interval.ms", "1000"),
        ]
        for kind, name, key, text in wanted:
            change(kind, name, {key: text})
            # The broker that answers may be another one than the one that was told.
            assert wait_until(lambda: value(kind, name, key)["value"] == text, SECONDS)  # noqa: B023
        wanted_names = {"group": ["readers"], "client_metrics": ["all"], "broker": ["1", "2", "3"]}
        assert wait_until(lambda: client.list_config_resources() == wanted_names, SECONDS)
