"""Opening a log off the loop: the line it leaves, and giving up on the way."""

import asyncio
import logging
from pathlib import Path

import pytest
from crc32c import crc32c

from penstock.base.ids import LeaderEpoch, ReplicaSetId, TopicId, TopicPartition
from penstock.node.layout import ReplicaSetPlace
from penstock.node.pages.readiness import Readiness
from penstock.node.recovery import GivenUp, LogOpener
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.disk import FileDisk, ThreadOffload
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig
from penstock.storage.errors import NewerFormat
from tests.net.serving import run

CONFIG = LogConfig(segment_bytes=32 << 20, first_segment_bytes=32 << 20, reserve_bytes=0)
PARTITION = TopicPartition(TopicId(bytes(16)), 0)


class Place:
    """One data directory with its threads."""

    def __init__(self, path: Path) -> None:
        self.place = ReplicaSetPlace(ReplicaSetId(1), path)
        self.disk = FileDisk(path)
        self.readiness = Readiness()
        self.workers = ThreadOffload(asyncio.get_running_loop(), name="disk")

    def opener(self) -> LogOpener:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        return LogOpener(CONFIG, SystemClock(), scheduler, self.readiness)

    async def open(self, opener: LogOpener) -> SetLog:
        return await opener.open(self.place, self.disk, self.workers, is_sole_member=True)


def append(log: SetLog, count: int, size: int) -> None:
    partition = log.open_partition(PARTITION)
    for _ in range(count):
        batch = memoryview(bytearray(build_batch([Record(None, bytes(size), (), 1)])))
        log.append(partition, batch, read_header(batch))


async def filled(place: Place, *, is_crash: bool) -> int:
    """Leave 20 MB behind; returns the end offset."""
    log = await place.open(place.opener())
    log.begin_epoch(LeaderEpoch(1))
    append(log, 20, 1_000_000)
    flushed = asyncio.get_running_loop().create_future()

    def note() -> None:
        if not flushed.done() and log.flushed_position >= log.end_position:
            flushed.set_result(None)

    log.on_flushed = note
    await flushed
    if not is_crash:
        log.close()
    return log.partitions[PARTITION].log_end_offset


def test_the_line_after_a_crash_says_what_was_replayed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        place = Place(tmp_path)
        end = await filled(place, is_crash=True)
        log = await place.open(place.opener())
        assert log.partitions[PARTITION].log_end_offset == end
        assert log.recovery.replayed_bytes > 19_000_000
        log.close()
        again = await place.open(place.opener())
        again.close()

    run(scenario())
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("recovery set=1")]
    assert "replayed=200" in lines[-2]
    assert "replayed=0 frames=0" in lines[-1]
    assert lines[-1].endswith("clean")


def test_progress_counts_bytes_of_data_and_not_allocated_space(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place, is_crash=True)
        seen: list[dict[str, int]] = []
        enter = place.readiness.enter

        def noted(phase: str, **progress: int) -> None:
            seen.append(progress)
            enter(phase, **progress)

        place.readiness.enter = noted  # type: ignore[method-assign]
        log = await place.open(place.opener())
        totals = {one["total_bytes"] for one in seen}
        assert max(totals) < 23_000_000
        assert [one["done_bytes"] for one in seen] == sorted(one["done_bytes"] for one in seen)
        assert seen[-1]["done_bytes"] == seen[-1]["total_bytes"] > 19_000_000
        log.close()

    run(scenario())


def test_a_recovery_that_is_given_up_leaves_everything_for_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        end = await filled(place, is_crash=True)
        opener = place.opener()
        opener.give_up()
        with pytest.raises(GivenUp):
            await place.open(opener)
        log = await place.open(place.opener())
        assert log.partitions[PARTITION].log_end_offset == end
        log.close()

    run(scenario())


def make_newer(directory: Path) -> None:
    """Leave the note of the last sync as a later release would write it."""
    (mark,) = directory.rglob("durable")
    head = mark.read_bytes()[:4] + b"\x00\x02" + mark.read_bytes()[6:16]
    mark.write_bytes(head + crc32c(head).to_bytes(4, "big") + bytes(4))


def test_a_log_of_a_later_release_is_named_with_its_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place, is_crash=False)
        make_newer(tmp_path)
        with pytest.raises(NewerFormat, match=f"{place.place.path}: .*durable.*version 2"):
            await place.open(place.opener())
        place.workers.close()

    run(scenario())
