"""RocketMQ's stock gRPC client for Node.js: a step of node/rocketmq.js, which tells its doings."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.compat.npm import PROJECTS, node_modules
from tests.compat.rocketmq_client import CLIENT_SECONDS, RunningClient, running, told_by

PROGRAM = PROJECTS / "rocketmq.js"


def node_client(home: Path, step: str, **given: object) -> list[dict[str, Any]]:
    """Let the client do a step; return what it has told."""
    done = subprocess.run(
        _command(step, given),
        capture_output=True,
        timeout=CLIENT_SECONDS,
        check=False,
        encoding="utf-8",
        env=_environment(home, given),
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return told_by(done.stdout)


@contextmanager
def running_node_client(home: Path, step: str, **given: object) -> Iterator[RunningClient]:
    """The client in a step for the length of a `with`."""
    with running(RunningClient(home, _command(step, given), _environment(home, given))) as client:
        yield client


def _command(step: str, given: dict[str, object]) -> list[str]:
    return ["node", str(PROGRAM), step, json.dumps(given)]


def _environment(home: Path, given: dict[str, object]) -> dict[str, str]:
    """Return where the client finds its modules; skips with the reason where they are not."""
    modules = node_modules("rocketmq")
    if isinstance(modules, str):
        pytest.skip(modules)
    own = {"HOME": str(home), "NODE_PATH": str(modules)}
    if "authority" in given:
        own["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(given["authority"])
    return os.environ | own
