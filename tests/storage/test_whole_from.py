"""What a log says of all its stores: from where it keeps, from where it lacks nothing."""

from dataclasses import replace

from harness.log_world import SMALL, World, append, open_log, partition_number
from penstock.base.ids import Position
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import Retention
from penstock.storage.second_level.manifest import FileEntry, Manifest
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import copy_until, crashes, export_of, open_member, settle
from tests.storage.second_level import closed_segments, split, take_over
from tests.storage.store_contract import KEEP
from tests.storage.test_second_level_copies import Master, slave
from tests.storage.test_stores import KEY, OTHER, fill


def copy(source: World, log: SetLog, target: SetLog, world: World, *, newest_only: bool) -> None:
    export = export_of(source, log, newest_only=newest_only)
    copy_until((source, world), export, target, export.manifest.end_place)
    settle(world, target.finish_install)


def begun_in_part() -> tuple[World, FaultyDisk, SetLog]:
    """Return a log that was copied from the newest segment on, of a master without extents."""
    source = World()
    log = open_log(source, FaultyDisk())
    fill(source, log)
    disk = FaultyDisk()
    world, part = slave(disk)
    copy(source, log, part, world, newest_only=True)
    assert part.start_position > 0
    return world, disk, part


def test_what_was_moved_is_kept_and_not_missing() -> None:
    master = Master()
    assert master.log.start_position > 0
    assert master.log.reach == (0, 0)
    master.log.close()
    again = open_log(World(), master.disk)
    assert again.reach == (0, 0)


def test_what_retention_has_deleted_is_not_missing_and_not_kept() -> None:
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    fill(world, log)
    log.apply_retention(1 << 50, lambda _: Retention(1, -1))
    world.run()
    assert log.reach.kept_from == log.start_position > 0
    assert log.reach.whole_from == 0
    # What is moved from now on was behind that.
    fill(world, log)
    assert split(disk, log.parts.second_level, closed_segments(log), (KEY, OTHER))
    begun = log.reach.kept_from
    assert take_over(world, log.parts.second_level, 1 << 40) is None
    log.apply_retention(0, lambda _: KEEP)
    world.run()
    assert log.reach.kept_from == begun < log.start_position


def test_a_segment_before_a_gap_is_kept() -> None:
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    pinning, other = (log.open_partition(partition_number(at)) for at in (0, 1))
    append(log, pinning, size=100)
    for _ in range(400):
        append(log, other, size=1_000)
        world.run()
    forever = pinning.topic_partition
    log.apply_retention(0, lambda key: KEEP if key == forever else Retention(1, -1))
    world.run()
    assert log.reach.kept_from == 0 < log.start_position


def test_a_log_that_began_with_the_newest_segment_lacks_the_rest_whatever_comes_later() -> None:
    world, disk, log = begun_in_part()
    begun = log.start_position
    assert log.reach.whole_from == log.reach.kept_from == begun
    log.close()
    log = open_member(world, disk)
    assert log.reach.whole_from == begun
    log.is_sole_member = True
    fill(world, log)
    second = log.parts.second_level
    assert split(disk, second, closed_segments(log), (KEY,))
    assert take_over(world, second, log.open_partition(KEY).log_start_offset) is None
    log.apply_retention(0, lambda key: KEEP if key == KEY else Retention(0, -1))
    world.run()
    assert log.start_position > begun
    assert log.reach == (begun, begun)
    settle(world, log.truncate, log.end_position)
    assert log.reach.whole_from == begun


def test_a_log_that_is_copied_whole_lacks_nothing_even_if_its_master_once_did() -> None:
    world, _, master = begun_in_part()
    master.is_sole_member = True
    fill(world, master)
    for moves in (False, True):
        if moves:
            second = master.parts.second_level
            assert split(world_disk(master), second, closed_segments(master), (KEY,))
            start = master.open_partition(KEY).log_start_offset
            assert take_over(world, second, start) is None
        other, log = slave(FaultyDisk())
        copy(world, master, log, other, newest_only=False)
        assert log.reach.whole_from == 0 < master.reach.whole_from


def world_disk(log: SetLog) -> FaultyDisk:
    disk = log.parts.second_level._place.disk
    assert isinstance(disk, FaultyDisk)
    return disk


def test_a_copy_of_everything_ends_what_was_missing() -> None:
    world, _, log = begun_in_part()
    master = Master()
    copy(master.world, master.log, log, world, newest_only=False)
    assert log.reach.whole_from == 0


def test_a_master_that_is_to_move_copies_all_of_its_log_also_before_its_first_file() -> None:
    source = World()
    log = open_log(source, FaultyDisk(), replace(SMALL, level0_bytes=0))
    fill(source, log)
    world, new = slave(FaultyDisk())
    copy(source, log, new, world, newest_only=True)
    assert (new.start_position, new.reach.whole_from) == (0, 0)


def test_loss_of_power_during_a_copy_of_the_newest_segment_never_hides_what_is_missing() -> None:
    source = World()
    log = open_log(source, FaultyDisk())
    fill(source, log)
    state: dict[str, object] = {}

    def operation() -> None:
        disk = FaultyDisk()
        world, part = slave(disk)
        export = export_of(source, log, newest_only=True)
        copy_until((source, world), export, part, export.manifest.end_place)
        export.release()
        state.update(disk=disk)
        disk.on_operation = state["hook"]  # type: ignore[assignment]
        settle(world, part.finish_install)

    found = set()
    for _ in crashes(operation, state):
        disk = state["disk"]
        assert isinstance(disk, FaultyDisk)
        disk.power_loss()
        _, again = slave(disk)
        assert again.reach.whole_from == again.start_position
        found.add(again.start_position > 0)
    assert found == {False, True}


def test_the_first_of_the_files_tells_from_where_they_hold() -> None:
    one, two = FileEntry(0, 500, 1), FileEntry(1, 70, 2)
    manifest = Manifest().added(one, Position(300)).added(two, Position(900))
    assert manifest == Manifest(2, (one, two), held_from=Position(300))
    empty = manifest.without(frozenset((0, 1)))
    assert empty.added(FileEntry(2, 10, 3), Position(1_000)).held_from == 1_000
