"""A node that was of a later version once: what that wrote for groups outlives rewrites."""

from pathlib import Path
from typing import Any

from penstock.coordinator.records import UnreadRecord
from penstock.protocol.api_keys import ApiKey
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.record.build import Record, build_batch
from penstock.record.read import iter_batches, iter_records
from tests.broker.test_group_journal import GROUP, Journal
from tests.broker.test_housekeeping import SMALL
from tests.kafka.test_produce_fetch import fetch_fields, fetched
from tests.live_node import LiveNode, running_node

REWRITTEN_OFTEN = (*SMALL, "groups.rewrite_after_bytes=1")
NEWER = Record(b"\x00\x09later", b"a kind of record to come", (("h", b"1"),), 1_600_000_000_000)
GROUP_KEY = b"\x00\x02" + len(GROUP).to_bytes(2, "big") + GROUP.encode()
NEWER_GROUP = Record(GROUP_KEY, b"\x00\x63 members", (), 1_600_000_000_001)


def append_raw(journal: Journal, *records: Record, attributes: int = 0) -> None:
    """Append a batch as another version's coordinator would."""

    def write() -> None:
        built = memoryview(bytearray(build_batch(list(records), attributes=attributes)))
        hosted = journal.hosted
        hosted.member.log.append(hosted.log, built, read_header(built))

    journal.node.call(write)
    assert journal.append((b"\x00\x0abehind it", None)) is None  # and wait until it is confirmed


def internal_records(node: LiveNode) -> list[Any]:
    """What the internal partition holds, from its start, as any client reads it."""
    client = node.connect()
    try:
        hosted = Journal(node).hosted
        start = node.call(lambda: hosted.log.log_start_offset)
        answer = client.ask(ApiKey.FETCH, 11, fetch_fields("__consumer_offsets", start))
        run = memoryview(fetched(answer).records)
        return [record for _, each in iter_batches(run) for record in iter_records(each)]
    finally:
        client.close()


def log_end(node: LiveNode) -> int:
    hosted = Journal(node).hosted
    return node.call(lambda: hosted.log.log_end_offset)


def is_rewritten(node: LiveNode, end: int) -> bool:
    """Whether all that lay below `end` is cut off, now or soon."""
    hosted = Journal(node).hosted
    return node.until(lambda: hosted.log.log_start_offset >= end)


def test_records_of_a_later_version_outlive_restarts_and_rewrites(tmp_path: Path) -> None:
    with running_node(tmp_path, *SMALL) as node:
        append_raw(Journal(node), NEWER, NEWER_GROUP)
        end = log_end(node)
    for _ in range(2):
        with running_node(tmp_path, *REWRITTEN_OFTEN) as node:
            assert is_rewritten(node, end)
            found, end = internal_records(node), log_end(node)
    kept = [Record(r.key, r.value, r.headers, r.timestamp_ms) for r in found]
    assert NEWER in kept
    assert NEWER_GROUP in kept


def test_a_transaction_of_a_later_version_keeps_the_partition_as_it_is(tmp_path: Path) -> None:
    with running_node(tmp_path, *SMALL) as node:
        append_raw(Journal(node), NEWER, attributes=TRANSACTIONAL)
    with running_node(tmp_path, *REWRITTEN_OFTEN) as node:
        journal = Journal(node)
        assert journal.append((b"\x00\x0abehind it", None)) is None
        groups = node.broker.groups
        assert node.until(lambda: groups.runtime.base.rewrites.held == (0,))
        found = journal.load_whole()
        ((_, record),) = found.transactional
        assert isinstance(record, UnreadRecord)
        assert record.key == NEWER.key
        assert NEWER.key not in [record.key for record in found.records]
        assert node.call(lambda: journal.hosted.log.log_start_offset) == 0
        assert internal_records(node)[0].key == NEWER.key
