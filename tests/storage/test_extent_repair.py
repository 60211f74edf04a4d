"""A damaged extent file is written anew with another member's batches, and takes its place."""

from typing import Any

import pytest

from harness.log_world import ALL, DIRECTORY, SMALL, make_batch, read_chunk
from penstock.base.ids import LeaderEpoch, Offset
from penstock.extents.layout import ENTRY_BYTES, TAIL_BYTES, Entry
from penstock.extents.reader import read_directory
from penstock.extents.writer import ExtentFileWriter
from penstock.inspection.verify_extents import second_level_findings
from penstock.record.batch import stamp
from penstock.storage.errors import BadBatches, CorruptSecondLevel, ExtentDamaged, RangeRewritten
from penstock.storage.recover.repair import NOTHING_KEPT, cut_below_damage
from penstock.storage.second_level.files import read_manifest
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.split import appending
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.repairs import NEW, begin, go_on, put, scrub_all, write_anew
from tests.storage.replicas import crashes, settle
from tests.storage.second_level import IDENTITY
from tests.storage.test_second_level_copies import Master, everything, slave
from tests.storage.test_stores import KEY, OTHER, fill

FILE = 1
PATH = extent_path(DIRECTORY, FILE)


def entry_of(disk: FaultyDisk, path: str = PATH) -> Entry:
    data = memoryview(bytes(disk.names[path].data))
    (entry,) = read_directory(path, len(data), lambda at, size: data[at : at + size]).entries
    return entry


def places(disk: FaultyDisk) -> dict[str, int]:
    """Return a byte of each region of the file."""
    size, entry = len(disk.names[PATH].data), entry_of(disk)
    return {
        "header": 9,
        "zeros of the header": 40,
        "first batch": entry.extent_at + 3,
        "a record": entry.extent_at + entry.extent_bytes // 2,
        "last batch": entry.extent_at + entry.extent_bytes - 1,
        "index": entry.summary_at + 5,
        "notes": entry.summary_at + entry.summary_bytes - 1,
        "directory": size - TAIL_BYTES - ENTRY_BYTES + 20,
        "tail": size - TAIL_BYTES + 2,
        "zeros of the tail": size - 10,
        "magic": size - 1,
    }


REGIONS = list(places(Master().disk))


class Damaged:
    """A member with a damaged file, and a peer with all batches in its log."""

    def __init__(self, region: str = "a record", *, is_peer_released: bool = False) -> None:
        self.master, other = Master(), Master(is_released=is_peer_released)
        self.wanted = self.master.everything()
        self.disk = self.master.disk
        self.member = self.master.world, self.master.log
        self.peer = other.world, other.log
        self.disk.flip_bit(PATH, places(self.disk)[region], 4)

    @property
    def known(self) -> dict[int, str]:
        return self.master.log.splitting.damage.files

    def check_repaired(self) -> None:
        """All is as it was, the damaged file is gone, also after a start."""
        assert self.known == {}
        assert self.master.everything() == self.wanted
        numbers = [file.number for file in read_manifest(ExtentPlace(self.disk, DIRECTORY)).files]
        assert numbers == [0, 3, 2]
        names = self.disk.list(f"{DIRECTORY}/second")
        assert names == [*(f"{number:020d}.extents" for number in (0, 2, 3)), "manifest"]
        assert list(second_level_findings(self.disk, DIRECTORY)) == []
        assert [found.damaged for found in scrub_all(*self.member) if found.damaged] == []
        self.master.log.close()
        assert everything(*slave(self.disk)) == self.wanted


@pytest.mark.parametrize("region", REGIONS)
def test_damage_in_any_part_is_found_by_a_scrub_and_repaired_from_a_peer(region: str) -> None:
    damaged = Damaged(region)
    slices = scrub_all(*damaged.member)
    assert sum(found.damaged for found in slices) == 1
    assert list(damaged.known) == [FILE]
    asked = write_anew(damaged.member, damaged.peer, FILE)
    is_local = region in {
        "header", "zeros of the header", "directory", "tail", "zeros of the tail", "magic",
    }  # fmt: skip
    assert (asked == []) is is_local
    assert put(damaged.member, FILE) is None
    damaged.check_repaired()


def test_a_peer_gives_what_is_in_its_own_second_level_too() -> None:
    damaged = Damaged("index", is_peer_released=True)
    assert damaged.peer[1].open_partition(KEY).commit_log_start_offset > 500
    scrub_all(*damaged.member)
    assert write_anew(damaged.member, damaged.peer, FILE)
    assert put(damaged.member, FILE) is None
    damaged.check_repaired()


