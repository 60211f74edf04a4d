"""Copying a base: a replica begins anew from another one's snapshot and segments."""

import errno
from random import Random

import pytest

from harness.ids import as_epochs
from harness.log_world import SMALL, World, append, open_log, partition_number, read_all
from penstock.base.errors import PlatformError
from penstock.storage.config import Retention
from penstock.storage.errors import BadInstall, BaseNotReady, ExportEnded, LogBusy, OutOfSpace
from penstock.storage.replicate.base_manifest import BaseManifest
from penstock.storage.replicate.install import LogInstall
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import (
    asked,
    check_equal,
    copy_base,
    copy_of,
    copy_until,
    crashes,
    export_of,
    fetch,
    frames_of,
    member,
    open_member,
    reopened,
    replicate,
    settle,
)


def replicated(batches=300):
    world = World()
    disks = [FaultyDisk(), FaultyDisk()]
    master = open_log(world, disks[0])
    partition = master.open_partition(partition_number(0))
    other = master.open_partition(partition_number(1))
    for number in range(batches):
        append(master, partition, size=1000, fill=number, producer=(3, 0, number))
        if number < 5:
            append(master, other, size=100, records=2)
        world.run()
    slave = open_member(world, disks[1])
    return world, disks, master, slave


@pytest.mark.parametrize("newest_only", [False, True])
def test_a_base_is_copied_and_streaming_goes_on_from_its_end(newest_only):
    world, disks, master, slave = replicated()
    master.checkpoint()
    world.run()
    export = export_of(world, master, newest_only=newest_only)
    copy_base(world, export, slave)
    export.release()
    assert slave.end_position == slave.confirmed_position == export.manifest.position
    assert slave.start_position == export.manifest.start_position
    assert (slave.start_position > 0) == newest_only
    replicate(world, master, slave)
    assert slave.end_position == master.end_position
    check_equal((disks[0], master), (disks[1], slave))
    assert slave.epochs == master.epochs
    partition = master.open_partition(partition_number(0))
    own = slave.open_partition(partition_number(0))
    assert own.log_end_offset == 300
    expected = read_all(world, master, partition)[own.log_start_offset :]
    assert read_all(world, slave, own) == expected
    assert len(expected) == own.log_end_offset - own.log_start_offset
    other = slave.open_partition(partition_number(1))
    assert other.log_end_offset == 10
    assert other.log_start_offset == (10 if newest_only else 0)
    slave.begin_epoch(2)
    for _ in range(100):
        append(slave, own, size=1000)
        world.run()
    slave.close()
    world, again, own = reopened(disks[1])
    assert own.log_end_offset == 400
    assert not again.recovery.damaged_files


def test_deleted_records_do_not_come_back_with_a_copy_of_the_newest_segment():
    world, disks, master, slave = replicated()
    partition = master.open_partition(partition_number(0))
    master.delete_records(partition, 299)
    world.run()
    master.checkpoint()
    world.run()
    export = export_of(world, master, newest_only=True)
    copy_base(world, export, slave)
    assert slave.open_partition(partition_number(0)).log_start_offset == 299
    assert reopened(disks[1])[2].log_start_offset == 299


def test_a_copy_of_the_newest_segment_counts_the_bytes_that_it_has():
    """What it lacks would count against a limit of the size, and newer records would go for it."""
    world, _, master, slave = replicated()
    copy_base(world, export_of(world, master, newest_only=True), slave)
    partition = slave.open_partition(partition_number(0))
    assert 0 < partition.size_bytes == sum(partition.sizes)
    assert partition.size_bytes < master.open_partition(partition_number(0)).size_bytes
    assert partition.sized_from == slave.start_position


def test_a_broken_copy_goes_on_behind_its_last_whole_segment():
    world, disks, master, slave = replicated()
    export = export_of(world, master)
    whole = 2 * SMALL.segment_bytes
    copy_until((world, world), export, slave, whole + 30_000)
    assert asked(world, slave.begin_install, export.manifest) == whole
    disks[1].power_loss(Random(1))
    own_world, slave, _ = reopened(disks[1])
    assert asked(own_world, slave.begin_install, export.manifest) == whole
    with pytest.raises(BadInstall):
        asked(own_world, slave.install, 5, memoryview(b"x"))
    with pytest.raises(BadInstall):
        settle(own_world, slave.finish_install)
    with pytest.raises(BadInstall):
        settle(own_world, slave.finish_install)
    copy_until((world, own_world), export, slave, export.manifest.position)
    settle(own_world, slave.finish_install)
    assert slave.end_position == export.manifest.position
    check_equal((disks[0], master), (disks[1], slave))


