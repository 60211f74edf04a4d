"""What a node refuses at its start: one clear line and an exit code, never a traceback."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS

pytestmark = pytest.mark.process


def start_with(config: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("penstock")), "node", "--config", str(config)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=UNTIL_SECONDS, check=False
    )


def assert_one_clear_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines
    for word in words:
        assert word in lines[-1]


def test_a_second_node_on_the_same_directory_is_refused(node: NodeProcess, tmp_path: Path) -> None:
    other = NodeProcess(tmp_path / "other", data=node.data)
    done = start_with(other.config)
    assert_one_clear_line(done, str(node.data))
    assert node.is_running


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", node.port))
        holder.listen()
        done = start_with(node.config)
    assert_one_clear_line(done, str(node.port))


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node")
    node.data.rmdir()
    node.data.write_text("not a directory")
    assert_one_clear_line(start_with(node.config), str(node.data))


def test_an_unknown_setting_is_refused_by_name(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node", settings={"node": {"prot": 9092}})
    assert_one_clear_line(start_with(node.config), "prot")


def test_an_absent_settings_file_is_refused(tmp_path: Path) -> None:
    assert_one_clear_line(start_with(tmp_path / "absent.toml"), "absent.toml")


def test_sigterm_ends_a_node_cleanly(node: NodeProcess) -> None:
    assert node.stop() == 0
    assert "Traceback" not in node.log_tail(1000)


def test_a_clean_stop_is_followed_by_a_clean_start(node: NodeProcess) -> None:
    node.stop()
    node.start()
    assert node.is_running
