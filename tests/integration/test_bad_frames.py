"""Twenty thousand bad frames: no unhandled error, no memory, and no harm to anybody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bad_input.callers import Members, call
from harness.bad_input.frame import BadFrame
from harness.bad_input.generator import bad_frames
from harness.bad_input.http_requests import http_frames
from harness.bad_input.peers import PURPOSES, stranger_frames
from harness.bad_input.sender import Sender, Tally
from harness.bad_input.sweeps import swept_frames
from harness.cluster import ClusterProcess
from harness.node import NodeProcess
from harness.workload import create_topic, read_all
from reliability.attacks.bad_input_watch import findings
from tests.integration.clients import acked, send

pytestmark = pytest.mark.process
FRAMES = 16_000
SWEPT = 3_000
FEW = 500
TURNS = 4
SEED = 1
GROWTH_BYTES_MAX = 32 << 20
ANY_CONNECTIONS = {"net": {"connections_per_address_max": 0, "connection_rate_per_address_max": 0}}
TOPIC = "unharmed"
LOOPBACK = "127.0.0.1"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path, settings=ANY_CONNECTIONS) as running:
        create_topic(running.bootstrap, TOPIC, 1)
        yield running


def written(bootstrap: str, turn: int) -> list[bytes]:
    """Write as a good client does."""
    values = [b"%d-%d" % (turn, number) for number in range(5)]
    assert acked(send(bootstrap, TOPIC, values)) == values
    return values


def read(bootstrap: str) -> list[bytes]:
    return [
        str(value).encode() for poll in read_all(bootstrap, TOPIC, 1) for _, value in poll.records
    ]


def frames_of_turn(turn: int) -> Iterator[BadFrame]:
    yield from bad_frames(SEED, FRAMES // TURNS, turn * FRAMES // TURNS)
    yield from swept_frames(SEED + turn, SWEPT // TURNS, turn * 4_001)


def test_twenty_thousand_bad_frames_harm_nobody(node: NodeProcess) -> None:
    sender = Sender((LOOPBACK, node.port))
    sender.send(bad_frames(SEED, 1_000, FRAMES))  # by then everything was loaded and used once
    before = node.memory_bytes()
    expected = []
    for turn in range(TURNS):
        sender.send(frames_of_turn(turn))
        expected += written(node.bootstrap, turn)
    assert sender.tally.sent == FRAMES + SWEPT + 1_000
    assert sender.tally.refused > FRAMES // 2
    assert sender.tally.answered > FRAMES // 10
    assert not sender.tally.problems
    assert node.memory_bytes() - before < GROWTH_BYTES_MAX
    assert read(node.bootstrap) == expected
    assert not findings([node])


def test_bad_requests_to_the_http_port_harm_nobody(node: NodeProcess) -> None:
    tally = Tally()
    before = node.memory_bytes()
    call((LOOPBACK, node.metrics_port), http_frames(SEED, FEW), tally)
    assert tally.sent == FEW
    assert node.memory_bytes() - before < GROWTH_BYTES_MAX
    assert not findings([node])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    directory = tmp_path_factory.mktemp("cluster")
    with ClusterProcess(directory, brokers=1, replicas=1, settings=ANY_CONNECTIONS) as running:
        create_topic(running.bootstrap, TOPIC, 1)
        yield running


def peer_ports(cluster: ClusterProcess) -> tuple[int, int]:
    """Return the ports for controllers and for slaves of the only node."""
    controller, ha = (port for port in cluster.ports if port != cluster.nodes[1].port)
    return controller, ha


def test_strangers_at_the_ports_of_peers_harm_nobody(cluster: ClusterProcess) -> None:
    tally, node = Tally(), cluster.nodes[1]
    before = node.memory_bytes()
    for port in peer_ports(cluster):
        call((LOOPBACK, port), stranger_frames(SEED, FEW, port % 1_000), tally)
    assert tally.refused > FEW
    assert node.memory_bytes() - before < GROWTH_BYTES_MAX
    assert not findings([node])


def test_bad_frames_of_a_peer_that_knows_the_secret_harm_nobody(cluster: ClusterProcess) -> None:
    tally, node = Tally(), cluster.nodes[1]
    controller, ha = ((LOOPBACK, port) for port in peer_ports(cluster))
    secret = (cluster.directory / "cluster.secret").read_bytes().strip()
    members = Members(dict(zip(PURPOSES, (controller, controller, ha, ha), strict=True)), secret)
    before = node.memory_bytes()
    members.send(SEED, 0, 2 * FEW, tally)
    members.close()
    assert tally.sent == 2 * FEW
    assert not tally.problems
    assert tally.refused > FEW // 2
    assert tally.answered > FEW // 10
    assert node.memory_bytes() - before < GROWTH_BYTES_MAX
    assert not findings([node])
