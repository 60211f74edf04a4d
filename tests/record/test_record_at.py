"""One record of a stored batch: the twins read the same, or the compiled one says None."""

import random

import pytest

from penstock.record import read
from penstock.record.batch import BATCH_HEADER_BYTES, BatchHeader, read_header, seal
from penstock.record.build import Record, build_batch
from penstock.record.errors import RecordError
from penstock.record.read import DecodedRecord, iter_records, record_at
from penstock.record.walk import INT64_MAX, INT64_MIN
from tests.record.batches import batch, record

compiled = pytest.mark.skipif(read.COMPILED is None, reason="the compiled twin was not built")
Found = tuple[DecodedRecord, int, int]


def interpreted(block: memoryview, at: int, header: BatchHeader, previous: int) -> Found | None:
    try:
        return record_at(block, at, header, previous)
    except RecordError:
        return None


def some_batch(rng: random.Random) -> bytearray:
    names = ["", "name", "é"]
    records = [
        Record(
            rng.choice((None, b"", rng.randbytes(rng.randrange(200)))),
            rng.choice((None, b"", rng.randbytes(rng.randrange(200)))),
            tuple(
                (rng.choice(names), rng.choice((None, b"", b"value")))
                for _ in range(rng.randrange(4))
            ),
            rng.randrange(1 << 41),
        )
        for _ in range(rng.randrange(1, 4))
    ]
    return bytearray(build_batch(records, attributes=rng.choice((0, 0, 8)), base_offset=1 << 40))


@compiled
@pytest.mark.parametrize("seed", range(8))
def test_what_the_compiled_twin_reads_is_what_the_interpreted_one_reads(seed: int) -> None:
    rng = random.Random(seed)
    assert read.COMPILED is not None
    count = 0
    for _ in range(1_500):
        made = some_batch(rng)
        sound = rng.random() < 0.5
        if not sound:
            at = rng.randrange(BATCH_HEADER_BYTES, len(made))
            made[at] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
        header = read_header(memoryview(made))
        if rng.random() < 0.1:
            header = header._replace(base_timestamp=rng.choice((INT64_MAX, INT64_MIN)))
        block, at, previous = memoryview(made)[BATCH_HEADER_BYTES:], 0, -1
        while at < len(block):
            expected = interpreted(block, at, header, previous)
            found = read.COMPILED(DecodedRecord, block, at, header, previous)
            assert found is None or found == expected
            if expected is None:
                break
            count += found is not None
            assert found is None or type(found[0]) is DecodedRecord
            _, previous, at = expected
    assert count > 1_500, "or nothing was compared"


@compiled
def test_the_usual_record_is_read_by_the_compiled_twin() -> None:
    assert read.COMPILED is not None
    made = memoryview(build_batch([Record(b"k", b"v", (("h", b"1"), ("n", None)), 77)]))
    found = read.COMPILED(DecodedRecord, made[BATCH_HEADER_BYTES:], 0, read_header(made), -1)
    assert found is not None
    assert found[0] == (0, 77, b"k", b"v", (("h", b"1"), ("n", None)))


def test_a_record_whose_offset_does_not_rise_ends_the_reading_behind_those_before_it() -> None:
    made = bytearray(build_batch([Record(None, b"a"), Record(None, b"b")]))
    first = made[BATCH_HEADER_BYTES] // 2 + 1  # a length of one byte, zigzag
    assert made[BATCH_HEADER_BYTES + first + 3] == 2, "the offset delta 1, zigzag"
    made[BATCH_HEADER_BYTES + first + 3] = 0
    seal(memoryview(made), 0, len(made))
    records = iter_records(memoryview(made))
    assert next(records).value == b"a"
    with pytest.raises(RecordError, match="offset delta 0 after 0"):
        next(records)


def test_bytes_behind_the_last_record_of_a_batch_are_an_error() -> None:
    made = memoryview(batch(record(0, b"k", b"v") + b"\0", 1))
    records = iter_records(made)
    assert next(records).value == b"v"
    with pytest.raises(RecordError, match="1 bytes follow the last record"):
        next(records)
