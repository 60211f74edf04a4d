"""What a running node does by itself: retention of topics, never of the internal topic."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.sets.housekeeping import EXPIRE_EVERY_TICKS
from penstock.protocol.api_keys import ApiKey
from tests.broker.test_group_journal import Journal
from tests.kafka.test_produce_fetch import batch, create, fetch_fields, fetched, outcome, produce
from tests.live_node import LiveNode, running_node

SMALL = (
    "log.segment_bytes=65536",
    "log.large_batch_bytes=4096",
    "log.checkpoint_interval_ms=0",
    "groups.partition_count=1",
    "broker.housekeeping_interval_ms=100",
)
OLD_MS = 1_000


def log_start(node: LiveNode, topic: str) -> Callable[[], int]:
    hosted = node.broker.partitions.find(topic, 0)
    assert hosted is not None
    return lambda: hosted.log.log_start_offset


def fill(client: Any, topic: str, timestamp_ms: int) -> None:
    for _ in range(8):
        answer = outcome(produce(client, topic, batch(b"x" * 20_000, timestamp_ms=timestamp_ms)))
        assert answer.error_code == 0


def test_retention_by_time_goes_by_topic_and_leaves_groups_alone(tmp_path: Path) -> None:
    with running_node(tmp_path, *SMALL) as node:
        create(node, "short", retention_ms="1000")
        create(node, "long", retention_ms="-1")
        client = node.connect()
        journal = Journal(node)
        journal.append((b"position", b"1"))
        for topic in ("short", "long"):
            fill(client, topic, OLD_MS)
        short, long = log_start(node, "short"), log_start(node, "long")
        assert node.until(lambda: short() >= 4)
        assert long() == 0
        assert journal.load() == [(b"position", b"1")]
        assert fetched(client.ask(ApiKey.FETCH, 11, fetch_fields("long", 0))).records
        client.close()


def test_members_delete_by_themselves_where_nothing_is_copied_into_the_store(
    tmp_path: Path,
) -> None:
    with running_node(tmp_path, *SMALL, "controller.tiered_topics=true") as node:
        stored = partial(create, node, remote_storage_enable="true", retention_ms="1000")
        stored("copied", local_retention_ms="-2")
        stored("not-copied", remote_log_copy_disable="true")
        client = node.connect()
        for topic in ("copied", "not-copied"):
            fill(client, topic, OLD_MS)
        own, told = log_start(node, "not-copied"), log_start(node, "copied")
        assert node.until(lambda: own() >= 4)
        assert told() == 0, "the master tells what may go, and nothing is in the store"
        client.close()


def test_retention_by_size_deletes_segments_and_counts_them(tmp_path: Path) -> None:
    with running_node(tmp_path, *SMALL) as node:
        create(node, "events", retention_bytes="40000", retention_ms="-1")
        client = node.connect()
        (member,) = node.broker.members.values()
        fill(client, "events", OLD_MS)
        start, kept = log_start(node, "events"), 6  # the last two batches have 40,000 bytes
        # Retention runs meanwhile too: the last segment that goes is waited for, not the first.
        assert node.until(lambda: start() == kept and member.log.numbers().deleted_files >= 2)
        assert fetched(client.ask(ApiKey.FETCH, 11, fetch_fields("events", 0))).error_code == 1
        assert fetched(client.ask(ApiKey.FETCH, 11, fetch_fields("events", kept))).records
        client.close()


def test_every_turn_measures_how_late_the_loop_is(tmp_path: Path) -> None:
    with running_node(tmp_path, *SMALL) as node:
        stats = node.broker.stats
        assert node.until(lambda: stats.loop_delay.count >= 2)


def test_a_turn_that_comes_before_its_time_is_not_late_and_lets_no_counter_fall(
    tmp_path: Path,
) -> None:
    """Found by the simulator: a machine had stood still, and its timers had not."""

    def early(node: LiveNode) -> None:
        housekeeping, delay = node.node.housekeeping, node.broker.stats.loop_delay
        housekeeping.stop()
        housekeeping._due_us = node.broker.clock.monotonic_us() + 1_000_000
        count, total_us = delay.count, delay.total_us
        housekeeping._tick()
        housekeeping.stop()
        assert (delay.count, delay.total_us, delay.buckets[0] > 0) == (count + 1, total_us, True)

    with running_node(tmp_path, *SMALL) as node:
        node.call(lambda: early(node))


def test_the_next_job_of_the_housekeeper_is_begun_in_any_turn_and_looked_for_in_one_of_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def turns(node: LiveNode) -> None:
        housekeeping = node.node.housekeeping
        assert housekeeping.splits is not None
        monkeypatch.setattr(housekeeping.splits, "go_on", lambda: told.append("go on"))
        monkeypatch.setattr(housekeeping.splits, "look", lambda: told.append("look"))
        for _ in range(EXPIRE_EVERY_TICKS):
            housekeeping.stop()
            housekeeping._tick()

    with running_node(tmp_path, *SMALL, "log.level0_bytes=1073741824") as node:
        node.call(lambda: turns(node))
        assert told[:EXPIRE_EVERY_TICKS].count("go on") >= EXPIRE_EVERY_TICKS - 1
        assert told.count("look") >= 1


def test_a_stopped_node_does_nothing_more(tmp_path: Path) -> None:
    with running_node(tmp_path, *SMALL) as node:
        housekeeping = node.node.housekeeping
        node.call(housekeeping.stop)
        node.call(housekeeping.stop)
        assert housekeeping._timer is None
