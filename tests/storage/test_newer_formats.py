"""A log that a later release has written to, after a downgrade: it is refused, and not changed.

Bytes of a later version are no damage. Taken for a torn tail they would be cut off, and taken for a
damaged snapshot they would be written anew without what they said.
"""

from struct import Struct

import pytest
from crc32c import crc32c

from harness.log_world import append
from penstock.frames.frames import (
    BATCH_COVERED_BYTES,
    FRAME_HEADER_BYTES,
    KIND_BATCH,
    KIND_EPOCH,
)
from penstock.storage.errors import CorruptLog, NewerFormat
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.test_recovery import node_of, reopened, started

CRC = Struct(">I")


def all_files(disk: FaultyDisk) -> dict[str, bytes]:
    return {name: bytes(node.data) for name, node in disk.names.items()}


def edit(disk: FaultyDisk, name: str, at: int, data: bytes) -> None:
    node = node_of(disk, name, at=0)
    node.data[at : at + len(data)] = data
    node.durable[:] = node.data


def is_refused_whole(disk: FaultyDisk) -> None:
    before = all_files(disk)
    with pytest.raises(NewerFormat, match="later release"):
        reopened(disk)
    assert all_files(disk) == before


def later_frame(disk: FaultyDisk, position: int, *, version: int, kind: int) -> None:
    """Make the frame at `position` one that a later release has written."""
    data = node_of(disk, ".log", at=0).data
    size = int.from_bytes(data[position + 8 : position + 12], "big")
    covered = FRAME_HEADER_BYTES + BATCH_COVERED_BYTES if kind == KIND_BATCH else size
    edit(disk, ".log", position + 6, bytes((version, kind)))
    edit(disk, ".log", position, CRC.pack(crc32c(bytes(data[position + 4 : position + covered]))))


@pytest.mark.parametrize(("version", "kind"), [(2, KIND_BATCH), (2, KIND_EPOCH), (1, 5), (7, 9)])
@pytest.mark.parametrize("is_synced", [True, False])
def test_frames_of_a_later_release_are_not_cut_off(
    version: int, kind: int, is_synced: bool
) -> None:
    world, disk, log, partition = started(batches=3)
    position = log.end_position
    append(log, partition)
    world.run()
    later_frame(disk, position, version=version, kind=kind)
    if not is_synced:
        del disk.names[next(name for name in disk.names if name.endswith("/durable"))]
    is_refused_whole(disk)


def test_a_damaged_version_of_a_frame_is_damage() -> None:
    world, disk, log, partition = started(batches=3)
    position = log.end_position
    append(log, partition)
    world.run()
    edit(disk, ".log", position + 6, b"\x02")
    with pytest.raises(CorruptLog):
        reopened(disk)


def test_a_frame_of_a_later_release_that_names_another_place_is_an_old_one() -> None:
    world, disk, log, partition = started(batches=3)
    end = log.end_position
    append(log, partition)
    world.run()
    later_frame(disk, end, version=2, kind=KIND_BATCH)
    data = node_of(disk, ".log", at=0).data
    edit(disk, ".log", end + 16, (end + 1).to_bytes(8, "big"))
    covered = FRAME_HEADER_BYTES + BATCH_COVERED_BYTES
    edit(disk, ".log", end, CRC.pack(crc32c(bytes(data[end + 4 : end + covered]))))
    del disk.names[next(name for name in disk.names if name.endswith("/durable"))]
    _, log, _ = reopened(disk)
    assert log.end_position == end


HEADERS = [("/durable", 16, 16), (".snap", 64, -4)]


@pytest.mark.parametrize(("name", "covered", "crc_at"), HEADERS)
def test_files_beside_the_segments_of_a_later_release_are_not_made_anew(
    name: str, covered: int, crc_at: int
) -> None:
    world, disk, log, _ = started(batches=3)
    done: list[bool] = []
    log.checkpoint(done.append)
    world.run()
    assert done == [True]
    data = node_of(disk, name, at=0).data
    edit(disk, name, 4, b"\x00\x03")
    edit(disk, name, crc_at % len(data), CRC.pack(crc32c(bytes(data[:covered]))))
    is_refused_whole(disk)


@pytest.mark.parametrize(("name", "covered"), [("catching-up", 16), ("pending-change", 40)])
def test_notes_of_a_later_release_about_what_is_under_way_are_not_passed_over(
    name: str, covered: int
) -> None:
    _, disk, log, _ = started(batches=3)
    magic = {"catching-up": b"PSCU", "pending-change": b"PSCH"}[name]
    head = magic + b"\x00\x02" + bytes(covered - 6)
    file = disk.open(f"{log.directory}/{name}", create=True)
    file.write(0, [head + CRC.pack(crc32c(head)) + bytes(4)])
    file.sync()
    is_refused_whole(disk)
