"""The internal topic as a journal: append, load, rewrite, and a crash in a rewrite."""

import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.broker.coordinators.journal import (
    LOAD_BYTES_WEIGHED,
    LOAD_TOGETHER,
    InternalTopicJournal,
)
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.protocol.api_keys import ApiKey
from tests.kafka.test_produce_fetch import create
from tests.live_node import UNTIL_SECONDS, LiveNode, RawClient, running_node

GROUP = "readers"
LONG_VALUE = 30_000
ONE_PARTITION = "groups.partition_count=1"


class Loaded:
    """What a partition has, in the order in which it is told."""

    def __init__(self) -> None:
        self.records: list[UnreadRecord] = []
        self.transactional: list[tuple[Writer, UnreadRecord | bool]] = []
        """Records of transactions, and how each transaction ended."""
        self.unread: list[str] = []
        self.record, self.unread_batch = self.records.append, self.unread.append

    def pending(self, writer: Writer, record: UnreadRecord) -> None:
        self.transactional.append((writer, record))

    def ended(self, writer: Writer, *, is_commit: bool) -> None:
        self.transactional.append((writer, is_commit))


class Journal:
    """The journal of a running node, asked from outside its loop."""

    def __init__(self, node: LiveNode) -> None:
        self.node = node
        self.journal: InternalTopicJournal = node.node.journal

    @property
    def hosted(self) -> HostedPartition:
        hosted = self.journal.partitions[self.partition]
        assert hosted is not None
        return hosted

    @property
    def partition(self) -> int:
        return partition_of(GROUP, len(self.journal.partitions))

    def append(self, *records: JournalRecord) -> Unwritten | None:
        return self._wait(lambda done: self.journal.append(self.partition, list(records), done))

    def load(self) -> list[tuple[bytes | None, bytes | None]]:
        return [record[:2] for record in self.load_whole().records]

    def load_whole(self) -> "Loaded":
        found = Loaded()
        error: PlatformError | None = self._wait(
            lambda done: self.journal.load(self.hosted, found, done)
        )
        assert error is None
        return found

    def rewrite(self, *live: list[JournalRecord]) -> int:
        return self._wait(lambda done: self.journal.rewrite(self.hosted, live, done))

    def _wait(self, start: Any) -> Any:
        ended = threading.Event()
        results: list[Any] = []

        def done(*result: Any) -> None:
            results.extend(result)
            ended.set()

        self.node.call(lambda: start(done))
        assert ended.wait(120)
        return results[0]


def state_of(records: list[tuple[bytes | None, bytes | None]]) -> dict[bytes | None, bytes]:
    """What the records come to: the last value of each key, without those deleted."""
    state: dict[bytes | None, bytes] = {}
    for key, value in records:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


@contextmanager
def open_journal(directory: Path) -> Iterator[Journal]:
    with running_node(directory, ONE_PARTITION) as node:
        yield Journal(node)


def test_few_long_records_are_loaded_in_a_turn(tmp_path: Path) -> None:
    # One record may be a transaction of thousands of partitions: 10 ms.
    records = [(b"k%d" % number, bytes(LONG_VALUE)) for number in range(12)]
    turns, is_over = Counter[int](), threading.Event()
    with open_journal(tmp_path) as journal:
        assert journal.append(*records) is None
        loop, turn = journal.node.loop, 0

        def count() -> None:
            nonlocal turn
            turn += 1
            if not is_over.is_set():
                loop.call_soon(count)

        def note(_: UnreadRecord) -> None:
            turns[turn] += 1

        def load() -> None:
            count()
            found = Loaded()
            found.record = note
            journal.journal.load(journal.hosted, found, lambda _: is_over.set())

        journal.node.call(load)
        assert is_over.wait(UNTIL_SECONDS)
    assert turns.total() == len(records)
    assert max(turns.values()) <= 1 + LOAD_TOGETHER * LOAD_BYTES_WEIGHED // LONG_VALUE


def test_what_was_appended_is_loaded_in_its_order_also_after_a_restart(tmp_path: Path) -> None:
    with open_journal(tmp_path) as journal:
        assert journal.append((b"a", b"1"), (b"b", b"2")) is None
        assert journal.append((b"a", None)) is None
        before = journal.load()
    with open_journal(tmp_path) as journal:
        assert journal.load() == before == [(b"a", b"1"), (b"b", b"2"), (b"a", None)]


