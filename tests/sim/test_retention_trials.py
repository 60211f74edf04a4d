"""Retention on copies of disks: what goes that has to stay, and what stays for nothing, is told."""

from collections.abc import Callable
from random import Random

import pytest

from penstock.base.ids import TopicId, TopicPartition
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig, Retention
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.stores.retention import RetentionPass
from penstock.storage.stores.rules import RetentionRules
from simulator.kernel.disk import SimDisk
from simulator.trials.logs import Known
from simulator.trials.retention import Part, RetentionTrial, kept_from
from simulator.trials.still_log import NOW_MS, StillLog

pytestmark = pytest.mark.timeout(600)  # hangs only

CONFIG = LogConfig(
    segment_bytes=65_536,
    first_segment_bytes=65_536,
    reserve_bytes=0,
    checkpoint_interval_bytes=32_768,
    checkpoint_interval_ms=0,
)
KEYS = [TopicPartition(TopicId(b"some topic in it"), number) for number in range(2)]


def filled() -> tuple[SimDisk, StillLog]:
    """Return a log of four segments; times rise, save for one partition's last records."""
    disk = SimDisk(Random(1))
    still = StillLog(disk, "set-1", CONFIG)
    still.lead()
    for number in range(110):
        partition = still.log.open_partition(KEYS[number % 2])
        at_ms = NOW_MS + (number * 100 if number % 4 else -number * 50)
        batch = memoryview(bytearray(build_batch([Record(b"k", bytes(2_000), (), at_ms)])))
        still.log.append(partition, batch, read_header(batch))
        still.run()
    return disk, still


@pytest.fixture(scope="module")
def disk() -> SimDisk:
    disk, still = filled()
    still.confirm()
    return disk


def told(disk: SimDisk) -> list[str]:
    texts: list[str] = []
    for seed in range(40):
        draw = Random(seed)
        known = Known(
            name="here",
            directory="set-1",
            config=CONFIG,
            live=disk,
            durable=0,
            confirmed=None,
            is_same_log=True,
            log=None,
            has_retention=True,
            has_ended=False,
        )
        texts += RetentionTrial(known, disk.duplicate("", draw), draw).findings()
    return texts


def has(texts: list[str], part: str) -> bool:
    return any(part in text for text in texts)


def test_retention_takes_what_a_plain_model_says(disk: SimDisk) -> None:
    assert told(disk) == []


Over = Callable[[RetentionRules, Retention, PartitionLog, object], bool]


@pytest.mark.parametrize("is_over", [True, False])
def test_log_starts_that_rise_too_far_or_not_at_all(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    monkeypatch.setattr(RetentionRules, "_is_over", lambda *_: is_over)
    texts = told(disk)
    assert has(texts, "begins at")
    assert has(texts, "are gone, and have what is to be kept") == is_over
    if not is_over:
        assert has(texts, "are kept for nothing")


def test_segments_that_go_though_no_snapshot_has_the_new_log_starts(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = RetentionPass._snapshot_taken
    monkeypatch.setattr(RetentionPass, "_snapshot_taken", lambda self, _: taken(self, True))
    assert has(told(disk), "are gone without a snapshot")


def test_frames_in_a_log_that_nobody_leads(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SetLog, "follow", lambda _: None)
    texts = told(disk)
    assert has(texts, "unled, has led: False")
    assert has(texts, "unled, has led: True")


def test_a_partition_that_counts_bytes_that_it_does_not_have() -> None:
    disk, still = filled()
    still.log.partitions[KEYS[0]].size_bytes += 714
    still.confirm()
    texts = told(disk)
    assert has(texts, "bytes from 0 on, and has")
    assert has(texts, "begins at")


def part(first: int, end: int, newest_ms: int, *, is_active: bool = False) -> Part:
    return Part(first, first, end, 100, newest_ms, is_active)


PARTS = [part(0, 3, 10), part(3, 5, 30), part(5, 9, 20, is_active=True)]


@pytest.mark.parametrize(
    ("start", "now_ms", "setting", "kept"),
    [
        (0, 10, Retention(-1, 0), 0),
        (0, 11, Retention(-1, 0), 3),
        (0, 30, Retention(-1, 0), 3),
        (0, 31, Retention(-1, 0), 9),
        (0, 0, Retention(201, -1), 0),
        (0, 0, Retention(200, -1), 3),
        (0, 0, Retention(0, -1), 5),
        (4, 0, Retention(100, -1), 5),
        (5, 20, Retention(-1, 0), 5),
        (9, 99, Retention(-1, 0), 9),
        (0, 99, Retention(-1, -1), 0),
    ],
)
def test_the_model(start: int, now_ms: int, setting: Retention, kept: int) -> None:
    assert kept_from(PARTS, start, now_ms, setting) == kept
