"""Floods of connections and bombs beside a good client, measured one after the other."""

import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.badinput import floods
from tests.badinput.bomb_frames import BOMB_TOPIC, BOMB_TOPIC_CONFIG, bomb_frame
from tests.badinput.bombs import bombs

from benchmarks.harness.bad_input_good import ASK, BETWEEN, FLOOD, QUIET, WRITE, GoodClient
from benchmarks.harness.bad_input_runs import Runs
from benchmarks.harness.bad_input_watch import MemoryWatch, findings
from benchmarks.harness.node import NodeProcess

LOOPBACK = "127.0.0.1"
SECONDS = 10.0
TURNS = 3
GROWTH_MIB_MAX = 32
RATIO_MAX = 2.0
_NET = {
    "net": {
        "connections_per_address_max": 0,
        "connection_rate_per_address_max": 0,
        "connections_max": 20_000,
    }
}

Flood = Callable[[NodeProcess], contextlib.AbstractContextManager[object]]


def _address(node: NodeProcess) -> tuple[str, int]:
    return LOOPBACK, node.port


@contextlib.contextmanager
def _bombs(node: NodeProcess) -> Iterator[None]:
    """Produce every bomb in turn to a topic that has its batches compressed anew."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    with contextlib.suppress(Exception):  # there since the last turn
        admin.create_topics([NewTopic(BOMB_TOPIC, 1, 1, config=BOMB_TOPIC_CONFIG)])[
            BOMB_TOPIC
        ].result(30)
    frames = [bomb_frame(batch) for _, batch in bombs().values()]

    def once(_: Callable[[float], bool]) -> None:
        for frame in frames:
            with contextlib.suppress(OSError), socket.create_connection(_address(node)) as thrown:
                thrown.sendall(frame)
                thrown.settimeout(5)
                thrown.recv(4)

    with floods.repeating(once):
        yield


FLOODS: dict[str, Flood] = {
    "idle": lambda node: floods.idle(_address(node)),
    "slow": lambda node: floods.slow_writers(_address(node)),
    "announced": lambda node: floods.announced(_address(node)),
    "churn": lambda node: floods.churn(_address(node)),
    "bombs": _bombs,
}


def run_floods(names: list[str], runs: Runs) -> bool:
    """Measure each flood; say whether every promise was kept."""
    is_good = True
    for name in names:
        row = _measure(name)
        runs.add(row)
        is_good = is_good and row["verdict"] == "ok"
    runs.show()
    return is_good


def _measure(name: str) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-flood-") as directory,
        NodeProcess(Path(directory), settings=_NET) as node,
    ):
        good = GoodClient(node.bootstrap)
        good.start()
        with FLOODS[name](node):  # warm: what is loaded and pooled once is not counted
            time.sleep(2.0)
        memory = MemoryWatch([node], seconds=0.05)
        memory.start()
        begun = time.monotonic()
        for _ in range(TURNS):
            _hold(good, QUIET)
            with FLOODS[name](node):
                _hold(good, FLOOD)
        good.stop()
        seconds = time.monotonic() - begun
        grown = memory.stop() / (1 << 20)
        found = findings([node])
        return _row(name, good, seconds, grown, found)


def _hold(good: GoodClient, phase: str) -> None:
    time.sleep(0.5)
    good.phase = phase
    time.sleep(SECONDS)
    good.phase = BETWEEN


def _row(
    name: str, good: GoodClient, seconds: float, grown: float, found: list[str]
) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        ("part", "seed", "first", "frames", "answered", "refused", "waits", "rate"), 0
    )
    row["part"] = f"flood: {name}"
    row["good answers"] = good.count(QUIET) + good.count(FLOOD)
    row["good failures"] = len(good.failures)
    problems = [*found, *good.judge()]
    for what in (WRITE, ASK):
        quiet, flood = good.p99_ms(what, QUIET), good.p99_ms(what, FLOOD)
        row[f"{what} p99 ms, quiet"] = round(quiet, 2)
        row[f"{what} p99 ms, flood"] = round(flood, 2)
        row[f"{what} ratio"] = round(flood / quiet, 2)
        if not flood < RATIO_MAX * quiet:
            problems.append(f"the good client's p99 of {what} is {flood / quiet:.2f} times")
    if grown >= GROWTH_MIB_MAX:
        problems.append(f"memory grew by {grown:.1f} MiB")
    for problem in problems:
        print(problem, file=sys.stderr)
    return {
        **row,
        "seconds": round(seconds, 1),
        "warm MiB": 0.0,
        "grown MiB": round(grown, 1),
        "findings": len(found),
        "verdict": "; ".join(problems)[:300] or "ok",
        "kinds": {},
    }
