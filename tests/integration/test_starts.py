"""Starts and stops that go wrong on the way: nothing is lost, and one clear line says what is."""

import hashlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, signal_until_it_ends
from harness.workload import create_topic, read_all
from tests.integration.clients import acked, send
from tests.integration.test_refusals import assert_one_clear_line, start_with

pytestmark = pytest.mark.process

EXIT_FAILED, EXIT_CONFIG = 1, 2


@pytest.fixture
def stopped(tmp_path: Path) -> NodeProcess:
    """A node that holds 200 records in the topic `kept` and was stopped cleanly."""
    node = NodeProcess(tmp_path / "node")
    with node:
        create_topic(node.bootstrap, "kept", 1)
        assert len(acked(send(node.bootstrap, "kept", [b"%d." % n for n in range(200)]))) == 200
        assert node.stop() == 0
    return node


def content_of(directory: Path) -> dict[str, str]:
    """Every file by the hash of what is in it, but the lock and the mark of how far the metadata is
    known to be agreed, which is brought up to date when the metadata is read.
    """
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in {"penstock.lock", "raft.commit"}
    }


def count_of(node: NodeProcess, topic: str) -> int:
    return sum(len(poll.records) for poll in read_all(node.bootstrap, topic, 1))


def last_recovery(node: NodeProcess) -> str:
    lines = node.log_tail(1000).splitlines()
    return [line for line in lines if "recovery set=" in line and "end=" in line][-1]


def test_a_lost_metadata_log_is_refused_and_nothing_is_touched(stopped: NodeProcess) -> None:
    shutil.rmtree(stopped.data / "metadata")
    before = content_of(stopped.data)
    done = start_with(stopped.config)
    assert done.returncode == EXIT_CONFIG
    assert_one_clear_line(done, "metadata is missing", "set-1 holds data")
    assert content_of(stopped.data) == before


def test_an_emptied_metadata_log_is_refused_and_nothing_is_touched(stopped: NodeProcess) -> None:
    (stopped.data / "metadata" / "raft.log").write_bytes(b"")
    before = content_of(stopped.data)
    done = start_with(stopped.config)
    assert done.returncode == EXIT_CONFIG
    assert_one_clear_line(done, "metadata/raft.log")
    assert content_of(stopped.data) == before


def test_another_nodes_metadata_log_is_refused(stopped: NodeProcess, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "other") as other:
        other.stop()
    shutil.rmtree(stopped.data / "metadata")
    shutil.copytree(other.data / "metadata", stopped.data / "metadata")
    before = content_of(stopped.data)
    done = start_with(stopped.config)
    assert done.returncode == EXIT_CONFIG
    assert_one_clear_line(done, "belongs to cluster")
    assert content_of(stopped.data) == before


def test_an_older_copy_of_the_metadata_log_is_refused_and_the_newer_one_serves_again(
    stopped: NodeProcess, tmp_path: Path
) -> None:
    shutil.copytree(stopped.data / "metadata", tmp_path / "older")
    with stopped:
        stopped.stop()
    (stopped.data / "metadata").rename(tmp_path / "newer")
    shutil.copytree(tmp_path / "older", stopped.data / "metadata")
    done = start_with(stopped.config)
    assert done.returncode == EXIT_CONFIG
    assert_one_clear_line(done, "older copy")
    shutil.rmtree(stopped.data / "metadata")
    (tmp_path / "newer").rename(stopped.data / "metadata")
    with stopped:
        assert count_of(stopped, "kept") == 200


@pytest.mark.parametrize(
    "lost",
    ["set-1/log/*.log", "set-1/*/*", "set-1/*/* set-1/durable"],
    ids=["segments", "all-but-the-note", "all-but-the-name"],
)
def test_a_log_whose_files_are_gone_is_refused_and_serves_again_when_they_are_back(
    stopped: NodeProcess, tmp_path: Path, lost: str
) -> None:
    shutil.copytree(stopped.data, tmp_path / "copy")
    for pattern in lost.split():
        for path in stopped.data.glob(pattern):
            path.unlink()
    before = content_of(stopped.data)
    done = start_with(stopped.config)
    assert done.returncode == EXIT_FAILED
    assert_one_clear_line(done, "set-1", "missing")
    after = content_of(stopped.data)
    assert {name: after[name] for name in before if name.startswith("set-")} == {
        name: before[name] for name in before if name.startswith("set-")
    }
    shutil.rmtree(stopped.data)
    (tmp_path / "copy").rename(stopped.data)
    with stopped:
        assert count_of(stopped, "kept") == 200


def test_a_port_in_use_is_found_after_recovery_and_leaves_a_clean_log(
    stopped: NodeProcess,
) -> None:
    with stopped:
        send(stopped.bootstrap, "kept", [b"more."])
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", stopped.port))
        holder.listen()
        done = start_with(stopped.config)
    assert done.returncode == EXIT_CONFIG
    assert_one_clear_line(done, str(stopped.port))
    with stopped:
        assert "replayed=0" in last_recovery(stopped)
        assert "clean" in last_recovery(stopped)
        assert count_of(stopped, "kept") == 201


@pytest.mark.parametrize("delay_ms", [150, 300, 450, 600, 750, 900])
def test_sigterm_at_any_moment_of_a_start_ends_it_and_the_next_start_has_everything(
    stopped: NodeProcess, delay_ms: int
) -> None:
    with stopped:
        pass  # killed: the next start has something to replay
    command = [str(Path(sys.executable).with_name("penstock")), "node"]
    process = subprocess.Popen(
        [*command, "--config", str(stopped.config)], stderr=subprocess.PIPE, text=True
    )
    time.sleep(delay_ms / 1000)
    process.terminate()
    _, errors = process.communicate(timeout=UNTIL_SECONDS)
    # Before its handler is there the signal ends the process as it ends any other.
    assert process.returncode in {0, -signal.SIGTERM}
    assert "Traceback" not in errors
    with stopped:
        assert count_of(stopped, "kept") == 200


def test_one_more_sigterm_changes_nothing_when_a_node_ends(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node:
        assert signal_until_it_ends(node.process, signal.SIGTERM, UNTIL_SECONDS) == 0, (
            node.log_tail()
        )


def test_sigterm_with_busy_clients_ends_a_node_and_leaves_nothing_to_replay(
    stopped: NodeProcess,
) -> None:
    with stopped:
        consumer = Consumer(
            {
                "bootstrap.servers": stopped.bootstrap,
                "group.id": "waiting",
                "fetch.wait.max.ms": 5000,
                "log_level": 0,
            }
        )
        consumer.subscribe(["kept"])
        consumer.poll(3)
        producing = threading.Thread(
            target=send,
            args=(stopped.bootstrap, "kept", [b"x" * 1000 for _ in range(50_000)]),
            kwargs={"settings": {"message.timeout.ms": 5_000}},
        )
        producing.start()
        time.sleep(0.3)
        assert stopped.stop() == 0
        assert "Traceback" not in stopped.log_tail(1000)
        producing.join()
        consumer.close()
    with stopped:
        assert "replayed=0" in last_recovery(stopped)
        assert "clean" in last_recovery(stopped)
