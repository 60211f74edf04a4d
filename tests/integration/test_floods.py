"""Floods of connections and bombs: bounded memory, typed refusals, and a node that goes on."""

import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.bad_input.bomb_frames import BOMB_TOPIC, BOMB_TOPIC_CONFIG, BOMB_VERSION, bomb_frame
from harness.bad_input.bombs import bombs
from harness.bad_input.floods import announced, churn, connect, idle, slow_writers
from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response
from reliability.attacks.bad_input_watch import MemoryWatch, findings
from tests.integration.clients import acked, send

pytestmark = pytest.mark.process
LOOPBACK = "127.0.0.1"
GROWTH_BYTES_MAX = 32 << 20
UNPACKED_BYTES_MAX = 64 << 20
"""What one batch may unpack to by default; one is unpacked at a time."""
FLOOD_SECONDS = 2.0
SLOW_WRITERS = 1_000
IDLE = 10_000
IDLE_BYTES_MAX = 6 << 10
TOPIC = "unharmed"
NET = {
    "net": {
        "connections_per_address_max": 0,
        "connection_rate_per_address_max": 0,
        "connections_max": 2 * IDLE,
        "unfinished_bytes_max": 8 << 20,
    }
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path, settings=NET) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(TOPIC, 1, 1), NewTopic(BOMB_TOPIC, 1, 1, config=BOMB_TOPIC_CONFIG)]
        for created in admin.create_topics(topics).values():
            created.result(UNTIL_SECONDS)
        yield running
        assert not findings([running])


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process, and the node that it starts, to hold the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 1_000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the limit of open files is {hard}, {wanted} are needed: raise `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def serves(node: NodeProcess) -> bool:
    """Say whether a good client's records are taken."""
    return acked(send(node.bootstrap, TOPIC, [b"a", b"b"])) == [b"a", b"b"]


def goes_on_for(node: NodeProcess, seconds: float) -> int:
    """Write as a good client for so long; returns the node's growth meanwhile, in bytes."""
    memory = MemoryWatch([node], seconds=0.05)
    memory.start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert serves(node)
    return memory.stop()


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_idle_connections_take_little_memory(node: NodeProcess) -> None:
    assert serves(node)
    before = node.memory_bytes()
    with idle((LOOPBACK, node.port), IDLE):
        assert node.memory_bytes() - before < IDLE * IDLE_BYTES_MAX
        assert serves(node)
    assert serves(node)


@pytest.mark.usefixtures("many_files")
def test_a_thousand_slow_writers_take_little_memory(node: NodeProcess) -> None:
    assert serves(node)
    with slow_writers((LOOPBACK, node.port), SLOW_WRITERS):
        assert goes_on_for(node, FLOOD_SECONDS) < GROWTH_BYTES_MAX


def test_large_frames_that_never_end_take_no_more_than_their_budget(node: NodeProcess) -> None:
    assert serves(node)
    held = [connect((LOOPBACK, node.port)) for _ in range(60)]
    memory = MemoryWatch([node], seconds=0.05)
    memory.start()
    try:
        for connection in held:
            connection.settimeout(0.2)
            try:
                connection.sendall(struct.pack(">i", 15 << 20) + bytes(2 << 20))
            except TimeoutError:
                continue  # it is not read any more: the budget is used up
        assert serves(node)
    finally:
        for connection in held:
            connection.close()
    assert memory.stop() < GROWTH_BYTES_MAX


def test_announcements_of_two_gibibytes_take_no_memory(node: NodeProcess) -> None:
    assert serves(node)
    with announced((LOOPBACK, node.port)):
        assert goes_on_for(node, FLOOD_SECONDS) < GROWTH_BYTES_MAX
    with connect((LOOPBACK, node.port)) as connection:
        connection.settimeout(UNTIL_SECONDS)
        connection.sendall(struct.pack(">i", 2**31 - 1))
        assert connection.recv(1) == b""


def test_connections_that_come_and_go_leave_nothing_behind(node: NodeProcess) -> None:
    assert serves(node)
    with churn((LOOPBACK, node.port)):
        assert goes_on_for(node, FLOOD_SECONDS) < GROWTH_BYTES_MAX


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd", "snappy", "snappy claim"])
def test_a_bomb_of_a_gibibyte_is_refused_and_takes_little_memory(
    node: NodeProcess, name: str
) -> None:
    assert serves(node)
    _, batch = bombs()[name]
    refusals = [produced(node, batch) for _ in range(2)]  # the first one warms pools up
    memory = MemoryWatch([node], seconds=0.01)
    memory.start()
    refusals += [produced(node, batch) for _ in range(5)]
    assert serves(node)
    assert memory.stop() < UNPACKED_BYTES_MAX + GROWTH_BYTES_MAX
    # Snappy makes twenty times as much of its bytes: that is within bounds, but no records.
    is_within = name == "snappy"
    wanted = ErrorCode.INVALID_RECORD if is_within else ErrorCode.MESSAGE_TOO_LARGE
    assert set(refusals) == {wanted}


def produced(node: NodeProcess, batch: bytes) -> int:
    """Produce one batch; returns the error code of the answer."""
    with socket.create_connection((LOOPBACK, node.port), UNTIL_SECONDS) as connection:
        connection.sendall(bomb_frame(batch))
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        answer = memoryview(connection.recv(size, socket.MSG_WAITALL))
    found = decode_response(ApiKey.PRODUCE, BOMB_VERSION, answer, 4)
    return int(found.responses[0].partition_responses[0].error_code)
