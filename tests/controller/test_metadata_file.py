"""The file of one disk's metadata entries: cut and damaged at every byte."""

import pytest

from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.controller.metadata.metadata_file import (
    HEADER_BYTES,
    MetadataFile,
    encode_frame,
    encode_head,
    read_file,
)

HEAD = encode_head(4, b"snapshot")
GROUPS = [[b"five"], [b"six", b"", b"eight"], [b"nine"]]


def frames() -> list[bytes]:
    first, found = 5, []
    for group in GROUPS:
        found.append(encode_frame(first, group))
        first += len(group)
    return found


def entries(file: MetadataFile) -> list[list[bytes]]:
    return [[bytes(one) for one in frame.entries] for frame in file.frames]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def test_file_comes_out_as_it_went_in() -> None:
    data = HEAD + b"".join(frames())
    file = read_file(data)
    assert (file.snapshot_index, bytes(file.snapshot)) == (4, b"snapshot")
    assert entries(file) == GROUPS
    assert (file.last_index, file.end_position) == (9, len(data))
    assert [frame.first_index for frame in file.frames] == [5, 6, 9]


def test_file_cut_at_any_byte_keeps_every_whole_frame() -> None:
    ends = [len(HEAD)]
    for frame in frames():
        ends.append(ends[-1] + len(frame))
    whole = HEAD + b"".join(frames())
    for length in range(len(HEAD), len(whole) + 1):
        file = read_file(whole[:length])
        kept = sum(end <= length for end in ends[1:])
        assert entries(file) == GROUPS[:kept], length
        assert file.end_position == ends[kept]


def test_damaged_last_frame_counts_as_cut() -> None:
    kept = HEAD + b"".join(frames()[:-1])
    whole = HEAD + b"".join(frames())
    for at in range(len(kept), len(whole)):
        assert read_file(flipped(whole, at)).end_position == len(kept), at


def test_damage_in_front_of_whole_frames_is_refused() -> None:
    whole = HEAD + b"".join(frames())
    for at in range(len(whole) - len(frames()[-1])):
        with pytest.raises((CorruptMetadata, UnsupportedMetadata)):
            read_file(flipped(whole, at))


def test_head_that_is_cut_is_refused() -> None:
    for length in (0, HEADER_BYTES - 1, len(HEAD) - 1):
        with pytest.raises(CorruptMetadata):
            read_file(HEAD[:length])


def test_gaps_in_the_numbers_are_refused() -> None:
    for wrong in (
        encode_frame(6, [b"a"]),
        encode_frame(5, [b"a"]) + encode_frame(7, [b"b"]),
        encode_frame(5, [b"a"]) + encode_frame(5, [b"b"]),
    ):
        with pytest.raises(CorruptMetadata):
            read_file(HEAD + wrong)


def test_frames_from_before_the_snapshot_may_still_be_there() -> None:
    file = read_file(HEAD + encode_frame(3, [b"three", b"four", b"five"]))
    assert (file.snapshot_index, file.last_index) == (4, 5)
