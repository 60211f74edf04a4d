"""docs/operations/closing.md is done, command by command, to three nodes that are in use.

Blocks of the page are marked by a word behind the language: `once` is run in the directory with the
certificates, `each` at every node in turn, `begin` is how the nodes were started, `refused` fails;
others are files of that name. What differs from the page are addresses: machine k is 127.0.0.k,
with ports of its own, and certificates name an address instead of a host.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Partition

from harness.cluster import ClusterProcess
from harness.failover import is_whole
from harness.node import NodeProcess, Place, is_ready
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.cli.launch.node_files import settings_toml

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(900),
    *(
        pytest.mark.skipif(shutil.which(tool) is None, reason=f"needs {tool}")
        for tool in ("openssl", "curl", "bash")
    ),
]
PAGE = Path(__file__).parents[2] / "docs" / "operations" / "closing.md"
BLOCK = re.compile(r"```(\w+) (\S+)\n(.*?)```", re.DOTALL)
RESTART = "systemctl restart penstock"
PARTITIONS = 3
DELIVERY_MS = 60_000
"""A record that is not acknowledged within it counts as lost."""
RECORDS_PER_SECOND = 200
Settings = dict[str, Any]


class Block(NamedTuple):
    """A block of the page that is to be done."""

    language: str
    mark: str
    text: str


class Load:
    """A client of the topic: it writes numbers, and a member of the group reads them."""

    def __init__(self, settings: Settings) -> None:
        self.acknowledged: set[bytes] = set()
        self.read: set[bytes] = set()
        self.problems: list[str] = []
        self._sent = 0
        self._settings = settings
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.start(settings)

    def start(self, settings: Settings) -> None:
        """Begin, or begin again after `stop`, with these settings."""
        self._settings = settings
        self._is_over.clear()
        self._threads = [threading.Thread(target=work) for work in (self._write, self._consume)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both clients in good order."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(2 * UNTIL_SECONDS)
            assert not thread.is_alive()

    def _write(self) -> None:
        producer = Producer(
            self._settings | {"enable.idempotence": True, "delivery.timeout.ms": DELIVERY_MS}
        )
        while not self._is_over.wait(1 / RECORDS_PER_SECOND):
            self._sent += 1
            producer.produce("orders", b"%d" % self._sent, on_delivery=self._note)
            producer.poll(0)
        assert producer.flush(2 * DELIVERY_MS / 1000) == 0

    def _note(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.problems.append(f"not written: {error}")

    def _consume(self) -> None:
        group = {"group.id": "billing", "auto.offset.reset": "earliest"}
        consumer = Consumer(self._settings | group)
        consumer.subscribe(["orders"])
        while not self._is_over.is_set():
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.read.add(message.value() or b"")
            elif error.code() in {
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.GROUP_AUTHORIZATION_FAILED,
            }:
                self.problems.append(f"not read: {error}")
        consumer.close()


class Closing:
    """The cluster, the operator's directory, and what the page has done so far."""

    def __init__(self, directory: Path) -> None:
        self.cluster = ClusterProcess(
            directory / "cluster", place_of=lambda broker_id: Place(f"127.0.0.{broker_id}")
        )
        self.operators = directory / "operator"
        self.operators.mkdir()
        self.secure_ports = {broker_id: free_port() for broker_id in self.cluster.nodes}
        self._exports: list[str] = []
        self.said = ""
        """What a client without a password is told in the end."""

    @property
    def secure(self) -> str:
        """Addresses of the closed listener."""
        return ",".join(f"127.0.0.{one}:{port}" for one, port in self.secure_ports.items())

    # --- blocks --------------------------------------------------------------------------------

    def do(self, mark: str, text: str) -> None:
        """Run a block of commands."""
        match mark:
            case "each":
                self.each(text)
            case "once":
                self.once(text)
            case "refused":
                self.said = self.refused(text)
            case _:
                raise AssertionError(mark)

    def once(self, text: str) -> None:
        """Run commands in the operator's directory."""
        self._run(self._once_here(text))
        if "penstock user list" in text:
            self.delete_first_users()

    def refused(self, text: str) -> str:
        """Run a command that has to fail; return what it says."""
        done = self._bash(self._once_here(text))
        assert done.returncode != 0, done.stdout
        return done.stderr

    def each(self, text: str) -> None:
        """Run commands at each node in turn; a restart is over when the cluster is whole again."""
        for broker_id, node in self.cluster.nodes.items():
            before, restart, after = self._here(text, broker_id).partition(RESTART)
            self._run(before)
            if restart:
                assert node.stop() == 0
                node.launch()
                is_back = partial(self._is_back, node)
                assert wait_until(is_back, UNTIL_SECONDS), node.log_tail()
            self._run(after)

    def merge(self, text: str) -> None:
        """Add settings to the file of each node."""
        for broker_id, node in self.cluster.nodes.items():
            self.change(node, tomllib.loads(self._here(text, broker_id)))

    def change(self, node: NodeProcess, settings: Mapping[str, Mapping[str, object]]) -> None:
        """Put settings into a node's file; those that are None are taken out."""
        whole = tomllib.loads(node.config.read_text())
        for section, values in settings.items():
            merged = whole.get(section, {}) | values
            whole[section] = {key: value for key, value in merged.items() if value is not None}
        node.config.write_text(settings_toml(whole))

    def _is_back(self, node: NodeProcess) -> bool:
        is_up = is_ready(node.metrics_port, host=node.place.address)
        return is_up and is_whole(self.cluster)

    # --- how a block is done -------------------------------------------------------------------

    def _once_here(self, text: str) -> str:
        text = text.replace("subjectAltName=DNS:", "subjectAltName=IP:")
        for broker_id, node in self.cluster.nodes.items():
            name, address = f"log-{broker_id}.example.net", f"127.0.0.{broker_id}"
            text = text.replace(f"{name}:9095", f"{address}:{self.secure_ports[broker_id]}")
            text = text.replace(f"{name}:9092", f"{address}:{node.port}").replace(name, address)
        assert "example.net" not in text
        return text

    def _here(self, text: str, broker_id: int) -> str:
        """Return what stands on the page for the first machine, or for every one, for this one."""
        node, address = self.cluster.nodes[broker_id], f"127.0.0.{broker_id}"
        text = text.replace("127.0.0.1:9404", f"{address}:{node.metrics_port}")
        text = text.replace("0.0.0.0", address).replace("log-1.example.net", address)
        text = text.replace(":9095", f":{self.secure_ports[broker_id]}")
        return text.replace("/etc/penstock", str(node.directory))

    def _run(self, text: str) -> str:
        done = self._bash(text)
        assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
        self._exports += [line for line in text.splitlines() if line.startswith("export ")]
        return done.stdout

    def _bash(self, text: str) -> subprocess.CompletedProcess[str]:
        script = "\n".join(("set -e", *self._exports, text))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", script], cwd=self.operators, env={**os.environ, "PATH": path},
            capture_output=True, text=True, check=False, timeout=2 * UNTIL_SECONDS,
        )  # fmt: skip

    # --- what the page says in words -----------------------------------------------------------

    def copy_certificates(self) -> None:
        """Copy each node its certificate, and node 1 the first user."""
        for broker_id, node in self.cluster.nodes.items():
            for kind in ("pem", "key"):
                target = node.directory / f"tls.{kind}"
                shutil.copy(self.operators / f"127.0.0.{broker_id}.{kind}", target)
                target.chmod(0o600)
        first = self.cluster.nodes[1]
        shutil.copy(self.operators / "first-users", first.directory / "first-users")
        (first.directory / "first-users").chmod(0o600)
        self.change(first, {"security": {"scram_first_users_file": "first-users"}})

    def delete_first_users(self) -> None:
        """Delete the file with the first user, and the line that names it."""
        first = self.cluster.nodes[1]
        (first.directory / "first-users").unlink()
        self.change(first, {"security": {"scram_first_users_file": None}})

    def password(self, user: str) -> str:
        """Return a password as the page has made it."""
        if user == "admin":
            return (self.operators / "first-users").read_text().strip().partition(":")[2]
        return (self.operators / f"{user}.password").read_text().strip()

    def write(self, name: str, text: str) -> None:
        """Write a file of the operator's."""
        password = self.password(name.partition(".")[0])
        (self.operators / name).write_text(text.replace("PASSWORD", password))

    def client(self, name: str) -> Settings:
        """Return a properties file as librdkafka's settings, at the closed listener."""
        lines = (self.operators / name).read_text().splitlines()
        found: Settings = dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines)
        found["ssl.ca.location"] = str(self.operators / found["ssl.ca.location"])
        return found | {"bootstrap.servers": self.secure, "log_level": 0}


