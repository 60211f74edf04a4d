"""The open segment is closed before it is full, where a record in it has waited for too long."""

from dataclasses import replace
from typing import Any

from harness.log_world import SMALL, World, append, open_log, read_all
from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig, Retention
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import check_equal, crashes, open_member, replicate
from tests.storage.test_stores import KEY, OTHER

KIB = 1024
INTERVAL_MS = 60_000
CONFIG = replace(
    SMALL,
    segment_bytes=1024 * KIB,
    first_segment_bytes=64 * KIB,
    level0_bytes=1 << 30,
    close_early_ms=INTERVAL_MS,
)
CLOSED = Retention(-1, -1, close_ms=5_000)
STAYS = Retention(-1, -1)


class Quiet:
    """A log that nothing fills."""

    def __init__(self, config: LogConfig = CONFIG, disk: FaultyDisk | None = None) -> None:
        self.world, self.disk = World(), disk or FaultyDisk()
        self.log = open_log(self.world, self.disk, config)
        self.settings: dict[TopicPartition, Retention] = {KEY: CLOSED}
        self.world.run()

    def append(self, timestamp: int, key: TopicPartition = KEY, **batch: Any) -> None:
        append(self.log, self.log.open_partition(key), timestamp=timestamp, **batch)
        self.world.run()

    def fill(self, kibibytes: int) -> None:
        for _ in range(kibibytes):
            self.append(-1, OTHER, size=KIB)

    def retain(self, now_ms: int) -> int:
        """Run a pass; return how many files were closed early so far."""
        self.log.apply_retention(now_ms, lambda key: self.settings.get(key, STAYS))
        self.world.run()
        return self.log.numbers().closed_early

    def sizes(self) -> list[int]:
        """Return the sizes of the files in use, KiB, oldest first."""
        return [(one.end - one.base) // KIB for one in self.log.parts.store.segments]


def test_it_is_closed_when_its_oldest_batch_is_older_than_the_topic_allows() -> None:
    quiet = Quiet()
    quiet.append(1_000)
    quiet.append(9_000)
    assert quiet.retain(6_000) == 0
    assert quiet.retain(6_001) == 1
    (closed,) = quiet.log.parts.reader.closed()
    assert closed.base == 0
    assert len(read_all(quiet.world, quiet.log, quiet.log.open_partition(KEY))) == 2
    assert quiet.retain(1 << 40) == 1, "nothing is in the new one"


def test_one_partition_of_many_decides_and_those_that_do_not_ask_never_do() -> None:
    quiet = Quiet()
    for number in range(20):
        quiet.append(0, TopicPartition(OTHER.topic_id, 100 + number))
    assert quiet.retain(1 << 40) == 0
    quiet.append(1_000)
    assert quiet.retain(6_001) == 1


def test_what_was_deleted_and_what_has_no_time_ask_for_nothing() -> None:
    quiet = Quiet()
    quiet.append(1_000)
    quiet.append(8_000)
    quiet.append(-1, OTHER)
    quiet.settings[OTHER] = CLOSED
    partition = quiet.log.open_partition(KEY)
    quiet.log.delete_records(partition, partition.log_end_offset)
    assert quiet.retain(1 << 40) == 0
    quiet.append(9_000)
    assert quiet.retain(14_000) == 0
    assert quiet.retain(14_001) == 1


def test_however_much_topics_ask_for_it_is_done_once_in_the_interval() -> None:
    quiet = Quiet()
    quiet.append(1_000)
    assert quiet.retain(10_000) == 1
    quiet.append(1_000)
    assert quiet.retain(10_000 + INTERVAL_MS - 1) == 1
    assert quiet.retain(10_000 + INTERVAL_MS) == 2
    quiet.append(1_000)
    # The clock was set back: that may not keep files open for as long.
    assert quiet.retain(9_000) == 3


def test_where_nothing_is_moved_nothing_is_closed_early() -> None:
    quiet = Quiet(replace(CONFIG, level0_bytes=-1))
    quiet.append(1_000)
    assert quiet.retain(1 << 40) == 0
    assert len(quiet.sizes()) == 1


def test_files_behind_one_that_was_closed_early_are_small_and_grow_again() -> None:
    quiet = Quiet()
    quiet.fill(1_200)
    assert quiet.sizes()[-2:] == [512, 1024]
    quiet.append(1_000)
    now_ms = 10_000
    assert quiet.retain(now_ms) == 1
    for count in range(2, 6):
        quiet.append(1_000)
        now_ms += INTERVAL_MS
        assert quiet.retain(now_ms) == count
    # The one that was ready has its full size still.
    assert quiet.sizes()[-6:] == [1024, 1024, 64, 64, 64, 64]
    quiet.fill(1_500)
    assert quiet.sizes()[-6:] == [64, 64, 128, 256, 512, 1024]
    wanted = read_all(quiet.world, quiet.log, quiet.log.open_partition(OTHER))
    quiet.log.close()
    again = Quiet(disk=quiet.disk)
    assert read_all(again.world, again.log, again.log.open_partition(OTHER)) == wanted


def test_a_slave_closes_its_files_where_the_master_does_and_never_by_itself() -> None:
    quiet = Quiet()
    world, disk = World(), FaultyDisk()
    slave = open_member(world, disk, CONFIG)
    now_ms = 10_000
    for count in range(1, 5):
        quiet.append(1_000)
        replicate(world, quiet.log, slave)
        slave.apply_retention(now_ms, lambda _: CLOSED)
        world.run()
        assert quiet.retain(now_ms) == count
        now_ms += INTERVAL_MS
    quiet.append(1_000)
    replicate(world, quiet.log, slave)
    check_equal((quiet.disk, quiet.log), (disk, slave))
    bases = [[one.base for one in log.parts.store.segments] for log in (quiet.log, slave)]
    assert bases[0] == bases[1]
    assert slave.numbers().closed_early == 0
    slave.begin_epoch(LeaderEpoch(2))
    slave.apply_retention(now_ms, lambda _: CLOSED)
    world.run()
    slave.note_confirmed(slave.end_position)
    assert slave.numbers().closed_early == 1


def test_killed_at_any_step_every_record_is_there() -> None:
    state: dict[str, Any] = {}
    acknowledged: list[SetLog] = []

    def operation() -> None:
        quiet = Quiet()
        quiet.append(1_000)
        state.update(disk=quiet.disk)
        quiet.disk.on_operation = state["hook"]
        quiet.retain(10_000)
        quiet.append(2_000)
        acknowledged.append(quiet.log)

    for _ in crashes(operation, state):
        state["disk"].power_loss()
        again = Quiet(disk=state["disk"])
        found = read_all(again.world, again.log, again.log.open_partition(KEY))
        assert [offset for offset, _ in found] in ([0], [0, 1])
        again.append(3_000)
        assert again.retain(1 << 40) == 1
    assert state["steps"] > 5
    assert acknowledged
