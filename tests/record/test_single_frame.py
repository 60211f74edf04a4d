"""What a producer compresses is one stream of its codec; readers of what is stored take more."""

import gzip
import random
import struct
import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lz4 import frame

from penstock.record import single_frame
from penstock.record.compression import GZIP, LZ4, SNAPPY, ZSTD, Bounds, compress, decompress
from penstock.record.errors import BatchTooLarge, CorruptBatch
from penstock.record.single_frame import decompress_single
from tests.record.test_compression import xerial

BOUNDS = Bounds(output_bytes_max=16 << 20, ratio_max=1 << 31)
TEXT = bytes(range(256)) * 300
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
INTERPRETED = (single_frame.find_lz4_frame, single_frame.find_zstd_frame)
PAIRS = [INTERPRETED] + ([single_frame.COMPILED] if single_frame.COMPILED else [])
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0skip"


def packed(codec: int, data: bytes = TEXT) -> bytes:
    return compress(codec, data)


def lz4(data: bytes = TEXT, **options: int) -> bytes:
    return frame.compress(data, **({"block_linked": False, "store_size": False} | options))


def zstd_stream(data: bytes = TEXT) -> bytes:
    """A frame that does not say how much is in it."""
    stream = cramjam.zstd.Compressor()
    for at in range(0, len(data), 10_000):
        stream.compress(data[at : at + 10_000])
    return bytes(stream.finish())


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def gzip_with(flags: int, extra: bytes) -> bytes:
    whole = packed(GZIP)
    return whole[:3] + bytes([flags]) + whole[4:10] + extra + whole[10:]