def test_a_copy_of_another_history_is_begun_anew():
    world, _, master, slave = replicated()
    export = export_of(world, master)
    copy_until((world, world), export, slave, SMALL.segment_bytes)
    assert asked(world, slave.begin_install, export.manifest) == SMALL.segment_bytes
    other = export.manifest._replace(epochs=as_epochs((4, 0)))
    assert asked(world, slave.begin_install, other) == 0


def test_nothing_of_another_history_is_left_where_a_copy_is_begun_anew():
    """A file that is longer than its successor could end in frames of the other history."""
    world, disks, master, slave = replicated()
    export = export_of(world, master)
    copy_until((world, world), export, slave, SMALL.segment_bytes + 30_000)
    assert {name.rpartition(".")[2] for name in staged(disks[1])} == {"part", "log"}
    other = export.manifest._replace(epochs=as_epochs((4, 0)))
    assert asked(world, slave.begin_install, other) == 0
    assert staged(disks[1]) == []


def staged(disk):
    return [name for name in disk.names if "/install/" in name and "/log/" in name]


def test_a_mastership_that_began_where_a_copy_ends_leaves_it_as_it_is():
    world, _, master, slave = replicated()
    export = export_of(world, master)
    end = export.manifest.segments[0].data_end
    export.manifest = export.manifest._replace(epochs=as_epochs((1, 0), (2, end)))
    copy_until((world, world), export, slave, SMALL.segment_bytes)
    other = export.manifest._replace(epochs=as_epochs((1, 0), (3, end)))
    assert asked(world, slave.begin_install, other) == SMALL.segment_bytes


def test_bytes_of_a_copy_that_found_no_space_can_be_written_again():
    world, disks, master, slave = replicated()
    export = export_of(world, master)
    assert asked(world, slave.begin_install, export.manifest) == 0
    data = fetch(world, export, 0, 1_000)
    disks[1].fail("write", "/install/log/", errno.ENOSPC)
    with pytest.raises(OutOfSpace):
        asked(world, slave.install, 0, data)
    assert asked(world, slave.install, 0, data) == 1_000


def test_a_copy_with_another_newest_mastership_is_begun_anew():
    """Both histories begin alike: what counts is who wrote the end of what is there."""
    world, _, master, slave = replicated()
    export = export_of(world, master)
    export.manifest = export.manifest._replace(epochs=as_epochs((1, 0), (2, 1000)))
    copy_until((world, world), export, slave, SMALL.segment_bytes)
    assert asked(world, slave.begin_install, export.manifest) == SMALL.segment_bytes
    other = export.manifest._replace(epochs=as_epochs((1, 0), (3, 1000)))
    assert asked(world, slave.begin_install, other) == 0


def test_a_damaged_byte_of_a_copy_is_found_before_the_swap_and_copied_again():
    world, disks, master, _ = replicated()
    export = export_of(world, master)
    for at in (1000, SMALL.segment_bytes + 5000, export.manifest.position - 100):
        disks[1] = FaultyDisk()
        slave = open_member(world, disks[1])
        position = copy_until((world, world), export, slave, at - 10_000, chunk=5000)
        while position != export.manifest.position:
            piece = bytearray(fetch(world, export, position, 5000))
            if position <= at < position + len(piece):
                piece[at - position] ^= 1
            position = asked(world, slave.install, position, memoryview(piece))
        with pytest.raises(BadInstall):
            settle(world, slave.finish_install)
        assert slave.end_position == 0
    copy_base(world, export, slave)
    assert slave.end_position == export.manifest.position
    check_equal((disks[0], master), (disks[1], slave))


def test_an_exports_files_stay_until_it_is_released():
    world, disks, master, _ = replicated(500)
    export = export_of(world, master)
    first = f"{master.directory}/log/{0:020d}.log"
    before = bytes(disks[0].names[first].data)
    for _ in range(3):
        master.apply_retention(0, lambda _: Retention(0, -1))
        world.run()
    assert master.start_position > 0
    assert bytes(disks[0].names[first].data) == before
    assert bytes(fetch(world, export, 0, 1000)) == before[:1000]
    world.advance(120_000)
    assert export.is_released
    assert first not in disks[0].names
    with pytest.raises(ExportEnded):
        fetch(world, export, 0, 1000)


