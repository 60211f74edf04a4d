"""Produce and consume over HTTP while masters, and the HTTP process itself, are killed with -9."""

import http.client
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from harness.cluster import ClusterProcess
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.http_front import Answer, HttpProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings

pytestmark = pytest.mark.process
TOPIC, GROUP = "orders", "billing"
KILLS = 3
EACH = 40
"""Messages that have to be acknowledged between two kills."""


class Run:
    """A writer and a reader over HTTP, and what they were told."""

    def __init__(self, front: HttpProcess) -> None:
        self.front = front
        self.is_over = False
        self.confirmed: set[str] = set()
        self.seen: set[str] = set()
        self.done: set[tuple[str, int]] = set()
        self.problems: list[str] = []
        self.statuses: Counter[int] = Counter()
        self._lock = threading.Lock()

    def write(self, name: str) -> None:
        number = 0
        while not self.is_over:
            number += 1
            message = {"value": "x", "id": f"{name}-{number}"}
            if number % 2:
                message["key"] = str(number % 7)
            answer = self._ask(f"/v1/topics/{TOPIC}/messages", {"messages": [message]})
            if answer is not None and answer.status == 200:
                self.confirmed.add(message["id"])

    def read(self) -> None:
        while not (self.is_over and self.confirmed <= self.seen):
            done = set(self.done)  # what is acknowledged while this one is asked may have come
            wish = {"wait_seconds": 1, "invisible_seconds": 5}
            answer = self._ask(f"/v1/topics/{TOPIC}/groups/{GROUP}/receive", wish)
            if answer is None or answer.status != 200:
                continue
            places = {}
            for one in answer.messages:
                place = one["queue"], one["offset"]
                if place in done:
                    self.problems.append(f"{place} was acknowledged, and came again")
                self.seen.add(one["id"])
                places[one["receipt"]] = place
            if places:
                self._acknowledge(places)

    def _acknowledge(self, places: dict[str, tuple[str, int]]) -> None:
        body = {"receipts": list(places)}
        answer = self._ask(f"/v1/topics/{TOPIC}/groups/{GROUP}/ack", body)
        if answer is None or answer.status not in {200, 207}:
            return
        told = answer.document["receipts"]
        with self._lock:
            self.done |= {places[one["receipt"]] for one in told if "problem" not in one}

    def _ask(self, path: str, body: object) -> Answer | None:
        try:
            answer = self.front.ask("POST", path, body)
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)  # it is being started again
            return None
        self.statuses[answer.status] += 1
        if answer.status >= 500 and answer.status != 503:
            self.problems.append(str(answer))
        return answer


def test_what_is_confirmed_is_received_and_what_is_acknowledged_never_comes_again(
    tmp_path: Path,
) -> None:
    with ClusterProcess(tmp_path / "cluster", has_remoting=True) as cluster:
        with Cluster(ClientSettings(bootstrap=cluster.bootstrap)) as client:
            Admin(client).create_topic(TOPIC, partitions=3)
        addresses = [f"127.0.0.1:{port}" for port in cluster.remoting_ports.values()]
        with HttpProcess(tmp_path / "http", addresses) as front:
            run = Run(front)
            threads = [threading.Thread(target=run.write, args=(name,)) for name in "ab"]
            threads += [threading.Thread(target=run.read) for _ in range(2)]
            for one in threads:
                one.start()
            try:
                through_kills(cluster, run)
            finally:
                run.is_over = True
                for one in threads:
                    one.join(UNTIL_SECONDS)
            assert not any(one.is_alive() for one in threads), run.confirmed - run.seen
            assert not run.problems
            assert len(run.confirmed) >= KILLS * EACH
            assert run.confirmed <= run.seen
            assert "Traceback" not in front.log(), front.log()


def through_kills(cluster: ClusterProcess, run: Run) -> None:
    """Kill masters, and in between the HTTP process, each after some progress."""
    for number in range(KILLS):
        wanted = len(run.done) + EACH
        assert wait_until(partial(_has_done, run, wanted), UNTIL_SECONDS), run.statuses
        assert wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX)
        master = cluster.wait_for_leader(TOPIC, number)
        cluster.nodes[master].kill()
        if number == 1:
            run.front.kill()
            run.front.start()
        cluster.nodes[master].start()
    wanted = len(run.done) + EACH
    assert wait_until(partial(_has_done, run, wanted), UNTIL_SECONDS), run.statuses


def _has_done(run: Run, wanted: int) -> bool:
    return len(run.done) >= wanted