def test_a_file_that_is_gone_is_written_anew_from_a_peer() -> None:
    damaged = Damaged()
    damaged.disk.remove(PATH)
    scrub_all(*damaged.member)
    assert list(damaged.known) == [FILE]
    write_anew(damaged.member, damaged.peer, FILE)
    assert put(damaged.member, FILE) is None
    damaged.check_repaired()


def test_a_read_finds_damage_and_all_else_stays_readable() -> None:
    damaged = Damaged("a record")
    with pytest.raises(ExtentDamaged, match="checksum of block 0"):
        damaged.master.everything()
    assert list(damaged.known) == [FILE]
    held, partition = entry_of(damaged.disk), damaged.master.partition
    for first, _ in damaged.wanted:
        if held.first_offset <= first < held.end_offset:
            with pytest.raises(ExtentDamaged):
                read_chunk(*damaged.member, partition, first, 1)
        else:
            assert read_chunk(*damaged.member, partition, first, 1).first_offset == first


def test_a_look_up_by_time_finds_damage_too() -> None:
    damaged = Damaged("index")
    answers: list[object] = []
    damaged.member[1].offset_for_timestamp(
        damaged.master.partition,
        0,
        ALL,
        lambda hit, error: answers.append(error or hit),
        examine=lambda hit: None,
    )
    damaged.member[0].run()
    assert isinstance(answers[0], ExtentDamaged)
    assert list(damaged.known) == [FILE]


def test_bytes_that_are_no_batches_are_refused_and_nothing_changes() -> None:
    damaged = Damaged("a record")
    scrub_all(*damaged.member)
    world, log = damaged.member
    right = bytes(make_batch(records=2, size=300))
    for wrong in (right, right[:-1], b"", b"x" * 100):
        repair = begin(log, FILE)
        assert go_on(world, repair, None)
        with pytest.raises(BadBatches):
            go_on(world, repair, memoryview(wrong))
    assert list(damaged.known) == [FILE]
    assert f"{FILE:020d}.extents" in damaged.disk.list(f"{DIRECTORY}/second")


@pytest.mark.parametrize("region", ["a record", "index"])
def test_batches_with_right_checksums_that_were_not_here_are_refused(region: str) -> None:
    damaged = Damaged(region)
    world, log = damaged.member
    repair = begin(log, FILE)
    step = go_on(world, repair, None)
    refusals: list[BadBatches] = []
    while not isinstance(step, bool):
        batch = make_batch(size=200)
        stamp(batch, 0, base_offset=step.start_offset, leader_epoch=1)
        try:
            step = go_on(world, repair, batch)
        except BadBatches as error:
            refusals.append(error)
            break
    assert refusals


def test_killed_at_any_step_the_member_has_the_damaged_file_or_the_new_one() -> None:
    state: dict[str, Any] = {}
    wanted = Master().everything()

    def operation() -> None:
        damaged = Damaged("a record")
        state.update(disk=damaged.disk)
        damaged.disk.on_operation = state["hook"]
        write_anew(damaged.member, damaged.peer, FILE)
        assert put(damaged.member, FILE) is None

    found = []
    for _ in crashes(operation, state):
        state["disk"].power_loss()
        world, log = slave(state["disk"])
        numbers = [
            file.number for file in read_manifest(ExtentPlace(state["disk"], DIRECTORY)).files
        ]
        names = state["disk"].list(f"{DIRECTORY}/second")
        assert names == [*(f"{one:020d}.extents" for one in sorted(numbers)), "manifest"]
        if numbers == [0, 3, 2]:
            assert everything(world, log) == wanted
        else:
            assert numbers == [0, 1, 2]
            with pytest.raises(ExtentDamaged):
                everything(world, log)
        found.append(numbers)
    assert state["steps"] > 10
    assert [0, 1, 2] in found
    assert [0, 3, 2] in found


def test_what_retention_drops_meanwhile_does_not_come_back() -> None:
    damaged = Damaged("a record")
    write_anew(damaged.member, damaged.peer, FILE)
    world, log = damaged.member
    log.delete_records(damaged.master.partition, Offset(entry_of(damaged.disk).end_offset))
    damaged.master.retain()
    damaged.master.retain()
    assert log.parts.second_level.file_count == 1
    assert put(damaged.member, FILE) is None
    world.run()
    assert log.parts.second_level.file_count == 1
    assert len(damaged.disk.list(f"{DIRECTORY}/second")) == 2
    wanted = [one for one in damaged.wanted if one[0] >= damaged.master.partition.log_start_offset]
    assert damaged.master.everything() == wanted


