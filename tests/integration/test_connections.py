"""Five thousand idle connections cost little memory and slow nobody down."""

import resource
import socket
import struct
from collections.abc import Iterator

import pytest
from benchmarks.harness.node import NodeProcess
from benchmarks.harness.workload import create_topic

from tests.integration.clients import acked, send

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
COUNT = 5000
BYTES_PER_CONNECTION_MAX = 16 * 1024
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process, and the node it starts, to hold the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = COUNT * 2 + 1000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_five_thousand_idle_connections_leave_the_node_usable(node: NodeProcess) -> None:
    create_topic(node.bootstrap, "idle", 1)
    before = node.memory_bytes()
    connections = [connect(node.port) for _ in range(COUNT)]
    try:
        grown = node.memory_bytes() - before
        assert grown / COUNT < BYTES_PER_CONNECTION_MAX
        assert acked(send(node.bootstrap, "idle", [b"still here"])) == [b"still here"]
        for connection in connections[:: COUNT // 50]:
            connection.sendall(_API_VERSIONS)
            assert len(connection.recv(8)) == 8
    finally:
        for connection in connections:
            connection.close()
    assert acked(send(node.bootstrap, "idle", [b"and after"])) == [b"and after"]


def connect(port: int) -> socket.socket:
    """Connect and exchange one request, as a client does before it idles."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.settimeout(10)
    connection.sendall(_API_VERSIONS)
    head = connection.recv(4, socket.MSG_WAITALL)
    connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    return connection
