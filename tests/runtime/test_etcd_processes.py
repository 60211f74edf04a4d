"""Controllers over etcd as real processes that are killed and stopped; what they saw must agree."""

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.etcd_server import EtcdServer, why_no_etcd

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(120),
    pytest.mark.skipif(why_no_etcd() is not None, reason=str(why_no_etcd())),
]

WAIT_S = 20.0
PEERS = (1, 2, 3)


class Peers:
    """Three processes, and the history that each of them writes down."""

    def __init__(self, directory: Path, etcd: EtcdServer) -> None:
        self._directory = directory
        self._etcd = etcd
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, peer_id: int) -> None:
        command = [sys.executable, "-m", "tests.integration.etcd_peer", self._etcd.url]
        command += [str(self._directory / str(peer_id)), str(peer_id), str(self._path(peer_id))]
        with (self._directory / f"{peer_id}.errors").open("ab") as errors:
            self._processes[peer_id] = subprocess.Popen(command, stderr=errors)

    def signal(self, peer_id: int, number: signal.Signals) -> None:
        self._processes[peer_id].send_signal(number)
        if number is signal.SIGKILL:
            self._processes[peer_id].wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def wait_for_leader(self, *, term: int) -> int:
        """Return who leads in `term` or a later one."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for peer_id in PEERS:
                moments = self.moments_of(peer_id)
                if moments and moments[-1][1] >= term:
                    return peer_id
            time.sleep(0.02)
        raise AssertionError(f"nobody leads in term {term}: {self.errors()}")

    def last_term(self) -> int:
        return max((term for peer in PEERS for _, term in self.moments_of(peer)), default=0)

    def moments_of(self, peer_id: int) -> list[tuple[int, int]]:
        """When the peer led, and in which term."""
        lines = [line.split() for line in self.lines(peer_id) if line.startswith("L ")]
        return [(int(line[1]), int(line[2])) for line in lines]

    def lines(self, peer_id: int) -> list[str]:
        path = self._path(peer_id)
        # What stands behind the last end of line is being written.
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def errors(self) -> str:
        return "".join((self._directory / f"{one}.errors").read_text()[-500:] for one in PEERS)

    def _path(self, peer_id: int) -> Path:
        return self._directory / f"{peer_id}.history"


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path / "etcd") as server:
        yield server


@pytest.fixture
def peers(tmp_path: Path, etcd: EtcdServer) -> Iterator[Peers]:
    peers = Peers(tmp_path, etcd)
    for peer_id in PEERS:
        peers.start(peer_id)
    yield peers
    peers.stop()


def test_two_never_lead_at_once_whoever_is_killed_or_stopped(
    peers: Peers, etcd: EtcdServer
) -> None:
    for _ in range(2):
        leader = peers.wait_for_leader(term=peers.last_term() or 1)
        peers.signal(leader, signal.SIGSTOP)
        peers.wait_for_leader(term=peers.last_term() + 1)
        peers.signal(leader, signal.SIGCONT)

        leader = peers.wait_for_leader(term=peers.last_term())
        peers.signal(leader, signal.SIGKILL)
        peers.wait_for_leader(term=peers.last_term() + 1)
        peers.start(leader)

        term = peers.last_term()
        etcd.kill()
        etcd.start()
        peers.wait_for_leader(term=term)
    peers.stop()
    check_leaderships(peers)
    check_entries(peers)


def check_leaderships(peers: Peers) -> None:
    """One leader for a term, and what was the time of one term was not that of another."""
    terms: dict[int, tuple[int, int, int]] = {}
    for peer_id in PEERS:
        for moment, term in peers.moments_of(peer_id):
            first, last, leader = terms.get(term, (moment, moment, peer_id))
            assert leader == peer_id, f"{leader} and {peer_id} led in term {term}"
            terms[term] = (min(first, moment), max(last, moment), leader)
    in_order = [terms[term] for term in sorted(terms)]
    assert len(in_order) >= 5
    for (_, ended, _), (began, _, _) in itertools.pairwise(in_order):
        assert ended < began


def check_entries(peers: Peers) -> None:
    """Everybody applied the same entries, each once; all acknowledged ones are among them."""
    logs: list[list[str]] = []
    acknowledged: set[str] = set()
    for peer_id in PEERS:
        lives = "\n".join(peers.lines(peer_id)).split("S\n")
        for life in lives:
            lines = life.splitlines()
            logs.append([line[2:] for line in lines if line.startswith("A ")])
            acknowledged |= {line[2:] for line in lines if line.startswith("D ")}
    longest = max(logs, key=len)
    assert len(set(longest)) == len(longest)
    assert all(log == longest[: len(log)] for log in logs)
    assert acknowledged
    assert acknowledged <= set(longest)