def test_only_so_many_bases_are_copied_at_once():
    world, _, master, _ = replicated(10)
    exports = [export_of(world, master) for _ in range(8)]
    with pytest.raises(BaseNotReady):
        export_of(world, master)
    exports[0].release()
    export_of(world, master).release()


def test_an_install_is_complete_after_a_crash_at_any_step():
    world, _, master, _ = replicated(150)
    master.checkpoint()
    world.run()
    export = export_of(world, master)
    _, origin, slave_log, _ = member(100, size=500)
    old_frames = frames_of(origin, slave_log)
    state = {}
    random = Random(3)

    def install():
        disk = state["disk"] = copy_of(origin)
        hook, disk.on_operation = state.get("hook"), None
        slave_world, slave, _ = reopened(disk)
        copy_until((world, slave_world), export, slave, export.manifest.position)
        disk.on_operation = hook
        settle(slave_world, slave.finish_install)

    for _ in crashes(install, state):
        disk = state["disk"]
        disk.power_loss(random)
        _, log, partition = reopened(disk)
        if log.end_position == export.manifest.position:
            assert partition.log_end_offset == 150
            assert log.open_partition(partition_number(1)).log_end_offset == 10
        else:
            assert partition.log_end_offset == 100
            assert frames_of(disk, log) == old_frames
    assert state["steps"] > 15
    world, log, partition = reopened(state["disk"])
    assert log.end_position == export.manifest.position
    assert len(read_all(world, log, partition)) == 150


def test_an_image_survives_the_wire_and_a_damaged_one_is_refused():
    world, _, master, _ = replicated(50)
    manifest = export_of(world, master).manifest
    encoded = manifest.encode()
    assert BaseManifest.decode(encoded) == manifest
    assert manifest.total_bytes == manifest.position
    for at in range(0, len(encoded), 7):
        damaged = bytearray(encoded)
        damaged[at] ^= 1
        with pytest.raises(BadInstall):
            BaseManifest.decode(bytes(damaged))
        with pytest.raises(BadInstall):
            BaseManifest.decode(encoded[:at])


def test_a_log_without_a_snapshot_gives_no_base():
    world, disk, log, _ = member(10)
    for name in [name for name in disk.names if name.endswith(".snap")]:
        disk.remove(name)
    with pytest.raises(BaseNotReady):
        export_of(world, log)


def test_a_slave_whose_log_was_copied_appends_nothing_by_retention():
    world = World()
    master, slave = open_log(world, FaultyDisk()), open_member(world, FaultyDisk())
    partition = master.open_partition(partition_number(0))
    for number in range(5):
        append(master, partition, size=1000, fill=number, timestamp=1000)
        world.run()
    master.checkpoint()
    world.run()
    slave.follow()
    copy_base(world, export_of(world, master), slave)
    replicate(world, master, slave)
    end = slave.end_position
    assert end == master.end_position
    for _ in range(3):
        slave.apply_retention(1_000_000, lambda _: Retention(-1, 5000))
        world.run()
    assert slave.end_position == end


def test_a_copy_that_ends_amid_a_write_is_closed_behind_it_and_no_other_one_begins(monkeypatch):
    """Its descriptor may be another file's by then, and its files are those of the next copy."""
    world, disks, master, slave = replicated()
    master.checkpoint()
    world.run()
    export = export_of(world, master)
    events: list[str] = []
    answers: list[PlatformError | None] = []
    close = LogInstall.close

    def noted(install: LogInstall) -> None:
        events.append("close")
        close(install)

    def amid_a_write(operation: str, path: str) -> None:
        if operation != "write" or not path.endswith(".part"):
            return
        disks[1].on_operation = None
        slave.abandon_install()
        slave.begin_install(export.manifest, lambda _, error: answers.append(error))
        while world.work:  # on the other threads of the disk
            world.work_one()
        events.append("written")

    position = asked(world, slave.begin_install, export.manifest)
    data = fetch(world, export, position, 20_000)
    monkeypatch.setattr(LogInstall, "close", noted)
    disks[1].on_operation = amid_a_write
    with pytest.raises(BadInstall):
        asked(world, slave.install, position, data)
    assert events == ["written", "close"]
    assert [type(error) for error in answers] == [LogBusy]
    copy_base(world, export, slave)
    assert slave.end_position == export.manifest.position
