"""What `penstock up` shows of what its nodes say."""

import asyncio
from pathlib import Path

import pytest

from penstock.cli.launch.node_files import BoundedLog
from penstock.cli.launch.node_process import NodeProcess


def test_warnings_of_nodes_that_were_told_to_end_stand_in_their_logs_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").mkdir()
    node = NodeProcess(broker_id=1, directory=tmp_path, address=("127.0.0.1", 1), restart=False)
    node._log = BoundedLog(tmp_path / "log" / "node.log")
    node._take_line(b"noon WARNING one\n")
    asyncio.run(node.stop())
    node._take_line(b"noon WARNING two\n")
    node._take_line(b"noon ERROR three\n")
    node._log.close()
    shown = "penstock: node 1: noon WARNING one\npenstock: node 1: noon ERROR three\n"
    assert capsys.readouterr().err == shown
    kept = (tmp_path / "log" / "node.log").read_text()
    assert kept == "noon WARNING one\nnoon WARNING two\nnoon ERROR three\n"