def blocks() -> Iterator[Block]:
    """Yield the blocks of the page that are marked."""
    text = PAGE.read_text(encoding="utf-8")
    found = [Block(*match.groups()) for match in BLOCK.finditer(text)]
    assert len(found) == text.count("```") // 2, "a block of the page has no mark"
    yield from found


@pytest.fixture
def closing(tmp_path: Path) -> Iterator[Closing]:
    made = Closing(tmp_path)
    with made.cluster:
        create_topic(made.cluster.bootstrap, "orders", PARTITIONS)
        yield made


def test_the_page_closes_a_cluster_that_is_in_use(closing: Closing) -> None:
    open_settings: Settings = {"bootstrap.servers": closing.cluster.bootstrap, "log_level": 0}
    load = Load(open_settings)
    try:
        follow(closing, load)
    finally:
        load.stop()
    assert load.problems == []
    assert len(load.acknowledged) > 1000
    assert "penstock: " in closing.said
    settings = closing.client("billing.properties")
    assert everything(settings) == sorted(load.acknowledged)  # nothing lost, nothing twice
    left = load.acknowledged - load.read
    load.start(settings)
    try:
        assert wait_until(lambda: left <= load.read, UNTIL_SECONDS)
    finally:
        load.stop()
    assert load.problems == []


def follow(closing: Closing, load: Load) -> None:
    """Do what the page says."""
    for language, mark, text in blocks():
        if language == "sh":
            closing.do(mark, text)
        elif language == "properties":
            closing.write(mark, text)
            if mark == "billing.properties":
                load.stop()
                load.start(closing.client(mark))
        elif mark == "each":
            if "advertised_listeners" in text:
                closing.copy_certificates()
            closing.merge(text)


def everything(settings: Settings) -> list[bytes]:
    """Return all values of the topic, sorted."""
    consumer = Consumer(settings | {"group.id": "billing", "enable.auto.commit": False})
    found: list[bytes] = []
    try:
        for number in range(PARTITIONS):
            _, end = consumer.get_watermark_offsets(Partition("orders", number), UNTIL_SECONDS)
            consumer.assign([Partition("orders", number, 0)])
            while end:
                message = consumer.poll(UNTIL_SECONDS)
                assert message is not None
                assert message.error() is None, message.error()
                found.append(message.value() or b"")
                if message.offset() == end - 1:
                    break
    finally:
        consumer.close()
    return sorted(found)
