"""A new member copies the second level with the base; what it then has equals the master's log."""

from typing import Any

import pytest

from harness.log_world import (
    DIRECTORY,
    World,
    append,
    open_log,
    partition_number,
    read_all,
)
from penstock.base.ids import LeaderEpoch
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import Retention
from penstock.storage.errors import BadInstall
from penstock.storage.index.lookup import SealedLookup
from penstock.storage.replicate.base_manifest import BaseManifest
from penstock.storage.second_level.files import read_manifest
from penstock.storage.second_level.manifest import FileEntry, Manifest, extent_path
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.split import split_segments
from penstock.storage.stores.port import EpochEnd
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import asked, copy_until, crashes, export_of, open_member, settle
from tests.storage.second_level import IDENTITY, UNFINISHED, closed_segments, split, take_over
from tests.storage.store_contract import KEEP
from tests.storage.test_stores import KEY, OTHER, Filling, fill

THIRD = partition_number(2)


class Master:
    """A log whose closed segments went to its second level, one file for each."""

    def __init__(self, *, is_released: bool = True, keeps_first: bool = False) -> None:
        """`keeps_first`: the first segment has a partition that stays in the log."""
        self.world, self.disk = World(), FaultyDisk()
        self.log = open_log(self.world, self.disk)
        self.kept = {KEY}
        if keeps_first:
            self.kept.add(THIRD)
            append(self.log, self.log.open_partition(THIRD))
            self.world.run()
        self.filling: Filling = fill(self.world, self.log)
        self.split_all()
        if is_released:
            self.retain()
            assert self.partition.commit_log_start_offset > 500

    def split_all(self) -> None:
        second = self.log.parts.second_level
        for segment in closed_segments(self.log):
            if split(self.disk, second, [segment], (KEY,)):
                assert take_over(self.world, second) is None

    @property
    def partition(self) -> Any:
        return self.log.open_partition(KEY)

    def retain(self, settings: Retention = KEEP) -> None:
        nothing = Retention(0, -1)
        self.log.apply_retention(0, lambda key: settings if key in self.kept else nothing)
        self.world.run()

    def everything(self) -> list[tuple[int, bytes]]:
        return read_all(self.world, self.log, self.partition)


def slave(disk: FaultyDisk) -> tuple[World, SetLog]:
    world = World()
    return world, open_member(world, disk)


def everything(world: World, log: SetLog) -> list[tuple[int, bytes]]:
    return read_all(world, log, log.open_partition(KEY))


def test_a_new_member_has_everything_that_the_master_has() -> None:
    master = Master()
    world, log = slave(FaultyDisk())
    export = export_of(master.world, master.log)
    assert len(export.manifest.files) == 3
    copy_until((master.world, world), export, log, export.manifest.end_place, chunk=7_000)
    settle(world, log.finish_install)
    assert everything(world, log) == master.everything()
    partition = log.open_partition(KEY)
    assert partition.log_start_offset == 0
    assert partition.commit_log_start_offset == master.partition.commit_log_start_offset
    assert partition.size_bytes == master.partition.size_bytes


def test_a_new_member_has_everything_where_the_log_still_has_a_part_of_the_extents() -> None:
    master = Master(is_released=False)
    other = master.log.open_partition(OTHER)
    # The other partition needs all segments but the first one.
    (first, *_) = closed_segments(master.log)
    entries = SealedLookup(master.disk, DIRECTORY, (first,)).directory_of(first)
    end = next(one.end_offset for one in entries if one.topic_partition == OTHER)
    master.log.delete_records(other, end)
    master.log.apply_retention(0, lambda _: KEEP)
    master.world.run()
    assert closed_segments(master.log)[0].base > first.base
    world, log = slave(FaultyDisk())
    export = export_of(master.world, master.log)
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    assert log.open_partition(KEY).log_start_offset == 0
    assert everything(world, log) == master.everything()


def test_a_new_member_has_everything_where_the_log_has_segments_before_and_behind_a_gap() -> None:
    """What stood in the deleted segments between them is in extent files."""
    master = Master(keeps_first=True)
    bases = [one.base for one in master.log.parts.store.segments]
    assert bases[0] == 0
    assert bases[1] > master.log.parts.store.segments[0].end
    world, log = slave(FaultyDisk())
    export = export_of(master.world, master.log)
    assert [one.base for one in export.manifest.segments] == bases
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    assert log.open_partition(KEY).log_start_offset == 0
    assert everything(world, log) == master.everything()
    third = read_all(world, log, log.open_partition(THIRD))
    assert third == read_all(master.world, master.log, master.log.open_partition(THIRD))
    assert third