def test_a_file_without_something_that_is_held_is_refused() -> None:
    damaged = Damaged("a record")
    made = damaged.disk.open(NEW, create=True)
    writer = ExtentFileWriter(appending(made), *IDENTITY)
    writer.begin(KEY)
    batch = make_batch(size=100)
    stamp(batch, 0, base_offset=entry_of(damaged.disk).first_offset, leader_epoch=1)
    writer.add(batch)
    writer.end()
    writer.finish()
    made.sync()
    made.close()
    assert "is not in what comes in the place of file 1" in str(put(damaged.member, FILE))
    assert damaged.disk.list(f"{DIRECTORY}/second") == [
        *(f"{number:020d}.extents" for number in range(3)), "manifest",
    ]  # fmt: skip


@pytest.mark.parametrize("region", ["index", "a record", "header"])
def test_a_file_that_was_cut_is_written_anew_up_to_the_cut(region: str) -> None:
    master = Master(is_released=False)
    world, log = master.world, master.log
    held = log.parts.second_level.held(KEY)
    assert held is not None
    at = next(one for one in master.filling.batches if one.first > held.end_offset - 100)
    settle(world, log.truncate, master.filling.positions[at.first])
    log.begin_epoch(LeaderEpoch(9))
    fill(world, log, 200)
    master.split_all()
    wanted = master.everything()
    other = Master(is_released=False)  # the same, before it is released
    settle(other.world, other.log.truncate, other.filling.positions[at.first])
    other.log.begin_epoch(LeaderEpoch(9))
    fill(other.world, other.log, 200)
    master.retain()
    newest = read_manifest(ExtentPlace(master.disk, DIRECTORY)).files[2].number
    path = extent_path(DIRECTORY, newest)
    entry = entry_of(master.disk, path)
    place = {"index": entry.summary_at, "a record": entry.extent_at + 70, "header": 9}[region]
    master.disk.names[path].data[place] ^= 1
    asked = write_anew((world, log), (other.world, other.log), newest)
    assert (asked == []) is (region == "header"), "its own batches, up to the cut"
    assert put((world, log), newest) is None
    assert master.everything() == wanted
    log.close()
    assert everything(*slave(master.disk)) == wanted


def test_an_extent_that_was_rewritten_here_is_not_mixed_with_another_member_s() -> None:
    damaged = Damaged("a record")
    world, log = damaged.member
    held = log.parts.second_level.held(KEY)
    assert held is not None
    made = damaged.disk.open(NEW, create=True)
    writer = ExtentFileWriter(appending(made), *IDENTITY)
    writer.begin(KEY, 1, first_offset=held.start_offset)
    batch = make_batch(size=100)
    stamp(batch, 0, base_offset=held.end_offset - 1, leader_epoch=9)
    writer.add(batch)
    writer.end(epochs=[(LeaderEpoch(9), held.start_offset)])
    writer.finish()
    made.sync()
    made.close()
    answers: list[object] = []
    log.splitting.take_over(NEW, answers.append)
    world.run()
    assert answers == [None]
    damage = log.splitting.damage
    assert damage.is_rewritten(KEY, held.start_offset, held.end_offset)
    assert not damage.is_rewritten(OTHER, 0, held.end_offset)
    damaged.disk.names[extent_path(DIRECTORY, 3)].data[70] ^= 1
    with pytest.raises(RangeRewritten, match="was cleaned"):
        go_on(world, begin(log, 3), None)


@pytest.mark.parametrize("path", ["manifest", f"{FILE:020d}.extents"])
def test_damage_that_a_start_meets_is_that_of_the_log_and_keeps_nothing_of_it(path: str) -> None:
    damaged = Damaged("header")
    damaged.master.log.close()
    if path == "manifest":
        damaged.disk.names[PATH].data[9] ^= 16
        damaged.disk.names[f"{DIRECTORY}/second/manifest"].data[20] ^= 1
    with pytest.raises(CorruptSecondLevel, match="second level") as raised:
        slave(damaged.disk)
    assert raised.value.position == NOTHING_KEPT
    cut_below_damage(damaged.disk, DIRECTORY, raised.value.position, SMALL)
    _, log = slave(damaged.disk)
    assert log.end_position == 0
    assert damaged.disk.list(f"{DIRECTORY}/second") == []
