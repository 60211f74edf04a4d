"""Five thousand idle connections cost little memory and slow nobody down."""

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.node import NodeProcess, answers
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from tests.integration.clients import acked, send

pytestmark = pytest.mark.process
COUNT = 5000
BYTES_PER_CONNECTION_MAX = 16 * 1024
ANY_CONNECTIONS = {"net": {"connections_per_address_max": 0, "connection_rate_per_address_max": 0}}
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
def test_five_thousand_idle_connections_leave_the_node_usable(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, settings=ANY_CONNECTIONS) as node:
        create_topic(node.bootstrap, "idle", 1)
        before = node.memory_bytes()
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(connect(node.port)) for _ in range(COUNT)]
            grown = node.memory_bytes() - before
            assert grown / COUNT < BYTES_PER_CONNECTION_MAX
            assert acked(send(node.bootstrap, "idle", [b"still here"])) == [b"still here"]
            for connection in connections[:: COUNT // 50]:
                connection.sendall(_API_VERSIONS)
                assert len(connection.recv(8)) == 8
        assert acked(send(node.bootstrap, "idle", [b"and after"])) == [b"and after"]


def test_one_address_can_not_take_all_connections(tmp_path: Path) -> None:
    limits = {"net": {"connections_per_address_max": 5, "connection_rate_per_address_max": 0}}
    with NodeProcess(tmp_path, settings=limits) as node, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(node.port)) for _ in range(5)]
        with pytest.raises(OSError, match=r"reset|closed|timed out"):
            stack.enter_context(connect(node.port))
        held[0].close()
        assert wait_until(lambda: answers(node.port), UNTIL_SECONDS)


def connect(port: int) -> socket.socket:
    """Connect and exchange one request, as a client does before it idles."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    try:
        connection.settimeout(10)
        connection.sendall(_API_VERSIONS)
        head = connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            raise ConnectionResetError("closed by the node")
        connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    except OSError:
        connection.close()
        raise
    return connection
