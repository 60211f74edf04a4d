"""Both twins of the column decoder against `iter_records`, through pyarrow as users will."""

import itertools
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.record import columns
from penstock.record.build import Record, build_batch
from penstock.record.column_builder import PythonColumnBuilder
from penstock.record.column_chunk import BinaryColumn, ColumnChunk, ColumnOptions, OffsetRange
from penstock.record.columns import COMPILED_BUILDER, decode_columns
from penstock.record.errors import CorruptBatch, RecordError, UnreadableBatch
from penstock.record.read import iter_batches, iter_records
from tests.record.batches import batch, record, simple
from tests.record.strategies import runs

BUILDERS = [PythonColumnBuilder] + ([COMPILED_BUILDER] if columns.IS_COMPILED else [])
both = pytest.mark.parametrize("builder", BUILDERS, ids=lambda one: one.__name__)
Builder = Callable[[OffsetRange, ColumnOptions], columns.ColumnBuilder]
ALL = (0, 2**63 - 1)
MS_MAX = (2**63 - 1) // 1000


def binary(column: BinaryColumn, rows: int) -> list[bytes | None]:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.positions), pa.py_buffer(column.data)]
    array = pa.Array.from_buffers(pa.binary(), rows, buffers, column.null_count)
    array.validate(full=True)
    assert array.null_count == array.to_pylist().count(None)
    return array.to_pylist()


def numbers(kind: pa.DataType, data: bytes | bytearray, rows: int) -> list[int]:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)]).to_pylist()


def headers(chunk: ColumnChunk) -> list[list[tuple[bytes | None, bytes | None]]]:
    found = chunk.headers
    if found is None:
        return [[]] * chunk.rows
    names, values = binary(found.names, found.pairs), binary(found.values, found.pairs)
    pairs = list(zip(names, values, strict=True))
    ends = struct.unpack(f"={chunk.rows + 1}i", found.positions)
    return [pairs[start:end] for start, end in itertools.pairwise(ends)]


def rows(chunks: list[ColumnChunk]) -> list[tuple[object, ...]]:
    out: list[tuple[object, ...]] = []
    for chunk in chunks:
        assert chunk.rows > 0
        out += zip(
            numbers(pa.int64(), chunk.offset, chunk.rows),
            numbers(pa.int64(), chunk.timestamp, chunk.rows),
            numbers(pa.int32(), chunk.timestamp_type, chunk.rows),
            binary(chunk.key, chunk.rows),
            binary(chunk.value, chunk.rows),
            headers(chunk),
            strict=True,
        )
    return out


def expected(run: bytes, start: int, end: int, *, with_headers: bool) -> list[tuple[object, ...]]:
    out: list[tuple[object, ...]] = []
    for header, data in iter_batches(memoryview(run)):
        if header.is_control:
            continue
        out += (
            (
                one.offset,
                max(-MS_MAX, min(MS_MAX, one.timestamp_ms)) * 1000,
                int(header.is_log_append_time),
                one.key,
                one.value,
                [(k.encode(), v) for k, v in one.headers] if with_headers else [],
            )
            for one in iter_records(data)
            if start <= one.offset < end
        )
    return out


options = st.builds(
    ColumnOptions, st.integers(1, 300), st.integers(1, 20), st.booleans()
) | st.just(ColumnOptions())


@both
@given(run=runs(), options=options, data=st.data())
def test_columns_hold_what_the_records_say(
    builder: Builder, run: bytes, options: ColumnOptions, data: st.DataObject
) -> None:
    first = next((h.base_offset for h, _ in iter_batches(memoryview(run))), 0)
    start = first + data.draw(st.integers(-2, 30))
    end = start + data.draw(st.integers(0, 30)) if data.draw(st.booleans()) else 2**63 - 1
    tail = run[: data.draw(st.integers(0, 60))]
    got = rows(list(decode_columns(memoryview(run + tail), start, end, options=options,
                                   make_builder=builder)))  # fmt: skip
    wanted = expected(run, start, end, with_headers=options.with_headers)
    if options.with_headers:
        assert got == wanted
    else:
        assert [row[:5] for row in got] == [row[:5] for row in wanted]


@both
@given(run=runs(), with_headers=st.booleans(), data=st.data())
def test_chunks_keep_their_limits(
    builder: Builder, run: bytes, with_headers: bool, data: st.DataObject
) -> None:
    options = ColumnOptions(data.draw(st.integers(1, 200)), data.draw(st.integers(1, 9)),
                            with_headers)  # fmt: skip
    for column in decode_columns(memoryview(run), *ALL, options=options, make_builder=builder):
        assert column.rows <= options.max_rows
        assert (
            column.rows == 1 or len(column.key.data) + len(column.value.data) <= options.max_bytes
        )


