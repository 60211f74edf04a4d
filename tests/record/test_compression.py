"""All codecs both ways, what other clients write, and bombs."""

import contextlib
import resource
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    XERIAL_MAGIC,
    ZSTD,
    Bounds,
    compress,
    decompress,
    lz4_guess,
)
from penstock.record.errors import BatchTooLarge, CorruptBatch, UnsupportedCodec

BOUNDS = Bounds(output_bytes_max=1 << 20)
CODECS = [0, GZIP, SNAPPY, LZ4, ZSTD]


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=2000), times=st.integers(1, 300))
def test_what_was_compressed_comes_back(codec: int, data: bytes, times: int) -> None:
    block = memoryview(compress(codec, data * times))
    assert decompress(codec, block, BOUNDS) == data * times


def xerial(*blocks: bytes) -> bytes:
    parts = [struct.pack(">i", len(block)) + block for block in blocks]
    return XERIAL_MAGIC + struct.pack(">ii", 1, 1) + b"".join(parts)


def test_snappy_in_xerial_blocks_of_java_clients_is_read() -> None:
    raw = cramjam.snappy.compress_raw
    data = xerial(bytes(raw(b"a" * 40000)), bytes(raw(b"bcd")))
    assert decompress(SNAPPY, memoryview(data), BOUNDS) == b"a" * 40000 + b"bcd"


@pytest.mark.parametrize("cut", [17, 19, 21, 25])
def test_cut_xerial_block_is_corrupt(cut: int) -> None:
    data = xerial(bytes(cramjam.snappy.compress_raw(b"abcdefgh" * 10)))
    with pytest.raises(CorruptBatch):
        decompress(SNAPPY, memoryview(data)[:cut], BOUNDS)


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    assert compress(LZ4, b"x" * 100)[4] & 0x20


@given(st.integers(0, 9), st.binary(min_size=1, max_size=300))
def test_lz4_guess_is_enough_and_not_far_too_much(power: int, data: bytes) -> None:
    plain = data * 2**power
    block = memoryview(compress(LZ4, plain))
    assert len(plain) <= lz4_guess(block, 1 << 20) <= len(plain) * 4 + (64 << 10)


def test_several_gzip_and_zstd_members_are_one_stream() -> None:
    for codec in (GZIP, ZSTD):
        block = compress(codec, b"one") + compress(codec, b"two" * 5000)
        assert decompress(codec, memoryview(block), BOUNDS) == b"one" + b"two" * 5000


def test_zstd_without_declared_size_grows_to_what_it_needs() -> None:
    stream = cramjam.zstd.Compressor()
    for _ in range(10):
        stream.compress(b"abc" * 30000)
    assert decompress(ZSTD, memoryview(bytes(stream.finish())), BOUNDS) == b"abc" * 300000


@pytest.mark.parametrize("codec", CODECS[1:])
def test_damaged_and_cut_blocks_give_an_error_and_nothing_else(codec: int) -> None:
    block = compress(codec, bytes(range(256)) * 8)
    for cut in range(0, len(block), 7):
        with pytest.raises(CorruptBatch):
            decompress(codec, memoryview(block)[:cut], BOUNDS)


@pytest.mark.parametrize("codec", CODECS[1:])
@given(data=st.binary(max_size=300))
def test_any_bytes_give_an_answer_or_a_typed_error(codec: int, data: bytes) -> None:
    with contextlib.suppress(CorruptBatch, BatchTooLarge):
        assert len(decompress(codec, memoryview(data), BOUNDS)) <= 1 << 20


def bomb(codec: int) -> bytes:
    """256 MiB of zeros; larger ones differ in nothing but the time to make them."""
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(bytes(256 << 20)))
    module = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]
    stream = module.Compressor(1)
    for _ in range(64):
        stream.compress(bytes(4 << 20))
    return bytes(stream.finish())


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_costs_no_more_than_the_limit(codec: int) -> None:
    block = memoryview(bomb(codec))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BatchTooLarge):
        decompress(codec, block, Bounds(output_bytes_max=8 << 20))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 20 << 10


def test_ratio_counts_only_above_its_free_bytes() -> None:
    block = memoryview(compress(ZSTD, bytes(900_000)))
    assert len(decompress(ZSTD, block, BOUNDS)) == 900_000
    with pytest.raises(BatchTooLarge):
        decompress(ZSTD, block, BOUNDS._replace(ratio_free_bytes=1000))


def test_unknown_codec_is_named() -> None:
    with pytest.raises(UnsupportedCodec):
        decompress(5, memoryview(b"abc"), BOUNDS)
    with pytest.raises(UnsupportedCodec):
        compress(5, b"abc")


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_refusal_that_is_kept_keeps_none_of_what_was_unpacked(codec: int) -> None:
    bomb = memoryview(compress(codec, bytes(8 << 20)))
    bounds = Bounds(output_bytes_max=4 << 20, ratio_max=1 << 31)
    kept = []
    tracemalloc.start()
    try:
        for _ in range(4):
            with pytest.raises(BatchTooLarge) as refused:
                decompress(codec, bomb, bounds)
            kept.append(refused.value)
        assert tracemalloc.get_traced_memory()[0] < bounds.output_bytes_max
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (GZIP, (None, -1, 1, 9)),
        (LZ4, (None, 1, 9, 12, 17)),
        (ZSTD, (None, -131_072, 0, 3, 22)),
    ],
)
def test_each_level_of_a_codec_is_read_again(codec: int, levels: tuple[int | None, ...]) -> None:
    data = b"".join(b'{"user": %d, "visits": %d}' % (at, at * at) for at in range(2_000))
    sizes = {}
    for level in levels:
        packed = compress(codec, data, level)
        assert bytes(decompress(codec, memoryview(packed), BOUNDS)) == data
        sizes[level] = len(packed)
    assert sizes[None] == len(compress(codec, data, {GZIP: -1, LZ4: 9, ZSTD: 3}[codec]))
    assert len(set(sizes.values())) > 1