SOUND: dict[str, tuple[int, Callable[[], bytes]]] = {
    "gzip": (GZIP, lambda: packed(GZIP)),
    "gzip of Python": (GZIP, lambda: gzip.compress(TEXT)),
    "snappy, raw": (SNAPPY, lambda: packed(SNAPPY)),
    "snappy in xerial's blocks": (
        SNAPPY, lambda: xerial(raw_snappy(TEXT[:40_000]), raw_snappy(TEXT[40_000:])),
    ),
    "lz4": (LZ4, lambda: packed(LZ4)),
    "lz4 with checksums of blocks and content": (
        LZ4, lambda: lz4(block_checksum=True, content_checksum=True),
    ),
    "lz4 in blocks of 256 KiB": (LZ4, lambda: lz4(TEXT * 9, block_size=5)),
    "lz4 in blocks of 1 MiB": (LZ4, lambda: lz4(TEXT * 20, block_size=6)),
    "lz4 in blocks of 4 MiB": (LZ4, lambda: lz4(TEXT * 60, block_size=7)),
    "lz4 that says its size": (LZ4, lambda: lz4(store_size=True)),
    "lz4 of nothing to gain": (LZ4, lambda: lz4(zlib.compress(TEXT, 9))),
    "zstd": (ZSTD, lambda: packed(ZSTD)),
    "zstd as a stream": (ZSTD, zstd_stream),
    "zstd of one byte many times": (ZSTD, lambda: packed(ZSTD, bytes(3 << 20))),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_what_producers_write_is_read(name: str) -> None:
    codec, make = SOUND[name]
    data = memoryview(make())
    assert decompress_single(codec, data, BOUNDS) == decompress(codec, data, BOUNDS)


POISON: dict[str, tuple[int, Callable[[], bytes]]] = {
    "two gzip members": (GZIP, lambda: packed(GZIP) + packed(GZIP)),
    "an empty gzip member first": (GZIP, lambda: packed(GZIP, b"") + packed(GZIP)),
    "an empty gzip member last": (GZIP, lambda: packed(GZIP) + packed(GZIP, b"")),
    "zeros behind the gzip member": (GZIP, lambda: packed(GZIP) + bytes(20)),
    "a byte behind a gzip member of several steps": (
        GZIP, lambda: packed(GZIP, random.Random(1).randbytes(256 << 10)) + b"!",
    ),
    "a step behind a gzip member of several": (
        GZIP, lambda: packed(GZIP, random.Random(1).randbytes(256 << 10)) + bytes(64 << 10),
    ),
    "a few bytes behind a gzip member of several pieces": (
        GZIP, lambda: packed(GZIP, bytes(3 << 20)) + b"junk",
    ),
    "a gzip member without its end": (GZIP, lambda: packed(GZIP)[:-8]),
    "a gzip member that says it is shorter": (
        GZIP, lambda: packed(GZIP)[:-4] + struct.pack("<I", 7),
    ),
    "a gzip member that says it is longer": (
        GZIP, lambda: packed(GZIP)[:-4] + struct.pack("<I", 1 << 31),
    ),
    "a gzip member of another checksum": (
        GZIP, lambda: packed(GZIP)[:-8] + bytes(4) + packed(GZIP)[-4:],
    ),
    "gzip with a name that no reader has room for": (
        GZIP, lambda: gzip_with(8, b"n" * (64 << 10) + b"\0"),
    ),
    "reserved flags of gzip": (GZIP, lambda: gzip_with(0xE0, b"")),
    "zlib for gzip": (GZIP, lambda: zlib.compress(TEXT)),
    "two lz4 frames": (LZ4, lambda: packed(LZ4) + packed(LZ4)),
    "an empty lz4 frame first": (LZ4, lambda: packed(LZ4, b"") + packed(LZ4)),
    "an empty lz4 frame last": (LZ4, lambda: packed(LZ4) + packed(LZ4, b"")),
    "a skippable frame before lz4": (LZ4, lambda: SKIPPABLE + packed(LZ4)),
    "a skippable frame behind lz4": (LZ4, lambda: packed(LZ4) + SKIPPABLE),
    "an lz4 header of another checksum": (LZ4, lambda: lz4()[:6] + b"!" + lz4()[7:]),
    "an lz4 block that does not unpack": (LZ4, lambda: lz4()[:11] + bytes(30) + lz4()[41:]),
    "an lz4 block of more than its header allows": (
        LZ4, lambda: lz4()[:7] + lz4(block_size=5)[7:],
    ),
    "an lz4 frame without its end": (LZ4, lambda: packed(LZ4)[:-4]),
    "lz4 blocks that depend on each other": (LZ4, lambda: lz4(block_linked=True)),
    "an lz4 block of nothing": (LZ4, lambda: packed(LZ4)[:-4] + b"\1\0\0\0\0" + bytes(4)),
    "a plain lz4 block of nothing": (LZ4, lambda: packed(LZ4)[:-4] + b"\0\0\0\x80" + bytes(4)),
    "two zstd frames": (ZSTD, lambda: packed(ZSTD) + packed(ZSTD)),
    "an empty zstd frame first": (ZSTD, lambda: packed(ZSTD, b"") + packed(ZSTD)),
    "an empty zstd frame last": (ZSTD, lambda: packed(ZSTD) + packed(ZSTD, b"")),
    "a skippable frame before zstd": (ZSTD, lambda: SKIPPABLE + packed(ZSTD)),
    "a skippable frame behind zstd": (ZSTD, lambda: packed(ZSTD) + SKIPPABLE),
    "a zstd frame without its end": (ZSTD, lambda: packed(ZSTD)[:-3]),
    "xerial blocks of another version": (
        SNAPPY, lambda: xerial(raw_snappy(TEXT)).replace(b"\0\1\0\0\0\1", b"\0\2\0\0\0\2", 1),
    ),
    "an xerial block that unpacks to nothing": (
        SNAPPY, lambda: xerial(raw_snappy(TEXT), raw_snappy(b"")),
    ),
    "a snappy length longer than it needs to be": (
        SNAPPY, lambda: b"\x83\x80\0\x08abc",
    ),
    "a snappy length longer than it needs to be, in xerial's blocks": (
        SNAPPY, lambda: xerial(b"\x83\0\x08abc"),
    ),
    "a snappy length that does not end": (SNAPPY, lambda: b"\xff" * 9),
    "two xerial streams": (SNAPPY, lambda: xerial(raw_snappy(TEXT)) * 2),
    "junk behind a raw snappy block": (SNAPPY, lambda: packed(SNAPPY) + b"junk"),
}  # fmt: skip


@pytest.mark.parametrize("name", POISON)
def test_what_stops_a_client_is_not_taken(name: str) -> None:
    codec, make = POISON[name]
    with pytest.raises(CorruptBatch):
        decompress_single(codec, memoryview(make()), BOUNDS)


STORED = [
    name for name in POISON if name.startswith(("two gzip", "two lz4", "two zstd", "an empty"))
]


@pytest.mark.parametrize("name", STORED)
def test_what_was_taken_before_is_still_read(name: str) -> None:
    """The rule is for the door: data at rest stay as readable as they were."""
    codec, make = POISON[name]
    times = 2 if name.startswith("two") else 1
    assert decompress(codec, memoryview(make()), BOUNDS) == TEXT * times


def test_a_byte_behind_a_gzip_member_that_fills_its_steps_is_seen() -> None:
    """The member is given to zlib in steps; what follows may begin with one."""
    noise = random.Random(1).randbytes(128 << 10)
    sizes = range(len(noise) - 100, len(noise))
    whole = next(one for size in sizes if len(one := packed(GZIP, noise[:size])) == 128 << 10)
    assert len(decompress_single(GZIP, memoryview(whole), BOUNDS)) in sizes
    with pytest.raises(CorruptBatch, match="bytes follow"):
        decompress_single(GZIP, memoryview(whole + b"!"), BOUNDS)


def test_a_window_that_stream_decoders_have_no_room_for_is_not_taken() -> None:
    """KiB to the power of the descriptor's upper five bits: 128 MiB pass, 256 do not."""
    for is_one in {one for _, one in PAIRS}:
        frame = bytearray(b"\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00")
        frame[5] = 17 << 3
        assert is_one(memoryview(frame))
        frame[5] = 18 << 3
        assert not is_one(memoryview(frame))


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_too_large_and_a_large_batch_is_not(codec: int) -> None:
    bounds = Bounds(output_bytes_max=8 << 20, ratio_max=1 << 31)
    assert (
        len(decompress_single(codec, memoryview(packed(codec, bytes(8 << 20))), bounds)) == 8 << 20
    )
    with pytest.raises(BatchTooLarge):
        decompress_single(codec, memoryview(packed(codec, bytes((8 << 20) + 1))), bounds)


def test_a_zstd_frame_that_does_not_say_its_size_may_hold_what_librdkafka_has_room_for() -> None:
    bounds = Bounds(output_bytes_max=64 << 20, ratio_max=1 << 31)
    assert len(decompress_single(ZSTD, memoryview(zstd_stream(bytes(33_333_333))), bounds)) > 0
    with pytest.raises(BatchTooLarge):
        decompress_single(ZSTD, memoryview(zstd_stream(bytes(33_333_334))), bounds)
    said = memoryview(packed(ZSTD, bytes(33_333_334)))
    assert len(decompress_single(ZSTD, said, bounds)) == 33_333_334


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(min_size=1, max_size=2000), times=st.integers(1, 300))
def test_what_was_compressed_comes_back(codec: int, data: bytes, times: int) -> None:
    whole = memoryview(compress(codec, data * times))
    assert decompress_single(codec, whole, BOUNDS) == data * times
    with pytest.raises(CorruptBatch):
        decompress_single(codec, whole[:-1], BOUNDS)


