"""What is built can be read, by us and by a client that nobody here wrote."""

import contextlib
import struct
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c
from hypothesis import given

from penstock.record import build
from penstock.record.batch import BatchHeader, check_batch, read_header
from penstock.record.build import (
    Record,
    append_record,
    build_batch,
    record_bytes_max,
)
from penstock.record.compression import BROKER_BOUNDS
from penstock.record.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    UnsupportedMagic,
)
from penstock.record.read import iter_batches, iter_records, run_end
from penstock.record.recompress import rebuild
from penstock.record.validate import validate_records
from penstock.record.varint import read_varint, varint_bytes, write_varint
from tests.record.batches import batch, record, simple
from tests.record.strategies import batches, codecs, records, st


@given(batches, codecs)
def test_records_come_back_as_they_were_built(chosen: list[Record], codec: int) -> None:
    data = build_batch(chosen, codec=codec, base_offset=70, producer_id=3, producer_epoch=1,
                       base_sequence=9)  # fmt: skip
    header = check_batch(memoryview(data), 0, len(data))
    assert (header.codec, header.producer_id, header.base_sequence) == (codec, 3, 9)
    assert header.max_timestamp == max(one.timestamp_ms for one in chosen)
    read = list(iter_records(memoryview(data)))
    assert [one.offset for one in read] == list(range(70, 70 + len(chosen)))
    assert [Record(one.key, one.value, one.headers, one.timestamp_ms) for one in read] == chosen


@pytest.mark.skipif(build.COMPILED_ENCODER is None, reason="no compiled twin was built")
@given(batches)
def test_twins_encode_the_same_bytes(chosen: list[Record]) -> None:
    assert build.COMPILED_ENCODER is not None
    base = chosen[0].timestamp_ms
    assert build.COMPILED_ENCODER(chosen, base) == build.encode_records(chosen, base)


def test_encoder_takes_only_records_of_bytes() -> None:
    wrong: Any = Record
    for bad in (wrong("text", None), wrong(None, 5), wrong(None, None, (("n", "text"),))):
        with pytest.raises((TypeError, AttributeError)):
            build_batch([bad])


def test_times_too_far_apart_for_one_batch_are_refused() -> None:
    far = [Record(None, None, (), -(2**62)), Record(None, None, (), 2**63 - 1)]
    with pytest.raises(InvalidTimestamp):
        build_batch(far)


@given(batches)
def test_aiokafka_reads_what_we_build(chosen: list[Record]) -> None:
    theirs = DefaultRecordBatch(build_batch(chosen))
    assert theirs.validate_crc()
    assert [(r.key, r.value, r.timestamp) for r in theirs] == [
        (r.key, r.value, r.timestamp_ms) for r in chosen
    ]


def test_we_read_what_aiokafka_builds() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 10000)
    for delta in range(5):
        builder.append(delta, 100 + delta, None, b"v%d" % delta, [("h", b"x")])
    data = memoryview(bytes(builder.build()))
    read = list(iter_records(data))
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in read] == [
        (i, 100 + i, None, b"v%d" % i) for i in range(5)
    ]
    assert read[0].headers == (("h", b"x"),)


@given(records)
def test_bound_of_a_record_is_never_too_small(one: Record) -> None:
    out = bytearray()
    append_record(out, one, 2**62, 2**31 - 1)
    assert len(out) <= record_bytes_max(one)


@pytest.mark.parametrize(
    "name", ["n", "n" * 63, "n" * 64, "é" * 31, "é" * 32, "é" * 63, "n" * 9_000]
)
def test_a_header_adds_its_name_its_value_and_their_lengths_to_the_bound(name: str) -> None:
    bound, encoded = record_bytes_max(Record(None, b"v")), len(name.encode())
    lengths = varint_bytes(encoded) + 5
    for value in (b"value", None):
        found = record_bytes_max(Record(None, b"v", ((name, value),)))
        assert found == bound + lengths + encoded + len(value or b"")


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert len(out) == varint_bytes(value)
    assert read_varint(memoryview(out), 0, len(out)) == (value, len(out))


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff" * 11])
def test_varint_that_does_not_end_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_varint(memoryview(data), 0, len(data))