def test_what_was_copied_is_there_after_a_start() -> None:
    master, disk = Master(), FaultyDisk()
    world, log = slave(disk)
    export = export_of(master.world, master.log)
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    log.close()
    assert everything(*slave(disk)) == master.everything()


def test_its_own_second_level_goes_with_the_log_that_is_replaced() -> None:
    master, other = Master(), Master()
    world = other.world
    other.log.begin_epoch(LeaderEpoch(9))
    world.run()
    export = export_of(master.world, master.log)
    copy_until((master.world, world), export, other.log, export.manifest.end_place)
    settle(world, other.log.finish_install)
    assert everything(world, other.log) == master.everything()
    names = [f"{number:020d}.extents" for number in range(3)]
    assert other.disk.list(f"{DIRECTORY}/second") == [*names, "manifest"]


def test_a_reset_removes_the_second_level() -> None:
    master = Master()
    settle(master.world, master.log.reset_to, 0, 65_536)
    assert master.disk.list(f"{DIRECTORY}/second") == []
    assert master.log.parts.second_level.held(KEY) is None


def test_a_copy_goes_on_behind_whole_files() -> None:
    master, disk = Master(), FaultyDisk()
    world, log = slave(disk)
    export = export_of(master.world, master.log)
    pieces = list(export.manifest.pieces())
    half = pieces[-1].start + 100
    copy_until((master.world, world), export, log, half, chunk=5_000)
    world, log = slave(disk)
    assert asked(world, log.begin_install, export.manifest) == pieces[-1].start
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    assert everything(world, log) == master.everything()


def test_a_damaged_copy_of_an_extent_file_is_refused_and_copied_again() -> None:
    master, disk = Master(), FaultyDisk()
    world, log = slave(disk)
    export = export_of(master.world, master.log)
    copy_until((master.world, world), export, log, export.manifest.end_place)
    path = extent_path(f"{DIRECTORY}/install", 1)
    disk.names[path].data[200] ^= 1
    with pytest.raises(BadInstall, match="is damaged"):
        settle(world, log.finish_install)
    start = next(
        piece.start for piece in export.manifest.pieces() if getattr(piece.file, "number", -1) == 1
    )
    assert asked(world, log.begin_install, export.manifest) == start
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    assert everything(world, log) == master.everything()


def test_bytes_beyond_a_file_or_at_another_place_are_refused() -> None:
    master = Master()
    world, log = slave(FaultyDisk())
    export = export_of(master.world, master.log)
    manifest = export.manifest
    copy_until((master.world, world), export, log, manifest.position)
    size = manifest.files[0].size_bytes
    with pytest.raises(BadInstall, match="end at"):
        asked(world, log.install, manifest.position, memoryview(bytes(size + 1)))
    with pytest.raises(BadInstall, match="expected bytes"):
        asked(world, log.install, manifest.position + 1, memoryview(b"x"))


def test_retention_takes_no_file_that_is_being_copied() -> None:
    master = Master()
    world, log = slave(FaultyDisk())
    export = export_of(master.world, master.log)
    before = master.everything()
    master.retain(Retention(0, -1))
    master.retain(Retention(0, -1))
    assert master.log.parts.second_level.file_count == 0
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    assert everything(world, log) == before
    export.release()
    master.world.run()
    assert master.disk.list(f"{DIRECTORY}/second") == ["manifest"]


def test_killed_at_any_step_of_the_swap_the_member_has_one_log_or_the_other() -> None:
    master = Master()
    wanted = master.everything()
    export = export_of(master.world, master.log)
    state: dict[str, Any] = {}

    def operation() -> None:
        disk = FaultyDisk()
        world, log = slave(disk)
        copy_until((master.world, world), export, log, export.manifest.end_place, chunk=1 << 20)
        state.update(disk=disk)
        disk.on_operation = state["hook"]
        settle(world, log.finish_install)

    found = []
    for _ in crashes(operation, state):
        state["disk"].power_loss()
        found.append(everything(*slave(state["disk"])))
        assert found[-1] in ([], wanted)
    assert state["steps"] > 20
    assert [] in found
    assert wanted in found


def test_a_manifest_without_extent_files_is_what_earlier_releases_read() -> None:
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    fill(world, log)
    manifest = export_of(world, log).manifest
    assert manifest.files == ()
    assert manifest.encode()[4:6] == b"\0\1"
    assert manifest.end_place == manifest.position
    two = manifest._replace(second=Manifest(9, (FileEntry(4, 100, 1), FileEntry(5, 20, 2))))
    assert BaseManifest.decode(two.encode()) == two
    assert two.end_place == two.position + 120
    back = two._replace(second=two.second._replace(files=two.files[::-1]))
    with pytest.raises(BadInstall, match="next number"):
        BaseManifest.decode(back.encode())


