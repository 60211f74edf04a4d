"""Starting again: torn tails, stale frames, damaged files, and damage that must not be hidden."""

import contextlib
import errno
from array import array
from random import Random

import pytest

from harness.log_world import (
    DIRECTORY,
    SMALL,
    World,
    append,
    make_batch,
    open_log,
    partition_number,
    read_all,
    read_chunk,
)
from penstock.record.batch import read_header
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptLog
from penstock.storage.index.sealed_index import Sealed
from penstock.storage.index.side_file import decode_side, encode_side
from tests.storage.faulty_disk import FaultyDisk

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

QUIET = LogConfig(segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30)
"""No roll and no checkpoint by itself."""


def started(config=QUIET, batches=0, size=200):
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, config)
    partition = log.open_partition(partition_number(0))
    for number in range(batches):
        append(log, partition, size=size, fill=number)
        if number % 10 == 9:
            world.run()
    world.run()
    return world, disk, log, partition


def node_of(disk, kind, at=-1):
    names = sorted(name for name in disk.names if name.endswith(kind))
    return disk.names[names[at]]


def damage(node, position, length=1):
    for at in range(position, position + length):
        node.data[at] ^= 0xFF
    node.durable[:] = node.data


def reopened(disk, config=QUIET):
    world = World()
    log = open_log(world, disk, config)
    return world, log, log.open_partition(partition_number(0))


def test_a_tail_torn_at_any_byte_is_cut_and_nothing_before_it():
    _, disk, log, partition = started(batches=3)
    before = log.end_position
    append(log, partition, size=150, fill=9)
    log.writer.write_staged()
    whole = bytes(node_of(disk, ".log", 0).data)
    for torn in range(before, log.end_position):
        node_of(disk, ".log", 0).data[:] = whole[:torn] + bytes(len(whole) - torn)
        world, again, found = reopened(disk)
        assert again.recovery.end_position == before
        assert found.log_end_offset == 3
        assert len(read_all(world, again, found)) == 3
    node_of(disk, ".log", 0).data[:] = whole
    assert reopened(disk)[2].log_end_offset == 4


def test_a_byte_that_flips_in_the_last_frame_cuts_it_wherever_it_is():
    _, disk, log, partition = started(batches=3)
    before = log.end_position
    append(log, partition, size=100, fill=9)
    log.writer.write_staged()
    node = node_of(disk, ".log", 0)
    whole = bytes(node.data)
    for at in range(before, log.end_position):
        node_of(disk, ".log", 0).data[:] = whole
        node_of(disk, ".log", 0).data[at] ^= 1
        assert reopened(disk)[2].log_end_offset == 3, at - before


def test_what_was_cut_off_does_not_come_back_when_new_frames_grow_up_to_it():
    # Two frames, unsynced; power loss takes the first and leaves the second whole.
    _, disk, log, partition = started(batches=2)
    first = log.end_position
    append(log, partition, size=150, fill=1)
    second = log.end_position
    append(log, partition, size=150, fill=2)
    log.writer.write_staged()
    disk.names[f"{DIRECTORY}/log/{0:020d}.log"].data[first : first + 60] = bytes(60)
    _world, again, found = reopened(disk)
    assert again.recovery.frames_cut == 1
    assert found.log_end_offset == 2
    append(again, found, size=150, fill=3)
    assert again.end_position == second, "the new frame ends where the ghost began"
    again.writer.write_staged()
    _, _third, found = reopened(disk)
    assert found.log_end_offset == 3


def test_damage_of_bytes_that_a_later_frame_proves_durable_is_reported_and_not_cut():
    world, disk, log, partition = started()
    append(log, partition, size=150, fill=1)
    damaged = log.end_position
    append(log, partition, size=150, fill=2)
    world.run()
    append(log, partition, size=150, fill=3)
    world.run()
    before = bytes(node_of(disk, ".log", 0).data)
    damage(node_of(disk, ".log", 0), damaged + 100)
    with pytest.raises(CorruptLog) as caught:
        reopened(disk)
    assert caught.value.position == damaged
    assert "penstock log verify" in str(caught.value)
    assert sum(a != b for a, b in zip(before, node_of(disk, ".log", 0).data, strict=True)) == 1


