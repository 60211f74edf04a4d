"""A cluster over mutual TLS whose consumers read in their own rack (KIP-392)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.waiting import wait_until
from harness.workload import create_topic
from tests.integration.certificates import Authority, why_no_openssl
from tests.integration.clients import send_all
from tests.integration.layouts import SMALL, WAIT_SECONDS, Layout, run_penstock

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(why_no_openssl() is not None, reason=str(why_no_openssl())),
]

RACKS = {1: "north", 2: "south", 3: "east"}
VALUES = [b"%d" % number for number in range(50)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def authority(directory: Path) -> Authority:
    return Authority(directory / "own-authority")


@pytest.fixture(scope="module")
def layout(directory: Path, authority: Authority) -> Iterator[Layout]:
    with Layout(directory, SMALL) as made:
        for peer_id, rack in RACKS.items():
            settings: dict[str, dict[str, object]] = {
                "node": {"rack": rack},
                "broker": {"slave_reads": "rack"},
                "cluster": authority.issue(f"node-{peer_id}"),
            }
            made.add(peer_id, voters=(1, 2, 3), replicas=3, settings=settings).launch()
        for node in made.nodes.values():
            node.wait_ready()
        create_topic(made.bootstrap, "in-racks", 1)
        send_all(made.bootstrap, "in-racks", VALUES)
        yield made


def test_members_get_in_step_over_mutual_tls_and_operators_come_in(layout: Layout) -> None:
    layout.wait_in_step(1, [1, 2, 3], via=2)
    assert layout.do("controller", "status", via=3).count("replicate") == 2


@pytest.mark.parametrize("rack", ["north", "south", "east"])
def test_a_consumer_reads_from_the_member_in_its_rack(layout: Layout, rack: str) -> None:
    near = next(peer_id for peer_id, name in RACKS.items() if name == rack)
    # A member is read from once it is in step.
    assert wait_until(
        lambda: _broker_read_from(layout, {"client.rack": rack}) == near, WAIT_SECONDS
    )


def test_a_consumer_that_names_no_rack_reads_from_the_master(layout: Layout) -> None:

    def is_read_from_the_master() -> bool:
        return bool(_broker_read_from(layout, {}) == layout.replica_set(1, via=1)["master"])

    assert wait_until(is_read_from_the_master, WAIT_SECONDS)  # the mastership may move once


def _broker_read_from(layout: Layout, settings: dict[str, object]) -> int:
    """Read everything; return the broker that librdkafka fetched from in the end."""
    brokers: list[int] = []

    def on_statistics(text: str) -> None:
        partition = json.loads(text)["topics"].get("in-racks", {}).get("partitions", {}).get("0")
        if partition:
            brokers.append(partition["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": layout.bootstrap,
            "group.id": "racks",
            "enable.auto.commit": False,
            "statistics.interval.ms": 100,
            "stats_cb": on_statistics,
            "log_level": 0,
            **settings,
        }
    )
    try:
        consumer.assign([TopicPartition("in-racks", 0, 0)])
        values: list[bytes] = []

        def is_all_read() -> bool:
            found = [one for one in consumer.consume(50, 0.2) if one.error() is None]
            values.extend(one.value() or b"" for one in found)
            return len(values) == len(VALUES)

        wait_until(is_all_read, WAIT_SECONDS)
        assert values == VALUES
        seen = len(brokers)
        assert wait_until(lambda: consumer.poll(0.1) is None and len(brokers) > seen, WAIT_SECONDS)
        return brokers[-1]
    finally:
        consumer.close()


@pytest.mark.parametrize("wrong", ["certificate", "secret"])
def test_a_stranger_is_refused_with_one_clear_line(
    layout: Layout, authority: Authority, directory: Path, wrong: str
) -> None:
    """A process that does not belong here, and an operator's command with its settings."""
    peer_id = {"certificate": 8, "secret": 9}[wrong]
    own = authority.issue(f"stranger-{wrong}")
    if wrong == "certificate":
        own = Authority(directory / "foreign-authority").issue("stranger")
    else:
        secret = directory / "other.secret"
        secret.write_text("not the secret of this cluster")
        secret.chmod(0o600)
        own["secret_file"] = str(secret)
    stranger = layout.add(
        peer_id, voters=(1, 2, 3), settings={"cluster": {**own, "start_timeout_ms": 1000}}
    )
    del layout.nodes[peer_id]
    with stranger:
        # It serves without the cluster after a second, whoever has answered by then.
        assert wait_until(lambda: wrong in stranger.log_file.read_text(), WAIT_SECONDS)
        warnings = stranger.log_file.read_text()
        code, printed = run_penstock("cluster", "status", "--config", str(stranger.config))
    assert "Traceback" not in warnings
    assert (code, printed.count("\n")) == (1, 1), printed
    assert wrong in printed
    brokers = {one["broker_id"] for one in layout.status(1)["brokers"]}
    assert brokers == set(RACKS)
