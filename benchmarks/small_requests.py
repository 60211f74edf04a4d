"""How many produce requests, and fetches, of one record can one core of a broker answer?

A C client sends a prepared request again and again: a Produce with one record of 100 bytes, and a
Fetch that is answered with such a record. Pipelined (4 connections with 32 on their way each), and
one at a time on each of 64 connections. The client costs next to nothing.
"""

import json
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from crc32c import crc32c

from benchmarks import RESULTS
from benchmarks.parts.broker import Broker
from benchmarks.parts.native import LoadFailed, compiled, why_not
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node
from benchmarks.parts.topics import temporary_topic
from harness.results import median, publish

GOAL = ">= 130,000/s pipelined and >= 45,000/s one in flight on 64 connections, per core"
CASES = (("pipelined, 4 x 32", 4, 32), ("one in flight, 64 connections", 64, 1))
VALUE_BYTES = 100


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"small_requests left out: {reason}")
        return
    seconds, rounds = (3, 3) if quick else (10, 5)
    rows = []
    with temporary_node(PAGE_CACHE) as node, tempfile.TemporaryDirectory() as directory:
        for what, make in (("", produce_storm), ("fetch, ", fetch_storm)):
            for name, connections, in_flight in CASES:
                load = (connections, in_flight, seconds)
                runs = [storm(node, Path(directory), load, make) for _ in range(rounds)]
                rows.append(_row(what + name, runs))
    publish(RESULTS, "small_requests", rows, goal=GOAL)


def _row(case: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "case": case,
        "requests/s": median([one["per_second"] for one in runs]),
        "min": min(one["per_second"] for one in runs),
        "max": max(one["per_second"] for one in runs),
        "broker us/request": median([one["cpu_us"] for one in runs]),
        "per core and s": median([1e6 / one["cpu_us"] for one in runs]),
    }


class Storm(NamedTuple):
    """A request, its length included, and where the error code stands in an answer."""

    frame: bytes
    error_at: int


Load = tuple[int, int, int]
"""Connections, requests on their way in each, and seconds."""


def storm(
    broker: Broker, directory: Path, load: Load, make: Callable[[str], Storm]
) -> dict[str, Any]:
    """Send small requests about a topic with one record; files go to `directory`."""
    with temporary_topic(broker.bootstrap) as topic:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(topic, b"x" * VALUE_BYTES, partition=0)
        if producer.flush(30):
            raise LoadFailed("the record that is to be fetched was not taken in 30 s")
        return storm_at(broker, Where(broker.bootstrap, topic), directory, load, make)


class Where(NamedTuple):
    """The listener and the topic that requests go to, and what is sent before them."""

    address: str
    topic: str
    prelude: bytes = b""


def produce_storm(topic: str) -> Storm:
    """Return a Produce v7 of one record."""
    # Correlation id, topics, the name, partitions, its number.
    return Storm(produce_request(topic, b"x" * VALUE_BYTES), 4 + 4 + 2 + len(topic) + 4 + 4)


def fetch_storm(topic: str) -> Storm:
    """Return a Fetch v11 without a session, of the first batch of a topic's partition 0."""
    name = topic.encode()
    body = struct.pack(">iiiibii", -1, 500, 1, 1 << 20, 0, 0, -1)  # to read uncommitted
    body += struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iiiqqi", 1, 0, -1, 0, -1, 1)  # a first batch is told whole
    body += struct.pack(">ih", 0, 0)  # nothing to forget, no rack
    header = struct.pack(">hhih", 1, 11, 1, -1)
    frame = struct.pack(">i", len(header) + len(body)) + header + body
    # Correlation id, throttle time, error, session; topics, the name, partitions, its number.
    return Storm(frame, 4 + 4 + 2 + 4 + 4 + 2 + len(name) + 4 + 4)


def storm_at(
    broker: Broker,
    where: Where,
    directory: Path,
    load: Load,
    make: Callable[[str], Storm] = produce_storm,
) -> dict[str, Any]:
    """Send small requests about a topic."""
    frame, prelude = directory / "frame", directory / "prelude"
    request = make(where.topic)
    frame.write_bytes(request.frame)
    prelude.write_bytes(where.prelude)
    command = [str(compiled("request_storm")), *where.address.split(":"), str(frame)]
    command += [*(str(one) for one in load), str(request.error_at), str(prelude)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        client.stdout.readline()  # it has warmed up
        before = broker.cpu_seconds()
        line = client.stdout.readline()
        used = broker.cpu_seconds() - before
    if client.returncode != 0:
        raise LoadFailed(f"request_storm: {line or 'no answer'}")
    measured: dict[str, Any] = json.loads(line)
    measured["per_second"] = measured["requests"] / measured["seconds"]
    measured["cpu_us"] = used / measured["requests"] * 1e6
    return measured


def produce_request(topic: str, value: bytes) -> bytes:
    """Return a whole Produce v7 request (acks=1) with one record for partition 0."""
    batch = one_record_batch(value)
    name = topic.encode()
    body = struct.pack(">hhi", -1, 1, 30_000)  # no transaction, acks, timeout
    body += struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    header = struct.pack(">hhih", 0, 7, 1, -1)  # key, version, correlation id, no client id
    return struct.pack(">i", len(header) + len(body)) + header + body


def one_record_batch(value: bytes) -> bytes:
    """Return a record batch of one record without key and headers."""
    record = b"\x00\x00\x00\x01" + _varint(len(value)) + value + b"\x00"
    record = _varint(len(record)) + record
    tail = struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1)
    covered = tail + record
    head = struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c(covered))
    return head + covered


def _varint(number: int) -> bytes:
    zigzag, out = number << 1, b""
    while zigzag > 0x7F:
        out += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    return out + bytes([zigzag])