@given(st.sampled_from([name for name in SOUND if SOUND[name][0] in {LZ4, ZSTD}]), st.data())
def test_twins_agree_on_damaged_frames(name: str, data: st.DataObject) -> None:
    damaged = bytearray(SOUND[name][1]())
    near = min(len(damaged) - 1, 24)
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(4, near))] = data.draw(st.integers(0, 255))
    cut = memoryview(damaged)[: data.draw(st.integers(0, len(damaged)))]
    for whole in (cut, memoryview(damaged), memoryview(bytes(damaged) + b"\0")):
        for kind in (0, 1):
            assert len({pair[kind](whole) for pair in PAIRS}) == 1


@pytest.mark.parametrize("name", [name for name in SOUND if SOUND[name][0] != GZIP])
def test_what_is_read_block_by_block_and_as_a_frame_is_the_same(name: str) -> None:
    """Into memory that was used before, of any size that is enough, and of one that is not."""
    codec, make = SOUND[name]
    data = memoryview(make())
    plain = bytes(decompress(codec, data, BOUNDS))
    for spare in (0, 1, 100_000):
        used = memoryview(bytearray(b"!" * (len(plain) + spare)))

        def lend(_least: int, most: int, used: memoryview = used) -> memoryview:
            return used[:most]

        assert decompress_single(codec, data, BOUNDS, lend) == plain
    with pytest.raises(BatchTooLarge):
        decompress_single(codec, data, BOUNDS._replace(output_bytes_max=len(plain) - 1))


def test_the_headers_of_plain_lz4_frames_are_those_that_the_library_writes() -> None:
    headers = [lz4(bytes(5 << 20), block_size=size)[:7] for size in (4, 5, 6, 7)]
    assert list(single_frame.LZ4_PLAIN_HEADERS) == headers


def test_bytes_that_do_not_lie_one_behind_the_other_are_looked_at_all_the_same() -> None:
    for kind, codec in ((0, LZ4), (1, ZSTD)):
        spread = memoryview(bytes(byte for one in packed(codec) for byte in (one, 0xFF)))[::2]
        assert {pair[kind](spread) for pair in PAIRS} == {True}