def test_log_append_time_gives_all_records_the_brokers_time() -> None:
    data = memoryview(simple(3, attributes=0x08, max_timestamp=777))
    assert {one.timestamp_ms for one in iter_records(data)} == {777}


def test_cut_off_last_batch_of_a_run_is_left_out() -> None:
    one, two = simple(3), simple(2, base_offset=3)
    run = memoryview(one + two)
    assert [h.base_offset for h, _ in iter_batches(run)] == [0, 3]
    assert run_end(run, 0) == 5
    for end in range(len(one), len(run)):
        assert run_end(run[:end], 0) == 3
    assert run_end(run[:40], 8) == 8


def test_run_with_another_magic_or_length_is_refused() -> None:
    with pytest.raises(UnsupportedMagic):
        run_end(memoryview(simple(1, magic=1)), 0)
    with pytest.raises(CorruptBatch):
        run_end(memoryview(simple(1, batch_length=10)), 0)


def test_compacted_batch_with_gaps_is_read_but_not_taken_from_a_producer() -> None:
    payload = record(1, b"k", b"v") + record(4, None, None)
    data = memoryview(batch(payload, 2, base_offset=10, last_offset_delta=6))
    assert [one.offset for one in iter_records(data)] == [11, 14]
    with pytest.raises(InvalidRecord):
        validate_records(data, BROKER_BOUNDS)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (record(0, b"k", b"v") + record(0, b"k", b"v"), 2),
        (record(0, b"k", b"v") + record(2, b"k", b"v"), 2),
        (record(0, b"k", b"v") * 1 + b"\0", 1),
        (record(0, b"k", b"v") + record(1, b"k", b"v"), 3),
        (bytes([20]) + bytes(9), 1),
        (bytes(10), 1),
        (bytes([18]) + b"\0\0\0" + b"\x7f" + bytes(5), 1),
    ],
)
def test_records_that_do_not_add_up_are_corrupt(payload: bytes, count: int) -> None:
    data = memoryview(batch(payload, count))
    with pytest.raises((CorruptBatch, InvalidRecord)):
        validate_records(data, BROKER_BOUNDS)


def test_header_names_that_are_no_text_are_read_with_a_mark_for_what_is_not() -> None:
    body = b"\0\0\0\1\1\2" + b"\2\xff\1"
    data = memoryview(batch(bytes([len(body) * 2]) + body, 1))
    (read,) = iter_records(data)
    assert read.headers == (("\ufffd", None),)


@given(batches, codecs, codecs)
def test_recompressing_changes_the_codec_and_nothing_else(
    chosen: list[Record], before: int, after: int
) -> None:
    data = build_batch(chosen, codec=before, producer_id=5, producer_epoch=2, base_sequence=1,
                       attributes=0x10)  # fmt: skip
    again = rebuild(validate_records(memoryview(data), BROKER_BOUNDS), after)
    header = check_batch(memoryview(again), 0, len(again))
    assert header.codec == after
    assert _comparable(header) == _comparable(read_header(memoryview(data)))
    assert list(iter_records(memoryview(again))) == list(iter_records(memoryview(data)))


@given(batches, codecs, st.data())
def test_mutated_batches_give_records_or_typed_errors(
    chosen: list[Record], codec: int, data: st.DataObject
) -> None:
    good = bytearray(build_batch(chosen, codec=codec))
    at = data.draw(st.integers(61, len(good) - 1))
    good[at] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", good, 17, crc32c(good[21:]))
    with contextlib.suppress(RecordError):
        list(iter_records(memoryview(good)))


def _comparable(header: BatchHeader) -> BatchHeader:
    """The header without what the codec changes."""
    return header._replace(attributes=0, crc=0, batch_length=0)