def test_damage_below_the_snapshot_is_reported_when_the_log_has_to_be_read_there():
    world, disk, log, _ = started(batches=20)
    log.checkpoint()
    world.run()
    for name in list(disk.names):
        if name.endswith(".side"):
            disk.remove(name)
    damage(node_of(disk, ".log", 0), 1000)
    with pytest.raises(CorruptLog):
        reopened(disk)


def test_frames_left_over_in_a_recycled_file_are_never_taken_for_live():
    # The same sizes again and again, so that stale frames lie exactly where new ones would end.
    from penstock.storage.config import Retention

    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(partition_number(0))
    for _ in range(1500):
        append(log, partition, size=200)
        world.run()
        if len(log.writer._store.segments) > 3:
            log.apply_retention(0, lambda _: Retention(0, -1))
            world.run()
    assert any(data.data[-5000:-4000].count(0) < 1000 for data in disk.names.values())
    end, count = log.end_position, partition.log_end_offset
    assert end > 5 * SMALL.segment_bytes
    world = World()
    again = open_log(world, disk, SMALL)
    found = again.open_partition(partition_number(0))
    assert (again.recovery.end_position, found.log_end_offset) == (end, count)
    assert again.recovery.frames_cut == 0


def test_nothing_is_replayed_after_a_clean_close():
    _, disk, log, _ = started(batches=50)
    log.close()
    _, again, found = reopened(disk)
    assert again.recovery.was_clean
    assert again.recovery.replayed_bytes == 0
    assert found.log_end_offset == 50


def test_replay_after_a_kill_is_bounded_by_the_checkpoint_interval():
    _world, disk, _log, _ = started(config=SMALL, batches=2000)
    _, again, found = reopened(disk, SMALL)
    assert again.recovery.replayed_bytes < 2 * SMALL.checkpoint_interval_bytes
    assert found.log_end_offset == 2000


def test_progress_goes_from_nothing_to_all():
    _, disk, _, _ = started(batches=50)
    seen = []
    from penstock.storage.commit_log.set_log import SetLog

    world = World()
    SetLog.recover(
        disk=disk,
        directory=DIRECTORY,
        config=QUIET,
        clock=world,
        offload=world,
        scheduler=world,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize("lost", ["newest snapshot", "all snapshots", "snapshots missing"])
def test_the_log_opens_without_its_snapshots(lost):
    world, disk, log, partition = started(config=SMALL, batches=2000)
    expected = read_all(world, log, partition)
    snapshots = sorted(name for name in disk.names if name.endswith(".snap"))
    assert len(snapshots) == 2
    for name in snapshots if "all" in lost or "missing" in lost else snapshots[-1:]:
        if "missing" in lost:
            disk.remove(name)
        else:
            damage(disk.names[name], 70)
    world, again, found = reopened(disk, SMALL)
    assert read_all(world, again, found) == expected
    assert bool(again.recovery.damaged_files) == ("missing" not in lost)
    assert again.epochs == [(1, 0)]


@pytest.mark.parametrize("how", ["damaged", "missing", "cut short"])
@pytest.mark.parametrize("kind", [".side", ".idx"])
def test_a_damaged_derived_file_is_rebuilt_from_the_log(kind, how):
    world, disk, log, partition = started(config=SMALL, batches=1500)
    log.checkpoint()
    world.run()
    expected = read_all(world, log, partition)
    for name in [name for name in disk.names if name.endswith(kind)]:
        if how == "missing":
            disk.remove(name)
        elif how == "damaged":
            damage(disk.names[name], 20)
        else:
            del disk.names[name].data[30:]
    world, again, found = reopened(disk, SMALL)
    assert read_all(world, again, found) == expected


def test_a_side_file_that_is_whole_and_speaks_of_other_frames_is_rebuilt_from_the_log():
    world, disk, log, partition = started(batches=20)
    log.checkpoint()
    world.run()
    expected = read_all(world, log, partition)
    (name,) = [name for name in disk.names if name.endswith(".side")]
    ((key, sealed),) = decode_side(name, memoryview(bytes(disk.names[name].data)))
    others = array("q", (position - 1 for position in sealed.columns.positions))
    columns = sealed.columns._replace(positions=others)
    disk.replace(name, encode_side([(key, Sealed(columns, sealed.end_offset))]))
    world, again, found = reopened(disk)
    assert again.recovery.damaged_files
    assert read_all(world, again, found) == expected
    assert list(found.bases) == list(range(20))


@pytest.mark.parametrize("at", [100, 150, 5000])
def test_an_index_that_is_damaged_behind_its_header_is_rebuilt_when_it_is_used(at):
    world, disk, log, partition = started(config=SMALL, batches=1500)
    expected = read_all(world, log, partition)
    world, again, found = reopened(disk, SMALL)
    for name in [name for name in disk.names if name.endswith(".idx")]:
        damage(disk.names[name], at)
    assert read_all(world, again, found) == expected


def test_a_missing_segment_is_reported():
    _world, disk, _log, _ = started(config=SMALL, batches=1500)
    disk.remove(f"{DIRECTORY}/log/{SMALL.segment_bytes:020d}.log")
    with pytest.raises(CorruptLog, match="missing"):
        reopened(disk, SMALL)


def test_ten_thousand_partitions_come_back():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, QUIET)
    for number in range(10_000):
        append(log, log.open_partition(partition_number(number)), size=61)
    world.run()
    log.checkpoint()
    world.run()
    for number in range(0, 10_000, 100):
        append(log, log.open_partition(partition_number(number)), size=61)
    world.run()
    world = World()
    again = open_log(world, disk, QUIET)
    assert len(again.partitions) == 10_000
    assert again.recovery.replayed_frames == 100
    assert again.open_partition(partition_number(200)).log_end_offset == 2
    assert again.open_partition(partition_number(201)).log_end_offset == 1
    assert read_chunk(world, again, again.open_partition(partition_number(201)), 0).size == 61


