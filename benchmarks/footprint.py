"""What does a node cost that does nothing: memory, memory per idle connection, time to start?

Memory is what the process has for itself (private pages), read from the kernel. A connection has
exchanged one request before it idles. Start is from the start of the process to its first answer,
with an empty data directory that has been started on before.
"""

import resource
import socket
import struct
import time

from benchmarks import RESULTS
from benchmarks.parts.nodes import FSYNC, temporary_node
from harness.node import NodeProcess
from harness.results import median, publish

GOAL = "idle <= 80 MB; <= 6 KB per idle connection; start <= 1 s"
SETTLE_SECONDS = 1.0
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    count, rounds = (1000, 3) if quick else (5000, 7)
    _allow_files(count * 2 + 1000)
    with temporary_node(FSYNC) as node:
        starts = []
        for _ in range(rounds):
            node.stop()
            starts.append(node.start())
        time.sleep(SETTLE_SECONDS)
        idle = node.memory_bytes()
        per_connection = _per_connection(node, count)
    rows = [
        {"what": "memory, idle", "value": idle / 1e6, "unit": "MB"},
        {"what": f"memory per idle connection ({count:,})", "value": per_connection, "unit": "B"},
        {"what": "start to first answer", "value": median(starts), "unit": "s"},
    ]
    publish(RESULTS, "footprint", rows, goal=GOAL)


def _per_connection(node: NodeProcess, count: int) -> float:
    before = node.memory_bytes()
    connections = [_connect(node.port) for _ in range(count)]
    time.sleep(SETTLE_SECONDS)
    grown = node.memory_bytes() - before
    for connection in connections:
        connection.close()
    return grown / count


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(_API_VERSIONS)
    head = connection.recv(4, socket.MSG_WAITALL)
    connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    return connection


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = hard if hard != resource.RLIM_INFINITY else count
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, top)), hard))
