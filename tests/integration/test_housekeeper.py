"""Long retention beside short: the disk stays bounded, and every record that is kept is read.

A topic that is kept for ever gets a few records between those of a busy one of short retention, in
one log. Without a bound of level 0 the few keep all files; with one they are moved out of them.
"""

import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from tests.integration.clients import PATIENT, check_all_acked, send

pytestmark = pytest.mark.process

LEVEL0 = 512 << 10
SEGMENT = 256 << 10
BUSY_BYTES = 100_000
SETTINGS = {
    "log": {
        "segment_bytes": SEGMENT,
        "first_segment_bytes": SEGMENT,
        "staging_bytes": 128 << 10,
        "checkpoint_interval_ms": 0,
        "recycle_count": 0,
        "reserve_bytes": 0,
        "level0_bytes": LEVEL0,
    },
    "broker": {"housekeeping_interval_ms": 500},
}
SMALL_BATCHES = {**PATIENT, "batch.size": 50_000}
BOUND = LEVEL0 + BUSY_BYTES + 6 * SEGMENT
"""Level 0, what is kept of the busy topic, and what a pass and its snapshot have not deleted."""


class Work:
    """What was produced so far; every value names its number."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.kept: list[bytes] = []
        self.busy_count = 0
        create_topic(node.bootstrap, "kept", 1, {"retention.ms": "-1"})
        create_topic(node.bootstrap, "busy", 1, {"retention.bytes": str(BUSY_BYTES)})

    def produce(self, rounds: int) -> None:
        """Append half a megabyte of the busy topic and a few records of the other, each round."""
        for _ in range(rounds):
            few = [b"%d." % (len(self.kept) + number) + os.urandom(200) for number in range(10)]
            self.send("kept", few)
            self.kept += few
            self.send("busy", [os.urandom(10_000) for _ in range(50)])
            self.busy_count += 50

    def send(self, topic: str, values: list[bytes]) -> None:
        answers = send(self.node.bootstrap, topic, values, settings=SMALL_BATCHES)
        check_all_acked(answers, values)

    def read_kept(self) -> list[str]:
        """Return the numbers that a stock consumer reads from the beginning."""
        polls = read_all(self.node.bootstrap, "kept", 1)
        return [str(value) for poll in polls for _, value in poll.records]

    def is_whole(self) -> bool:
        return self.read_kept() == [str(number) for number in range(len(self.kept))]


def log_bytes(node: NodeProcess) -> int:
    """Return the bytes of the shared files of all logs."""
    return sum(file.stat().st_size for file in node.data.glob("set-*/log/*.log"))


def metric(node: NodeProcess, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics") as page:
        text = page.read().decode()
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    return sum(float(value) for value in found)


def housekeepers(node: NodeProcess) -> list[int]:
    """Return the process ids of the node's housekeeper."""
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"housekeeper" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    with NodeProcess(tmp_path, settings=SETTINGS) as node:
        yield Work(node)


def is_bounded(node: NodeProcess) -> bool:
    return log_bytes(node) <= BOUND


def test_a_topic_that_is_kept_for_ever_does_not_keep_the_records_of_another(work: Work) -> None:
    node = work.node
    work.produce(18)
    assert len(list(node.data.glob("set-*"))) == 1
    assert wait_until(lambda: is_bounded(node), UNTIL_SECONDS), log_bytes(node)
    assert work.busy_count * 10_000 > 4 * BOUND
    assert metric(node, "penstock_second_level_files") > 0
    assert metric(node, "penstock_housekeeper_failures_total") == 0
    assert work.is_whole()
    node.restart()
    assert work.is_whole()
    work.produce(4)
    assert wait_until(lambda: is_bounded(node), UNTIL_SECONDS), log_bytes(node)
    assert work.is_whole()
    assert node.stop() == 0
    node.start()
    assert work.is_whole()


def test_a_node_without_a_bound_keeps_all_files_and_starts_no_process(tmp_path: Path) -> None:
    log = {name: value for name, value in SETTINGS["log"].items() if name != "level0_bytes"}
    with NodeProcess(tmp_path, settings=SETTINGS | {"log": log}) as node:
        work = Work(node)
        work.produce(8)
        assert wait_until(lambda: metric(node, "penstock_log_pinned_bytes") > 0, UNTIL_SECONDS)
        assert log_bytes(node) > BOUND
        assert housekeepers(node) == []
        assert metric(node, "penstock_housekeeper_starts_total") == 0


def test_kills_of_the_housekeeper_and_of_the_node_lose_nothing(work: Work) -> None:
    node = work.node
    work.produce(3)
    for number in range(4):
        assert wait_until(lambda: housekeepers(node), UNTIL_SECONDS)
        (child,) = housekeepers(node)
        work.produce(2)
        os.kill(child, signal.SIGKILL)
        work.produce(2)
        if number % 2:
            children = housekeepers(node)
            node.restart()
            for orphan in children:
                assert wait_until(partial(has_gone, orphan), UNTIL_SECONDS)
            assert work.is_whole()
            work.produce(2)
    assert wait_until(lambda: is_bounded(node), UNTIL_SECONDS), log_bytes(node)
    assert work.is_whole()
    assert metric(node, "penstock_housekeeper_failing_logs") == 0
    node.restart()
    assert work.is_whole()
    names = {path.suffix for path in node.data.glob("set-*/second/*")}
    assert names == {"", ".extents"}


def has_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
