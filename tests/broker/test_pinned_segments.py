"""Retention bounds the disk also where groups commit: what only positions keep is written anew."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.storage.commit_log.pins import Pin, PinReport
from tests.broker.test_group_journal import Journal
from tests.broker.test_housekeeping import SMALL, fill
from tests.kafka.test_produce_fetch import create
from tests.live_node import LiveNode, RawClient, running_node

SEGMENT = 65_536
BOUND = 3 * SEGMENT
NODE = (*SMALL, f"groups.rewrite_after_pinned_bytes={BOUND}")


def commit(client: RawClient, group: str, offset: int) -> None:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_id": group}
    topics = [{"name": "events", "partitions": [partition]}]
    answer = client.ask(ApiKey.OFFSET_COMMIT, 5, fields | {"topics": topics})
    assert answer.topics[0].partitions[0].error_code == 0


def committed(client: RawClient, group: str) -> int:
    topics = [{"name": "events", "partition_indexes": [0]}]
    answer = client.ask(ApiKey.OFFSET_FETCH, 5, {"group_id": group, "topics": topics})
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def report_of(node: LiveNode) -> Callable[[], PinReport]:
    (member,) = node.broker.members.values()
    return lambda: member.log.pins


def size_of(node: LiveNode) -> Callable[[], int]:
    (member,) = node.broker.members.values()
    return lambda: member.log.numbers().file_bytes


def kept_at_most(node: LiveNode, size_bytes: int) -> bool:
    size = size_of(node)
    return node.until(lambda: size() <= size_bytes)


@pytest.mark.parametrize("partitions", [1, 4])
def test_groups_that_commit_do_not_keep_the_files_of_what_is_out_of_retention(
    tmp_path: Path, partitions: int
) -> None:
    with running_node(tmp_path, *NODE, f"groups.partition_count={partitions}") as node:
        create(node, "events", retention_bytes="40000", retention_ms="-1")
        client = node.connect()
        commit(client, "idle", 3)  # once, and never again
        for turn in range(12):
            fill(client, "events", 1_000)
            for group in ("a", "b", "c"):
                commit(client, group, turn)
        # 2 MB were written. What stays: the bound, what is in retention, the active segment.
        assert kept_at_most(node, BOUND + 3 * SEGMENT)
        assert [committed(client, group) for group in ("idle", "a", "b", "c")] == [3, 11, 11, 11]
        client.close()
    with running_node(tmp_path, *NODE, f"groups.partition_count={partitions}") as node:
        client = node.connect()
        assert [committed(client, group) for group in ("idle", "a", "b", "c")] == [3, 11, 11, 11]
        client.close()


def test_what_other_topics_keep_is_named_and_positions_are_not_moved_for_it(
    tmp_path: Path,
) -> None:
    with running_node(tmp_path, *NODE) as node:
        create(node, "events", retention_bytes="40000", retention_ms="-1")
        kept = create(node, "kept", retention_ms="-1")
        client = node.connect()
        for turn in range(8):
            fill(client, "events", 1_000)
            fill(client, "kept", 1_000) if not turn % 2 else None
            commit(client, "a", turn)
        report = report_of(node)
        seen = node.call(report).number
        # Passes run meanwhile too: the one after that which is under way has seen all of it.
        assert node.until(lambda: report().number > seen + 1)
        # Positions may be moved, as they should be; the next pass tells what that has set free.
        start = node.call(lambda: Journal(node).hosted.log.log_start_offset)
        assert start == 0 or node.until(lambda: report().movable.size_bytes < BOUND)
        pins = node.call(report)
        client.close()
    assert len(pins.segments) > 10
    heaviest, amount = next(pins.heaviest(1))
    assert heaviest.topic_id == kept
    assert amount.segments >= 8
    assert amount.size_bytes == amount.segments * SEGMENT
    assert pins.segments[-1].pin is Pin.ACTIVE


def test_a_partition_that_may_not_be_rewritten_is_named_as_what_keeps_its_files(
    tmp_path: Path,
) -> None:
    with running_node(tmp_path, *NODE) as node:
        create(node, "events", retention_bytes="40000", retention_ms="-1")
        client = node.connect()
        node.call(lambda: node.broker.groups.runtime.base.rewrites.hold(0))
        for turn in range(8):
            fill(client, "events", 1_000)
            commit(client, "a", turn)
        report = report_of(node)
        assert node.until(lambda: report().pinned_bytes > 2 * BOUND)
        pins = node.call(report)
        assert pins.movable.size_bytes == 0
        internal = Journal(node).hosted.log.topic_partition
        assert next(pins.heaviest(1))[0] == internal
        client.close()
