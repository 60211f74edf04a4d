"""How many single-record produce requests can one core of a broker answer?

A C client sends a prepared request of one 100-byte record: pipelined (4 connections with 32 on
their way each) and one at a time on each of 64 connections. The client costs next to nothing.
"""

import json
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

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
        for name, connections, in_flight in CASES:
            runs = [
                storm(
                    node,
                    Path(directory),
                    connections=connections,
                    in_flight=in_flight,
                    seconds=seconds,
                )
                for _ in range(rounds)
            ]
            rows.append(
                {
                    "case": name,
                    "requests/s": median([one["per_second"] for one in runs]),
                    "min": min(one["per_second"] for one in runs),
                    "max": max(one["per_second"] for one in runs),
                    "broker us/request": median([one["cpu_us"] for one in runs]),
                    "per core and s": median([1e6 / one["cpu_us"] for one in runs]),
                }
            )
    publish(RESULTS, "small_requests", rows, goal=GOAL)


def storm(
    broker: Broker, directory: Path, *, connections: int, in_flight: int, seconds: int
) -> dict[str, Any]:
    """Send small requests for `seconds`; files go to `directory`."""
    with temporary_topic(broker.bootstrap) as topic:
        where = Where(broker.bootstrap, topic)
        return storm_at(broker, where, directory, (connections, in_flight, seconds))


class Where(NamedTuple):
    """The listener and the topic that requests go to, and what is sent before them."""

    address: str
    topic: str
    prelude: bytes = b""


def storm_at(
    broker: Broker, where: Where, directory: Path, load: tuple[int, int, int]
) -> dict[str, Any]:
    """Send small requests; `load` is connections, requests on their way in each, and seconds."""
    frame, prelude = directory / "frame", directory / "prelude"
    frame.write_bytes(produce_request(where.topic, b"x" * VALUE_BYTES))
    prelude.write_bytes(where.prelude)
    error_at = 4 + 4 + 2 + len(where.topic) + 4 + 4
    command = [str(compiled("request_storm")), *where.address.split(":"), str(frame)]
    command += [*(str(one) for one in load), str(error_at), str(prelude)]
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
