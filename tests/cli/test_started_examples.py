"""The examples of `--help` that run until they are ended: what they start, and how that ends.

They run as they are printed, with ports of their own behind them and with the places of a
temporary directory in them, and must get ready, do their work, and end cleanly on SIGTERM.
"""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.http_front import TOKENS
from harness.ports import UP_PORTS, free_port
from harness.served_machine import Machine
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.access.issuing import new_authority, new_server
from penstock.cli.examples import EXAMPLES
from penstock.cli.launch.node_files import settings_toml
from penstock.node.identity import new_cluster_id
from tests.cli.launched import PENSTOCK, launched

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
LAND_SECONDS = 280


class Started:
    """A command that runs, in a directory; its output is in two files there."""

    def __init__(self, directory: Path, line: str, **environment: str) -> None:
        self.line = line
        self._out, self._errors = directory / "out", directory / "errors"
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*PENSTOCK, *shlex.split(line)[1:]],
                cwd=directory,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def until_says(self, words: str, seconds: float = UNTIL_SECONDS) -> str:
        """Wait until stdout has the words; return stdout."""
        held = wait_until(lambda: words in self.out or self.process.poll() is not None, seconds)
        assert held, (self.line, self.errors)
        assert words in self.out, (self.line, self.errors)
        return self.out

    def until_listens(self, port: int) -> None:
        held = wait_until(
            lambda: is_listening(port) or self.process.poll() is not None, UNTIL_SECONDS
        )
        assert held, (self.line, self.errors)
        assert self.process.poll() is None, (self.line, self.errors)

    def ended_by(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(UNTIL_SECONDS)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def started(directory: Path, line: str, **environment: str) -> Iterator[Started]:
    """The command for the length of a `with`, at whose end it ends by SIGTERM and says nothing."""
    one = Started(directory, line, **environment)
    try:
        yield one
        assert one.ended_by(signal.SIGTERM) == 0, one.errors
        assert "Traceback" not in one.errors
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(UNTIL_SECONDS)


def placed(line: str, names: Mapping[str, object]) -> str:
    """Return the line with what these names stand for here; each of them must be there."""
    for name, here in names.items():
        assert name in line
        line = line.replace(name, str(here))
    return line


def test_no_example_of_what_is_started_is_left_out():
    assert len(EXAMPLES["up"]) == 4
    assert len(EXAMPLES["serve"]) == len(EXAMPLES["http"]) == len(EXAMPLES["land"]) == 2
    assert len(EXAMPLES["node"]) == len(EXAMPLES["controller"]) == 1


@pytest.mark.parametrize("example", EXAMPLES["up"])
def test_an_example_of_up_gets_ready_and_ends_cleanly(tmp_path, example):
    port = free_port(UP_PORTS)
    line = f"{example} --port {port}"
    if "--nodes" in example:
        line = placed(example, {"/tmp/cluster": tmp_path / "cluster", "19092": port})
    if "--rocketmq" in example:
        line += f" --set remoting.port={free_port()} --set grpc.port={free_port()}"
    line += " --metrics-port 0 --set log.segment_bytes=1048576"
    with started(tmp_path, line) as up:
        ready = up.until_says("\n")
    assert ready.startswith(f"ready bootstrap=127.0.0.1:{port}")
    assert ("ca=" in ready) == ("--secure" in example)
    assert ("rocketmq=127.0.0.1:" in ready) == ("--rocketmq" in example)


def test_the_example_of_node_starts_one_by_its_settings(tmp_path):
    port = free_port()
    (tmp_path / "data").mkdir()
    settings: dict[str, dict[str, object]] = {
        "node": {"port": port, "metrics_port": 0, "data_directories": [str(tmp_path / "data")]},
        "log": {"segment_bytes": 1048576, "reserve_bytes": 0},
    }
    (tmp_path / "node.toml").write_text(settings_toml(settings))
    (example,) = EXAMPLES["node"]
    with started(tmp_path, placed(example, {"/etc/penstock": tmp_path})) as node:
        node.until_listens(port)


def test_the_example_of_controller_starts_one_by_its_settings(tmp_path):
    port = free_port()
    (tmp_path / "data").mkdir()
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").write_text("s" * 64)
    settings: dict[str, dict[str, object]] = {
        "node": {
            "broker_id": 1,
            "cluster_id": new_cluster_id(),
            "metrics_port": 0,
            "data_directories": [str(tmp_path / "data")],
        },
        "cluster": {
            "voters": [f"1@127.0.0.1:{port}"],
            "controller_port": port,
            "secret_file": str(tmp_path / "secret"),
        },
    }
    (tmp_path / "controller.toml").write_text(settings_toml(settings))
    (example,) = EXAMPLES["controller"]
    with started(tmp_path, placed(example, {"/etc/penstock": tmp_path})) as controller:
        controller.until_listens(port)


def test_the_examples_of_serve_start_a_machine_or_say_what_it_lacks(tmp_path):
    small = {"log": {"segment_bytes": 1048576, "reserve_bytes": 0}}
    plain, pinned = EXAMPLES["serve"]
    machine = Machine(tmp_path, nodes=2, more=small)
    machine.write()
    here = {"/etc/penstock": tmp_path}
    with started(tmp_path, placed(plain, here) + " --nodes 2") as serve:
        assert serve.until_says("\n") == f"ready bootstrap={machine.bootstrap}\n"
    cores = len(os.sched_getaffinity(0))
    nodes = cores + 1  # so that there are too few wherever this runs
    refused = Started(tmp_path, placed(pinned, {**here, "--nodes 4": f"--nodes {nodes}"}))
    assert refused.process.wait(UNTIL_SECONDS) == 2
    told = f"penstock: --pin: {nodes} nodes need a core each, and there are {cores}\n"
    assert refused.errors == told


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """One node with the ports of RocketMQ's clients, and topics."""
    ports = [free_port(), free_port()]
    options = ("--rocketmq", "--set", f"remoting.port={ports[0]}", "--set", f"grpc.port={ports[1]}")
    with launched(tmp_path_factory.mktemp("up") / "data", *options) as up:
        up.remoting = f"127.0.0.1:{ports[0]}"
        for topic in ("greetings", "orders"):
            up.run("topic", "create", topic)
            up.run("produce", topic, stdin=b"hello\nworld\n")
        yield up


def test_the_examples_of_http_listen_to_clients(up, tmp_path):
    port = free_port()
    files = {"tokens.toml": TOKENS.encode()}
    server = new_server(new_authority("tests", datetime.now(UTC)), ["localhost"], datetime.now(UTC))
    files["cert.pem"], files["key.pem"] = server.certificate, server.key
    for name, content in files.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_bytes(content)
    plain, secure = EXAMPLES["http"]
    with started(tmp_path, f"{plain} --bootstrap {up.remoting} --listen 127.0.0.1:{port}") as http:
        http.until_listens(port)
    nodes = {"node-1:9876,node-2:9876": up.remoting, "0.0.0.0:8443": f"127.0.0.1:{port}"}
    with started(tmp_path, placed(secure, nodes)) as http:
        http.until_listens(port)


def test_an_example_that_follows_prints_what_comes_until_it_is_interrupted(up, tmp_path):
    (example,) = (one for one in EXAMPLES["consume"] if "--follow" in one)
    follow = Started(tmp_path, example, PENSTOCK_BOOTSTRAP=up.bootstrap)
    try:

        def comes():
            """Write until the reader has begun, wherever the end was by then."""
            up.run("produce", "greetings", stdin=b"later\n")
            return "later\n" in follow.out

        assert wait_until(comes, UNTIL_SECONDS), follow.errors
        assert "hello" not in follow.out
        assert follow.ended_by(signal.SIGINT) == 130
        assert "Traceback" not in follow.errors
    finally:
        if follow.process.poll() is None:
            follow.process.kill()
            follow.process.wait(UNTIL_SECONDS)


@pytest.mark.spark
def test_the_example_of_land_puts_a_topic_in_a_table(up, tmp_path):
    line, _ = EXAMPLES["land"]
    land = Started(tmp_path, f"{line} --master 'local[1]'", PENSTOCK_BOOTSTRAP=up.bootstrap)
    try:
        assert land.process.wait(LAND_SECONDS) == 0, land.errors
    finally:
        if land.process.poll() is None:
            land.process.kill()
    assert list((tmp_path / "tables" / "greetings").rglob("*.parquet"))