def test_log_end_offsets_survive_when_all_data_of_a_partition_is_gone():
    from penstock.storage.config import Retention

    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    early = log.open_partition(partition_number(0))
    late = log.open_partition(partition_number(1))
    append(log, early, records=7)
    for _ in range(500):
        append(log, late, size=1000)
        world.run()
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert log.writer._store.segments[0].base > 0
    world = World()
    again = open_log(world, disk, SMALL)
    found = again.open_partition(partition_number(0))
    assert (found.log_start_offset, found.log_end_offset, found.size_bytes) == (7, 7, 0)
    assert append(again, found) == 7


def test_producers_are_known_again_after_a_kill():
    world, disk, log, partition = started()
    for sequence in range(8):
        append(log, partition, producer=(5, 0, sequence))
    world.run()
    log.checkpoint()
    world.run()
    for sequence in range(8, 10):
        append(log, partition, producer=(5, 0, sequence))
    world.run()
    _, _, found = reopened(disk)
    for sequence in range(5, 10):
        header = read_header(make_batch(producer=(5, 0, sequence)))
        duplicate = found.producers.check(header)
        assert duplicate is not None
        assert duplicate.base_offset == sequence
    assert found.producers.check(read_header(make_batch(producer=(5, 0, 10)))) is None


def test_power_loss_while_recovering_from_power_loss_loses_nothing():
    for seed in range(40):
        random = Random(seed)
        world, disk, log, partition = started(config=SMALL, batches=100, size=700)
        durable = partition.log_end_offset
        for number in range(20):
            append(log, partition, size=700, fill=number)
        log.writer.write_staged()
        disk.power_loss(random)
        left = random.randrange(12)

        def count(_operation, _path):
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        disk.on_operation = count
        with contextlib.suppress(KeyboardInterrupt):
            reopened(disk, SMALL)
        disk.on_operation = None
        disk.power_loss(random)
        world, again, found = reopened(disk, SMALL)
        assert found.log_end_offset >= durable
        assert len(read_all(world, again, found)) == found.log_end_offset


def test_the_log_opens_on_a_full_disk_and_takes_data_when_there_is_room():
    world, disk, _log, _partition = started(batches=10)
    disk.fail("allocate", ".log", errno.ENOSPC)
    world, again, found = reopened(disk)
    assert found.log_end_offset == 10
    assert len(read_all(world, again, found)) == 10
    world.run()
    append(again, found)
    world.run()
    assert reopened(disk)[2].log_end_offset == 11