def test_a_second_level_is_copied_also_by_who_wants_the_newest_segment_only() -> None:
    # Who began without what is kept there would lack it for as long as that is kept.
    master = Master()
    master.log.begin_epoch(LeaderEpoch(9))
    fill(master.world, master.log, 200)  # closed segments that no extent has
    master.log.checkpoint()
    master.world.run()
    world, log = copied(master, newest_only=True)
    assert everything(world, log) == master.everything()
    assert log.reach.whole_from == 0


def copied(master: Master, *, newest_only: bool) -> tuple[World, SetLog]:
    export = export_of(master.world, master.log, newest_only=newest_only)
    world, log = slave(FaultyDisk())
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    return world, log


def test_an_unclean_cut_reaches_into_the_second_level_and_goes_with_copies() -> None:
    # The cut is in the commit log's part, below what the newest extent has.
    master = Master(is_released=False)
    everything_before = master.everything()
    second = master.log.parts.second_level
    held = second.held(KEY)
    assert held is not None
    at = next(one for one in master.filling.batches if one.first > held.end_offset - 100)
    settle(master.world, master.log.truncate, master.filling.positions[at.first])
    left = [one for one in everything_before if one[0] < at.first]
    assert master.everything() == left
    cut = master.log.parts.second_level.held(KEY)
    assert cut is not None
    assert cut.end_offset == master.partition.log_end_offset == at.first
    # Other batches follow, go to the second level, and the log releases all of them.
    master.log.begin_epoch(LeaderEpoch(9))
    fill(master.world, master.log, 200)
    wanted = master.everything()
    assert wanted[: len(left)] == left
    master.split_all()
    master.retain()
    assert master.partition.commit_log_start_offset > at.first
    assert master.everything() == wanted
    world, log = slave(FaultyDisk())
    export = export_of(master.world, master.log)
    assert len(export.manifest.second.cuts) == 1
    copy_until((master.world, world), export, log, export.manifest.end_place)
    settle(world, log.finish_install)
    assert everything(world, log) == wanted
    # After a start, and when the files that were cut have gone, so has the cut.
    master.log.close()
    world = World()
    again = open_log(world, master.disk)
    assert everything(world, again) == wanted
    start = again.open_partition(KEY).commit_log_start_offset
    again.delete_records(again.open_partition(KEY), start)
    again.apply_retention(0, lambda _: KEEP)
    world.run()
    assert again.parts.second_level.file_count == 0
    assert read_manifest(ExtentPlace(master.disk, DIRECTORY)).cuts == ()


def test_a_mastership_without_a_batch_is_known_when_all_before_it_was_moved() -> None:
    # Found by the simulator: epoch 9 was said to be an older one, as in no log without extents.
    log = (master := Master(is_released=False)).log
    partition, world = master.partition, master.world
    while master.log.parts.second_level.held(KEY).end_offset < partition.log_end_offset:  # type: ignore[union-attr]
        append(log, log.open_partition(OTHER), size=8_000)
        world.run()
        master.split_all()
    for epoch in (9, 12):
        log.begin_epoch(LeaderEpoch(epoch))
    world.run()
    answers: list[object] = []
    end = partition.log_end_offset
    log.find_epoch_end(
        partition, LeaderEpoch(9), lambda found, error: answers.append(error or found)
    )
    master.retain()
    log.find_epoch_end(
        partition, LeaderEpoch(9), lambda found, error: answers.append(error or found)
    )
    world.run()
    assert partition.commit_log_start_offset == end
    assert answers == [EpochEnd(LeaderEpoch(9), end)] * 2


def test_after_a_start_nothing_is_kept_that_was_out_of_retention_when_extents_were_begun() -> None:
    """Found by the simulator: such a log start is in memory, and a crash takes it back.

    What lies below would stay in the commit log, as no extent is going to have it.
    """
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    fill(world, log)
    second, start = log.parts.second_level, 100
    segments = closed_segments(log)
    made = split_segments(
        disk,
        DIRECTORY,
        segments,
        lambda key: start if key == KEY else None,
        unfinished=UNFINISHED,
        identity=IDENTITY,
    )
    assert made
    assert take_over(world, second, start) is None
    held = second.held(KEY)
    assert held is not None
    assert log.open_partition(KEY).log_start_offset < held.start_offset
    log.close()
    again = slave(disk)[1].open_partition(KEY)
    assert again.log_start_offset == held.start_offset
