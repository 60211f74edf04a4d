"""The parts of the bad-input programme: which frames go where, and the judgement of each part."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.bad_input.callers import purposes_of
from harness.bad_input.grpc_frames import TOPIC
from harness.bad_input.sender import Tally
from harness.cluster import ClusterProcess
from harness.node import NodeProcess
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS
from reliability.attacks.bad_input_flood import (
    GRPC,
    HTTP,
    KAFKA,
    MEMBER,
    STRANGER,
    SWEEP,
    Flood,
    Target,
    jobs_of,
)
from reliability.attacks.bad_input_good import ASK, BETWEEN, FLOOD, QUIET, WRITE, GoodClient
from reliability.attacks.bad_input_watch import MemoryWatch, findings

LOOPBACK = "127.0.0.1"
GROWTH_BYTES_MAX = 32 << 20
RATIO_MAX = 2.0
RATE, SIDE_RATE, HTTP_RATE = 1_800.0, 300.0, 100.0
"""Frames a second at most: a flood that takes the whole processor measures the scheduler. Fewer at
the ports that clients do not use: there each frame is a connection of its own, or a handshake."""
FLOOD_SECONDS, QUIET_SECONDS, FIRST_QUIET_SECONDS = 8.0, 2.0, 4.0
WARM_FRAMES = 2_000
"""Sent before memory counts: by then every schema is loaded and every buffer was used once."""
ANY_CONNECTIONS = {"net": {"connections_per_address_max": 0, "connection_rate_per_address_max": 0}}


class Place(NamedTuple):
    """What runs, and where frames of one kind go."""

    processes: Sequence[NodeProcess]
    bootstrap: str
    target: Target


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the frames, and where it goes."""

    name: str
    share: float
    rate: float
    open: Callable[[Path], contextlib.AbstractContextManager[Place]]


@contextlib.contextmanager
def _one_node(directory: Path, kind: str) -> Iterator[Place]:
    with NodeProcess(
        directory, settings={**ANY_CONNECTIONS, "broker": {"client_metrics": True}}
    ) as node:
        port = node.metrics_port if kind == HTTP else node.port
        yield Place([node], node.bootstrap, Target(kind, ((LOOPBACK, port),)))


@contextlib.contextmanager
def _grpc_node(directory: Path) -> Iterator[Place]:
    port = free_port()
    settings = ANY_CONNECTIONS | {"grpc": {"port": port}}
    with NodeProcess(directory, settings=settings) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(UNTIL_SECONDS)
        yield Place([node], node.bootstrap, Target(GRPC, ((LOOPBACK, port),)))


@contextlib.contextmanager
def _three_nodes(directory: Path, kind: str) -> Iterator[Place]:
    with ClusterProcess(directory, settings=ANY_CONNECTIONS) as cluster:
        processes = list(cluster.processes.values())
        yield Place(processes, cluster.bootstrap, _target(cluster, kind))


def _target(cluster: ClusterProcess, kind: str) -> Target:
    if kind == KAFKA:
        return Target(kind, tuple((LOOPBACK, node.port) for node in cluster.nodes.values()))
    kafka_ports = {node.port for node in cluster.nodes.values()}
    peer_ports = [port for port in cluster.ports if port not in kafka_ports]
    if kind == STRANGER:
        return Target(kind, tuple((LOOPBACK, port) for port in peer_ports))
    purposes = purposes_of(next(iter(cluster.nodes.values())))
    return Target(kind, (purposes[b"raft"],), purposes, cluster.secret)


PARTS = {
    part.name: part
    for part in (
        Part("one-kafka", 0.66, RATE, lambda directory: _one_node(directory, KAFKA)),
        Part("one-sweep", 0.05, RATE, lambda directory: _one_node(directory, SWEEP)),
        Part("one-http", 0.01, HTTP_RATE, lambda directory: _one_node(directory, HTTP)),
        Part("one-grpc", 0.04, SIDE_RATE, _grpc_node),
        Part("three-kafka", 0.20, RATE, lambda directory: _three_nodes(directory, KAFKA)),
        Part(
            "three-strangers", 0.015, SIDE_RATE, lambda directory: _three_nodes(directory, STRANGER)
        ),
        Part("three-members", 0.025, SIDE_RATE, lambda directory: _three_nodes(directory, MEMBER)),
    )
}