def test_a_long_journal_is_loaded_whole(tmp_path: Path) -> None:
    with open_journal(tmp_path) as journal:
        for number in range(60):
            journal.append(*[(b"%d-%d" % (number, at), b"v" * 1000) for at in range(50)])
        assert len(journal.load()) == 3000


def test_a_rewrite_leaves_the_live_records_alone_and_cuts_the_rest(tmp_path: Path) -> None:
    with open_journal(tmp_path) as journal:
        for number in range(20):
            journal.append((b"a", b"%d" % number))
        assert journal.rewrite([(b"a", b"19")]) > 0
        assert journal.load() == [(b"a", b"19")]
        assert journal.hosted.log.log_start_offset == 20


def test_commits_before_and_behind_a_rewrite_keep_their_place(tmp_path: Path) -> None:
    with open_journal(tmp_path) as journal:
        journal.append((b"a", b"1"))
        done: list[Any] = []

        def together() -> None:
            journal.journal.append(journal.partition, [(b"a", b"2")], done.append)
            journal.journal.rewrite(journal.hosted, [[(b"a", b"2")]], done.append)
            journal.journal.append(journal.partition, [(b"a", b"3")], done.append)

        journal.node.call(together)
        journal.append((b"b", b"4"))
        assert len(done) == 3
        assert journal.load() == [(b"a", b"2"), (b"a", b"3"), (b"b", b"4")]


def test_a_crash_between_rewrite_and_cut_leaves_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, crashed = tmp_path / "node", tmp_path / "crashed"
    kept.mkdir()
    with open_journal(kept) as journal:
        journal.append((b"a", b"1"), (b"gone", b"x"))
        journal.append((b"a", b"2"), (b"gone", None))
        cut = journal.hosted.member.log.delete_records

        def copy_and_cut(*arguments: Any) -> int:
            shutil.copytree(kept, crashed)  # as a crash right here would leave the files
            return cut(*arguments)

        monkeypatch.setattr(journal.hosted.member.log, "delete_records", copy_and_cut)
        journal.rewrite([(b"a", b"2")])
        assert journal.load() == [(b"a", b"2")]
    with open_journal(crashed) as journal:
        assert len(journal.load()) == 5
        assert state_of(journal.load()) == {b"a": b"2"}


def test_a_rewrite_on_a_log_that_is_fenced_cuts_nothing(tmp_path: Path) -> None:
    with open_journal(tmp_path) as journal:
        journal.append((b"a", b"1"))
        done: list[int | None] = []

        def fenced() -> None:
            journal.hosted.member.log.writer.fence("the disk is broken")
            journal.journal.rewrite(journal.hosted, [[(b"a", b"1")]], done.append)

        journal.node.call(fenced)
        assert done == [None]
        assert journal.hosted.log.log_start_offset == 0
        assert journal.append((b"b", b"2")) is Unwritten.FAILED


def commit_fields(topic: str, offset: int) -> Mapping[str, Any]:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_id": GROUP}
    return member | {"topics": [{"name": topic, "partitions": [partition]}]}


def committed(client: RawClient, topic: str) -> int:
    topics = [{"name": topic, "partition_indexes": [0]}]
    answer = client.ask(ApiKey.OFFSET_FETCH, 5, {"group_id": GROUP, "topics": topics})
    return int(answer.topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize("rewrite_after_bytes", [1, 1 << 30])
def test_positions_survive_restarts_with_and_without_rewrites(
    tmp_path: Path, rewrite_after_bytes: int
) -> None:
    settings = (
        ONE_PARTITION,
        f"groups.rewrite_after_bytes={rewrite_after_bytes}",
        "broker.housekeeping_interval_ms=100",
    )
    with running_node(tmp_path, *settings) as node:
        create(node, "events")
        client = node.connect()
        hosted = Journal(node).hosted
        for offset in range(1000):
            answer = client.ask(ApiKey.OFFSET_COMMIT, 5, commit_fields("events", offset))
            assert answer.topics[0].partitions[0].error_code == 0
            if hosted.log.log_start_offset > 0 and offset > 20:
                break
        is_rewritten = hosted.log.log_start_offset > 0
        client.close()
    assert is_rewritten == (rewrite_after_bytes == 1)
    with running_node(tmp_path, *settings) as node:
        client = node.connect()
        assert committed(client, "events") == offset
        client.close()