def outcome(builder: Builder, run: bytes, options: ColumnOptions) -> object:
    try:
        return rows(list(decode_columns(memoryview(run), *ALL, options=options,
                                        make_builder=builder)))  # fmt: skip
    except RecordError as error:
        return type(error)


@pytest.mark.skipif(not columns.IS_COMPILED, reason="no compiled twin was built")
@given(run=runs().filter(bool), with_headers=st.booleans(), data=st.data())
def test_twins_agree_on_damaged_records(
    run: bytes, with_headers: bool, data: st.DataObject
) -> None:
    # The CRC is made to fit, so that the damage reaches the decoders.
    _header, first = next(iter_batches(memoryview(run)))
    bad = bytearray(build_batch(list(map(to_record, iter_records(first))), attributes=0))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(61, len(bad) - 1) | st.integers(57, 60) | st.integers(23, 26))
        bad[at] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", bad, 17, crc32c(bad[21:]))
    options = ColumnOptions(with_headers=with_headers)
    assert COMPILED_BUILDER is not None
    compiled = outcome(COMPILED_BUILDER, bytes(bad), options)
    assert compiled == outcome(PythonColumnBuilder, bytes(bad), options)


def to_record(one: Any) -> Record:
    return Record(one.key, one.value, one.headers, one.timestamp_ms)


@both
@given(st.binary(max_size=60), st.integers(0, 20))
def test_any_block_of_bytes_is_decoded_or_corrupt(builder: Builder, block: bytes, n: int) -> None:
    header = next(iter_batches(memoryview(batch(block, n, last_offset_delta=1000))))[0]
    one = builder(OffsetRange(*ALL), ColumnOptions(with_headers=True))
    one.begin(header, memoryview(block))
    try:
        assert one.fill()
    except CorruptBatch:
        return
    assert one.rows == n


@both
def test_every_truncation_of_a_block_is_corrupt(builder: Builder) -> None:
    payload = record(0, b"key", b"value" * 20) + record(1, None, b"x")
    for end in range(len(payload)):
        run = batch(payload[:end], 2)
        with pytest.raises(UnreadableBatch):
            list(decode_columns(memoryview(run), *ALL, make_builder=builder))


@both
def test_wrong_crc_is_noticed(builder: Builder) -> None:
    with pytest.raises(UnreadableBatch, match="CRC"):
        list(decode_columns(memoryview(simple(2, crc=1)), *ALL, make_builder=builder))


@both
def test_row_larger_than_a_chunk_comes_alone(builder: Builder) -> None:
    run = build_batch([Record(None, bytes(n)) for n in (10, 5000, 10)])
    chunks = list(decode_columns(memoryview(run), *ALL, options=ColumnOptions(max_bytes=100),
                                 make_builder=builder))  # fmt: skip
    assert [len(chunk.value.data) for chunk in chunks] == [10, 5000, 10]


@both
def test_filling_before_a_batch_is_a_mistake(builder: Builder) -> None:
    with pytest.raises(AssertionError):
        builder(OffsetRange(*ALL), ColumnOptions()).fill()


@both
def test_what_stands_before_a_batch_that_can_not_be_read_is_yielded(builder: Builder) -> None:
    """In chunks of every size: rows of the bad batch itself are never among them."""
    good = build_batch([Record(None, b"%d" % n) for n in range(4)])
    again = build_batch([Record(None, b"%d" % n) for n in range(4, 6)], base_offset=4)
    bad = batch(record(0, b"k", b"v") + record(1, b"k", b"v") + b"!", 2, base_offset=6)
    run = memoryview(good + again + bytes(bad) + build_batch([Record(None, b"8")], base_offset=8))
    for rows in range(1, 9):
        offsets: list[int] = []
        options = ColumnOptions(max_rows=rows)
        chunks = decode_columns(run, 1, 100, options=options, make_builder=builder)
        with pytest.raises(UnreadableBatch) as failed:
            offsets.extend(
                offset
                for chunk in chunks
                for offset in memoryview(chunk.offset).cast("B").cast("q").tolist()
            )
        assert offsets == [1, 2, 3, 4, 5]
        assert (failed.value.first_offset, failed.value.last_offset) == (6, 7)
        assert failed.value.batch == bytes(bad)
