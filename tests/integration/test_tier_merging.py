"""Nodes that merge small objects of the store: stock consumers read the same as before, all of it.

Each object has a few batches. Masters are killed when the first merged object of theirs is in the
store: it is noted by then, or nobody's.
"""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from penstock.runtime.io.object_store import open_directory
from penstock.tier.errors import ObjectNotFound
from penstock.tier.read.describe import describe_object
from tests.integration.clients import check_all_acked, send
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import (
    COUNT,
    SMALL_BATCHES,
    TOPIC,
    Directory,
    has_deleted,
    numbers_read,
    offset_at,
    produce,
    settings,
    until,
)
from tests.integration.test_tier_failover import Copied
from tests.integration.test_tier_reads import EARLIEST, EARLIEST_LOCAL, FREED, consumed, transact

pytestmark = pytest.mark.process

MERGES = {"object_bytes": 60_000, "merge_bytes": 4 << 20, "merge_ms": 1_000, "merge_runs": 2}
RUNS_LEFT = 5
"""Of a dozen or more, at most: one or two of each generation, and new ones."""
KILLS = 3
PAUSE_SECONDS = 2
"""Between two writes: what was written is split by then, if the machine is not busy."""


def generations(store: Directory) -> dict[str, int]:
    """Return the highest generation of what each object has."""
    opened, found = open_directory(store.path), {}
    for path in store.objects():
        name = str(path.relative_to(store.path))
        try:
            entries = asyncio.run(describe_object(opened, name)).directory.entries
        except ObjectNotFound:  # it was deleted since it was listed
            continue
        found[name] = max(entry.generation for entry in entries)
    return found


def has_few_runs(node: NodeProcess, count: int) -> bool:
    """Whether most of so many records are in the store, in few runs."""
    is_there = metric(node, "penstock_tier_live_objects") > 0 and offset_at(node, -6) >= count
    return is_there and metric(node, "penstock_tier_runs") <= RUNS_LEFT


def test_many_small_objects_become_few_and_a_stock_consumer_reads_all_from_them(
    tmp_path: Path,
) -> None:
    store = Directory(tmp_path / "store")
    own = settings(store.url, **MERGES)
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        count = 0
        for _ in range(5):
            count += len(produce(node, TOPIC, count, COUNT))
        until(lambda: metric(node, "penstock_tier_merged_runs_total") > 0, node)
        until(partial(has_few_runs, node, count - COUNT // 2), node)
        assert metric(node, "penstock_tier_merge_failures_total") == 0
        until(partial(has_deleted, node), node)
        assert max(generations(store).values()) >= 1
        until(lambda: offset_at(node, EARLIEST_LOCAL) > COUNT, node)
        assert offset_at(node, EARLIEST) == 0
        assert numbers_read(node) == [str(number) for number in range(count)]


def test_what_was_aborted_is_not_read_from_what_was_merged(tmp_path: Path) -> None:
    store = Directory(tmp_path / "store")
    with NodeProcess(tmp_path / "node", settings=settings(store.url, **MERGES)) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        values: list[bytes] = []
        for at in range(4):
            transact(node, f"a{at}", 150 * at, is_commit=False)
            values += transact(node, f"c{at}", 150 * at, is_commit=True)
        end = offset_at(node, -1)
        produce(node, TOPIC, 0, COUNT)
        until(partial(has_few_runs, node, end), node)
        until(lambda: offset_at(node, EARLIEST_LOCAL) >= end, node)
        got = consumed(node, len(values) + COUNT, **{"group.id": "committed"})
        assert [value for _, value in got][: len(values)] == values


class Merged(Copied):
    """Two members of a set that merge, and what was written to its topic."""

    def settings_of(self, peer_id: int) -> dict[str, dict[str, object]]:
        del peer_id
        return settings(self.store.url, **MERGES)

    def produce_some(self) -> None:
        first = len(self.values)
        values = [b"%d." % number + bytes(2_000) for number in range(first, first + COUNT)]
        answers = send(self.layout.bootstrap, TOPIC, values, settings=SMALL_BATCHES)
        check_all_acked(answers, values)
        self.values += values

    def kill_the_master_at_its_next_merge(self) -> int:
        """Write until there is a merged object that is new, and kill whoever leads; return whom.

        What is written at once may be one run, of which nothing is to be merged.
        """
        known, master = generations(self.store), self.master(via=1)
        node = self.layout.nodes[master]
        now = time.monotonic()
        deadline, due = now + UNTIL_SECONDS, now
        while not any(
            generation and name not in known for name, generation in generations(self.store).items()
        ):
            now = time.monotonic()
            assert now < deadline, self.layout.tails()
            if now >= due:
                self.produce_some()
                due = time.monotonic() + PAUSE_SECONDS
            time.sleep(0.001)
        node.kill()
        return master


@pytest.fixture
def merged(tmp_path: Path) -> Iterator[Merged]:
    made = Merged(tmp_path)
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def test_masters_that_are_killed_while_they_merge_leave_all_of_it_once_and_nothing_behind(
    merged: Merged,
) -> None:
    layout = merged.layout
    for _ in range(KILLS):
        killed = merged.kill_the_master_at_its_next_merge()
        layout.nodes[killed].start()
        layout.wait_in_step(merged.set_id, [1, 2, 3], via=killed)
    merged.produce_some()
    end = len(merged.values) - COUNT // 2
    assert wait_until(merged.is_clean, UNTIL_SECONDS), layout.tails()
    assert wait_until(partial(merged.is_copied, end), UNTIL_SECONDS), layout.tails()
    polls = read_all(layout.bootstrap, TOPIC, 1)
    numbers = [str(value) for poll in polls for _, value in poll.records]
    assert numbers == [str(number) for number in range(len(merged.values))]
