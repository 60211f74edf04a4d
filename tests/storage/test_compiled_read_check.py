"""The compiled check of what was read agrees with the Python one: whole, damaged, cut short."""

import random
import struct

import pytest
from crc32c import crc32c

from penstock.base.ids import TopicId, TopicPartition
from penstock.frames.frames import FRAME_HEADER_BYTES, put_batch_frame
from penstock.storage import compiled
from penstock.storage.errors import CorruptFrame
from penstock.storage.read import read_check
from penstock.storage.read.regions import Region

OURS = TopicPartition(TopicId(bytes(range(16))), 7)
OTHER = TopicPartition(TopicId(bytes(range(16))), 8)
START = 1 << 33


def batch(rng: random.Random) -> memoryview:
    body = bytearray(rng.randbytes(rng.randrange(61, 300)))
    struct.pack_into(">i", body, 8, len(body) - 12)
    struct.pack_into(">I", body, 17, crc32c(body[21:]))
    return memoryview(body)


def regions_of(
    rng: random.Random, partition: TopicPartition = OURS
) -> tuple[list[Region], list[memoryview]]:
    """Regions with a few frames each, some of them with another partition's bytes between."""
    regions, found = [], []
    at = START
    for _ in range(rng.randrange(1, 4)):
        data, pieces, start = bytearray(), [], at
        for _ in range(rng.randrange(1, 4)):
            body, head = batch(rng), len(data)
            data += bytes(FRAME_HEADER_BYTES + len(body))
            key = struct.pack(">i", partition.partition) + partition.topic_id
            put_batch_frame(memoryview(data), head, body, key, 3, start + head, 0, 55)
            pieces.append((head + FRAME_HEADER_BYTES, len(body)))
            if rng.random() < 0.3:
                data += rng.randbytes(40)
        del data[sum(pieces[-1]) :]
        regions.append(Region(start, len(data), pieces))
        found.append(memoryview(data))
        at += len(data) + 1000
    return regions, found


def outcome(check, *arguments):
    try:
        return [bytes(one) for one in check(*arguments)]
    except CorruptFrame as error:
        return (error.position, str(error))


def test_both_twins_give_the_same_batches() -> None:
    rng = random.Random(1)
    for _ in range(300):
        regions, found = regions_of(rng)
        expected = [
            bytes(data[at : at + size])
            for region, data in zip(regions, found, strict=True)
            for at, size in region.pieces
        ]
        assert outcome(compiled.check_regions, regions, found, OURS) == expected
        assert outcome(read_check.check_regions, regions, found, OURS) == expected


def test_both_twins_find_every_flipped_bit_of_a_frame() -> None:
    rng = random.Random(2)
    regions, found = regions_of(rng)
    region, data = regions[0], found[0]
    place, size = region.pieces[0]
    for at in range(place - FRAME_HEADER_BYTES, place + size):
        data[at] ^= 1 << rng.randrange(8)
        told = outcome(compiled.check_regions, regions, found, OURS)
        assert isinstance(told, tuple), f"a flipped bit at {at} was served"
        assert told == outcome(read_check.check_regions, regions, found, OURS)
        _, found[:] = regions_of(random.Random(2))
        data = found[0]


def test_both_twins_refuse_what_is_not_the_frame_that_the_index_names() -> None:
    regions, found = regions_of(random.Random(3), OTHER)
    moved = [region._replace(start=region.start + 8) for region in regions]
    for arguments in ((regions, found, OURS), (moved, found, OTHER)):
        told = outcome(compiled.check_regions, *arguments)
        assert "names another frame" in told[1]
        assert told == outcome(read_check.check_regions, *arguments)


@pytest.mark.parametrize("length", [0, 47, 48, 60, 100])
def test_both_twins_say_how_much_is_missing(length: int) -> None:
    regions, found = regions_of(random.Random(4))
    found[0] = found[0][:length]
    told = outcome(compiled.check_regions, regions, found, OURS)
    assert f"{length} of {regions[0].length} bytes" in told[1]
    assert told == outcome(read_check.check_regions, regions, found, OURS)