@dataclass(frozen=True, slots=True)
class _Range:
    """Frames `first` to `first + count` of a seed, so many a second at most."""

    seed: int
    first: int
    count: int
    rate: float


def run_part(part: Part, *, seed: int, first: int, count: int) -> dict[str, Any]:
    """Send the frames of one part and judge; returns the row of the results."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bad-input-") as directory,
        part.open(Path(directory)) as place,
    ):
        good = GoodClient(place.bootstrap)
        good.start()
        memory = MemoryWatch(place.processes)
        memory.start()
        begun = time.monotonic()
        try:
            tally, warm_bytes = _send_all(
                place, good, memory, _Range(seed, first, count, part.rate)
            )
        except OSError:
            print("\n".join(findings(place.processes)), file=sys.stderr)
            raise
        finally:
            good.stop()
        seconds = time.monotonic() - begun
        grown = memory.stop()
        found = [*tally.problems, *findings(place.processes)]
        problems = [*good.judge(), *found]
        row = _row(part.name, seed, first, tally, good) | {"rate": part.rate}
        row |= {"seconds": round(seconds, 1), "warm MiB": _mib(warm_bytes)}
        row |= {"grown MiB": _mib(grown), "findings": len(found)}
        return _judged(row, problems, place.processes)


def _send_all(
    place: Place, good: GoodClient, memory: MemoryWatch, frames: _Range
) -> tuple[Tally, int]:
    """Send everything in turns of flood and quiet; returns the growth while warming up too."""
    seed, first, count = frames.seed, frames.first, frames.count
    warm = min(WARM_FRAMES, count)
    tally = Tally()
    with contextlib.closing(Flood()) as flood:
        early = jobs_of(place.target, seed, first, warm)
        flood.run(early, tally, seconds=3_600, rate=frames.rate)
        warm_bytes = memory.rebase()
        _be_quiet(good, FIRST_QUIET_SECONDS)
        jobs = jobs_of(place.target, seed, first + warm, count - warm)
        has_more = count > warm
        while has_more:
            good.phase = FLOOD
            has_more = flood.run(jobs, tally, seconds=FLOOD_SECONDS, rate=frames.rate)
            good.phase = BETWEEN
            print(f"{tally.sent:,} of {count:,} frames", file=sys.stderr, flush=True)
            _be_quiet(good, QUIET_SECONDS)
    return tally, warm_bytes


def _be_quiet(good: GoodClient, seconds: float) -> None:
    """Let the good client be alone for a while, for comparison."""
    time.sleep(0.5)
    good.phase = QUIET
    time.sleep(seconds)
    good.phase = BETWEEN


def _row(name: str, seed: int, first: int, tally: Tally, good: GoodClient) -> dict[str, Any]:
    row: dict[str, Any] = {
        "part": name,
        "seed": seed,
        "first": first,
        "frames": tally.sent,
        "answered": tally.answered,
        "refused": tally.refused,
        "waits": tally.waited_for,
        "good answers": good.count(QUIET) + good.count(FLOOD),
        "good failures": len(good.failures),
    }
    for what in (WRITE, ASK):
        quiet, flood = good.p99_ms(what, QUIET), good.p99_ms(what, FLOOD)
        row[f"{what} p99 ms, quiet"] = round(quiet, 2)
        row[f"{what} p99 ms, flood"] = round(flood, 2)
        row[f"{what} ratio"] = round(flood / quiet, 2)
    row["kinds"] = dict(sorted(tally.by_kind.items()))
    return row


def _judged(
    row: dict[str, Any], problems: list[str], processes: Sequence[NodeProcess]
) -> dict[str, Any]:
    if row["grown MiB"] >= GROWTH_BYTES_MAX >> 20:
        problems.append(f"memory grew by {row['grown MiB']} MiB")
    problems += [
        f"the good client's p99 of {what} is {row[f'{what} ratio']} times"
        for what in (WRITE, ASK)
        if not row[f"{what} ratio"] < RATIO_MAX
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        for process in processes:
            print(process.log_tail(40), file=sys.stderr)
    kinds = row.pop("kinds")
    return {**row, "verdict": "; ".join(problems)[:300] or "ok", "kinds": kinds}


def _mib(size: int) -> float:
    return round(size / (1 << 20), 1)
