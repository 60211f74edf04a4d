"""What do several nodes of one machine serve, each on a core of its own, beside one Kafka?

A node has one event loop, so one node uses little more than one core. `penstock serve --nodes N
--pin` runs one on each core. Kafka has all cores, too. Each server gets one client process for each
core: single-record produce requests on 64 connections in all, then reads of topics that were
written before. A client talks to the node that leads its topic, as every Kafka client does. The
clients run on the same cores and take a part of them, the same beside each server.
"""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import RESULTS
from benchmarks.parts import kafka, native
from benchmarks.parts.native import LoadFailed, compiled, librdkafka
from benchmarks.parts.nodes import ANY_LOAD, PAGE_CACHE
from benchmarks.peers.kafka_load import KafkaLoad
from benchmarks.small_requests import VALUE_BYTES, produce_request
from harness.results import median, publish
from harness.served_machine import Machine
from penstock.cli.machine.plan import PORT_STEP
from penstock.runtime.io.cores import usable_cores

GOAL = "several nodes: >= 1.3 x Kafka's requests/s on 64 connections"
CONNECTIONS = 64
READ_VALUE_BYTES, READ_BATCH_BYTES = 1_024, 262_144
SECONDS_TO_CREATE = 60.0
MANY, ONE, KAFKA = "Penstock, a node on each core", "Penstock, one node", "Kafka"


class Place(NamedTuple):
    """A topic of one partition, and where the broker is that leads it."""

    bootstrap: str
    topic: str


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = native.why_not() or kafka.why_not()
    if reason is not None:
        print(f"machine_nodes left out: {reason}")
        return
    for client in ("request_storm", "librdkafka_client"):
        compiled(client)  # once, before several threads want it
    seconds, rounds, read_bytes = (2, 1, 32 << 20) if quick else (8, 5, 1 << 30)
    found: dict[str, list[dict[str, float]]] = {MANY: [], ONE: [], KAFKA: []}
    for turn in range(rounds):
        servers = [(MANY, _machine), (ONE, _one_node), (KAFKA, _kafka)]
        for name, server in servers[turn % 3 :] + servers[: turn % 3]:
            with server() as places:
                found[name].append(_measure(places, seconds, read_bytes))
    publish(RESULTS, "machine_nodes", [_row(name, runs) for name, runs in found.items()], goal=GOAL)


def _row(name: str, runs: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"server": name}
    for key in runs[0]:
        values = [one[key] for one in runs]
        row |= {key: median(values), f"{key}, least": min(values), f"{key}, most": max(values)}
    return row


def _measure(places: list[Place], seconds: int, read_bytes: int) -> dict[str, float]:
    """Load all places at once, by a client process for each."""
    for place in places:
        KafkaLoad(acks="1").first_record(*place)  # its leader may just have been made
    with ThreadPoolExecutor(len(places)) as pool:
        stormed = list(
            pool.map(lambda one: _storm(one, CONNECTIONS // len(places), seconds), places)
        )
        each = read_bytes // len(places)
        list(pool.map(lambda one: _write(one, each), places))
        read = list(pool.map(lambda one: librdkafka("consume", *one, 1, each), places))
    longest = max(float(one["seconds"]) for one in read)
    return {
        "requests/s": sum(one["requests"] / one["seconds"] for one in stormed),
        "read MB/s": sum(float(one["bytes"]) for one in read) / longest / 1e6,
    }


def _write(place: Place, size: int) -> None:
    shape = (1, READ_VALUE_BYTES, READ_BATCH_BYTES, "none", "1", size)
    librdkafka("produce", *place, *shape)


def _storm(place: Place, connections: int, seconds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        frame = Path(scratch) / "frame"
        frame.write_bytes(produce_request(place.topic, b"x" * VALUE_BYTES))
        error_at = 4 + 4 + 2 + len(place.topic) + 4 + 4
        command = [str(compiled("request_storm")), *place.bootstrap.split(":"), str(frame)]
        command += [str(one) for one in (connections, 1, seconds, error_at)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoadFailed(f"request_storm: {done.stderr or 'no answer'}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _placed(bootstraps: dict[int, str]) -> list[Place]:
    """Make a topic that each broker leads; returns one for each core."""
    admin = AdminClient({"bootstrap.servers": ",".join(bootstraps.values())})
    ids = list(bootstraps)
    leaders = [ids[core % len(ids)] for core in range(len(usable_cores()))]
    wanted = [
        NewTopic(f"on-{core}", 1, replica_assignment=[[leader]])
        for core, leader in enumerate(leaders)
    ]
    for made in admin.create_topics(wanted, operation_timeout=SECONDS_TO_CREATE).values():
        made.result(SECONDS_TO_CREATE)
    return [Place(bootstraps[leader], f"on-{core}") for core, leader in enumerate(leaders)]


@contextlib.contextmanager
def _nodes(count: int, *options: str) -> Iterator[list[Place]]:
    settings = {
        name: {**ANY_LOAD.get(name, {}), **PAGE_CACHE.get(name, {})}
        for name in sorted({*ANY_LOAD, *PAGE_CACHE})
    }
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        Machine(Path(directory), nodes=count, more=settings) as machine,
    ):
        machine.start(*options)
        yield _placed(
            {one + 1: f"127.0.0.1:{machine.port + PORT_STEP * one}" for one in range(count)}
        )
        machine.stop()


def _machine() -> contextlib.AbstractContextManager[list[Place]]:
    return _nodes(len(usable_cores()), "--pin")


def _one_node() -> contextlib.AbstractContextManager[list[Place]]:
    return _nodes(1)


@contextlib.contextmanager
def _kafka() -> Iterator[list[Place]]:
    with kafka.KafkaCluster() as server:
        yield _placed({1: server.bootstrap})
