"""Floods of connections and bombs beside a good client, measured one after the other."""

import contextlib
import multiprocessing
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.bad_input import floods
from harness.bad_input.bomb_frames import BOMB_TOPIC, BOMB_TOPIC_CONFIG, bomb_frame
from harness.bad_input.bombs import bombs
from harness.node import NodeProcess
from penstock.net.sockets import raise_descriptor_limit
from reliability.attacks.bad_input_flood import SENDERS_NICENESS, be_nice
from reliability.attacks.bad_input_good import ASK, BETWEEN, FLOOD, QUIET, WRITE, GoodClient
from reliability.attacks.bad_input_runs import Runs
from reliability.attacks.bad_input_watch import MemoryWatch, findings

LOOPBACK = "127.0.0.1"
SECONDS = 10.0
START_SECONDS = 60.0
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

Address = tuple[str, int]
Flood = Callable[[Address], contextlib.AbstractContextManager[object]]
BOMB_SECONDS = 0.05
"""From one bomb to the next: each costs the node some milliseconds by what it may become."""


@contextlib.contextmanager
def _bombs(address: Address) -> Iterator[None]:
    """Produce every bomb in turn to a topic that has its batches compressed anew."""
    frames = [bomb_frame(batch) for _, batch in bombs().values()]
    turn = 0

    def once(wait: Callable[[float], bool]) -> None:
        nonlocal turn
        turn += 1
        with contextlib.suppress(OSError), socket.create_connection(address, 5) as thrown:
            thrown.sendall(frames[turn % len(frames)])
            thrown.settimeout(5)
            thrown.recv(4)
        wait(BOMB_SECONDS)

    with floods.repeating(once):
        yield


_ELSEWHERE = "127.0.0.2"
_LIMITED = ("announced", "churn")
"""What the limits for one address are made for; they stay as they are by default."""

FLOODS: dict[str, Flood] = {
    "idle": floods.idle,
    "slow": floods.slow_writers,
    "announced": lambda address: floods.announced(address, _ELSEWHERE),
    "churn": lambda address: floods.churn(address, _ELSEWHERE),
    "bombs": _bombs,
}


@contextlib.contextmanager
def _flooded(name: str, node: NodeProcess) -> Iterator[None]:
    """Flood from a process of its own, which shares nothing with the good client."""
    context = multiprocessing.get_context("spawn")
    is_up, is_over = context.Event(), context.Event()
    flood = context.Process(target=_flood, args=(name, node.port, is_up, is_over))
    flood.start()
    try:
        if not is_up.wait(START_SECONDS):
            raise TimeoutError(f"the flood {name} did not begin")
        yield
    finally:
        is_over.set()
        flood.join(START_SECONDS)
        flood.kill()


def _flood(name: str, port: int, is_up: Event, is_over: Event) -> None:
    be_nice(SENDERS_NICENESS)
    raise_descriptor_limit()
    with FLOODS[name]((LOOPBACK, port)):
        is_up.set()
        is_over.wait()


def _bombed_topic(node: NodeProcess) -> None:
    """Make the topic that bombs go to; a batch may be as large as in any other."""
    config = {"compression.type": BOMB_TOPIC_CONFIG["compression.type"]}
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(BOMB_TOPIC, 1, 1, config=config)])[BOMB_TOPIC].result(30)


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
        NodeProcess(Path(directory), settings={} if name in _LIMITED else _NET) as node,
    ):
        good = GoodClient(node.bootstrap)
        good.start()
        _bombed_topic(node)
        with _flooded(name, node):  # warm: what is loaded and pooled once is not counted
            time.sleep(2.0)
        memory = MemoryWatch([node], seconds=0.05)
        memory.start()
        begun = time.monotonic()
        for _ in range(TURNS):
            _hold(good, QUIET)
            with _flooded(name, node):
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
