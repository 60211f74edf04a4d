"""Verify says what is wrong and nothing else; dump tells frame by frame."""

import pytest

from harness.log_world import DIRECTORY, SMALL, World, append, open_log, partition_number
from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.inspection.dump import dump_frames
from penstock.inspection.findings import Severity
from penstock.inspection.verify import LogCheck
from penstock.storage.commit_log.segments import Segment, list_segments
from penstock.storage.config import Retention
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.sealed_index import Sealed
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import fill_segment


@pytest.fixture
def disk():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    logs = [log.open_partition(partition_number(number)) for number in range(3)]
    for number in range(900):
        append(log, logs[number % 3], size=300, fill=number, records=2)
        world.run()
    log.close()
    return disk


def findings(disk, least=Severity.WARNING):
    kept = (Severity.ERROR, Severity.WARNING) if least is Severity.WARNING else (least,)
    return [found for found in LogCheck(disk, DIRECTORY).findings() if found.severity in kept]


def test_a_sound_log_has_no_findings_but_its_end(disk):
    check = LogCheck(disk, DIRECTORY)
    found = list(check.findings())
    assert [each.severity for each in found] == [Severity.NOTE]
    assert "ends here" in found[0].message
    assert (check.batch_count, check.batch_bytes) == (900, 270_000)


def test_verify_changes_nothing(disk):
    before = {name: bytes(node.data) for name, node in disk.names.items()}
    list(LogCheck(disk, DIRECTORY).findings())
    assert {name: bytes(node.data) for name, node in disk.names.items()} == before


@pytest.mark.parametrize("at", [10_000, 70_000, 200_000])
def test_a_flipped_byte_in_the_log_is_an_error_at_its_frame(disk, at):
    base = at // SMALL.segment_bytes * SMALL.segment_bytes
    disk.names[f"{DIRECTORY}/log/{base:020d}.log"].data[at - base] ^= 1
    (first, *_) = findings(disk, Severity.ERROR)
    assert at - 400 < first.position <= at


def test_damage_of_derived_files_is_a_warning(disk):
    disk.names[f"{DIRECTORY}/index/{0:020d}.idx"].data[90] ^= 1
    disk.remove(f"{DIRECTORY}/index/{SMALL.segment_bytes:020d}.idx")
    snapshots = [name for name in disk.names if name.endswith(".snap")]
    disk.names[snapshots[0]].data[70] ^= 1
    found = findings(disk)
    assert {each.severity for each in found} == {Severity.WARNING}
    assert len(found) == 3


def test_a_missing_segment_is_an_error(disk):
    disk.remove(f"{DIRECTORY}/log/{SMALL.segment_bytes:020d}.log")
    assert any("missing" in each.message for each in findings(disk, Severity.ERROR))


def test_a_partition_without_frames_beside_a_hole_goes_on_behind_it():
    # What it had in the segment that retention took is no damage, however late it goes on.
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    held, busy, rare = (log.open_partition(partition_number(number)) for number in range(3))
    append(log, held)
    append(log, rare)
    for number in range(900):
        append(log, busy, size=300, fill=number)
        if number == 300:
            append(log, rare, records=3)
        if number == 600:
            append(log, held)
        if number == 800:
            append(log, rare)
        world.run()
    log.delete_records(busy, busy.log_end_offset)
    log.delete_records(rare, Offset(4))
    log.apply_retention(world.now_ms, lambda _: Retention(-1, -1))
    world.run()
    log.close()
    bases = [segment.base for segment in list_segments(disk, DIRECTORY)]
    assert bases[0] == 0
    assert bases[1:3] == [3 * SMALL.segment_bytes, 4 * SMALL.segment_bytes]
    assert findings(disk) == []


def test_a_log_that_ends_with_its_segment_is_sound():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    assert fill_segment(world, log, log.open_partition(partition_number(0)), 20)
    log.begin_epoch(LeaderEpoch(log.leader_epoch + 1))  # has no room there, and begins the next one
    world.run()
    position = log.start_position + SMALL.segment_bytes
    truncated: list[object] = []
    log.truncate(Position(position), truncated.append)
    world.run()
    assert truncated == [None]
    log.close()
    check = LogCheck(disk, DIRECTORY)
    found = [finding for finding in check.findings() if finding.severity is not Severity.NOTE]
    assert (found, check.end_position) == ([], position)


def test_offsets_that_begin_again_behind_a_hole_are_an_error():
    check = LogCheck(FaultyDisk(), DIRECTORY)
    wanted, columns = partition_number(0), Columns([3], [70_000], [100], [0])
    check._before_hole = {wanted: 5}
    (found,) = check._offsets(
        Segment(DIRECTORY, Position(65_536), 131_072), {wanted: Sealed(columns, Offset(4))}
    )
    assert "offset 3, expected 5" in found.message


def test_an_empty_directory_is_an_error():
    assert findings(FaultyDisk())[0].message == "there are no segment files"


def test_dump_names_every_frame_in_order(disk):
    frames = list(dump_frames(disk, DIRECTORY))
    assert frames[0].kind == "epoch-start"
    assert frames[0].topic_id == ""
    batches = [frame for frame in frames if frame.kind == "batch"]
    assert len(batches) == 900
    assert [frame.position for frame in frames] == sorted(frame.position for frame in frames)
    assert (batches[4].partition, batches[4].base_offset, batches[4].last_offset) == (1, 2, 3)
    assert (batches[4].record_count, batches[4].codec, batches[4].producer_id) == (2, 0, -1)
    later = list(dump_frames(disk, DIRECTORY, from_position=100_001))
    assert later == [frame for frame in frames if frame.position >= 100_001]


def test_dump_shows_deleted_records():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(4))
    append(log, partition)
    log.delete_records(partition, Offset(1))
    world.run()
    frame = list(dump_frames(disk, DIRECTORY))[-1]
    assert (frame.kind, frame.partition, frame.base_offset) == ("log-start-offset", 4, 1)
