"""Plain batches go through in one call, and only those that step by step would go through too."""

import random
from collections.abc import Callable

import pytest

from penstock.record import batch as batches
from penstock.record import compiled
from penstock.record.batch import BATCH_HEADER_BYTES, BatchHeader, check_batch
from penstock.record.build import Record, build_batch
from penstock.record.plain import PLAIN_BYTES_MAX, PLAIN_RECORDS_MAX, check_plain
from penstock.record.walk import INT64_MAX, INT64_MIN, NO_TIMESTAMP, walk_records
from tests.record.batches import batch, record, simple

NOW_MS = 1_000
HOUR_MS = 3_600_000
CheckPlain = Callable[[memoryview, int, int, int], BatchHeader | None]
TWINS: list[CheckPlain] = [check_plain, compiled.check_plain]
Bounds = tuple[int, int, int]


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest) -> CheckPlain:
    checks: CheckPlain = request.param
    return checks


def looked_at(
    checks: CheckPlain, data: bytes | bytearray, bounds: Bounds = (NOW_MS, HOUR_MS, HOUR_MS)
) -> BatchHeader | None:
    return checks(memoryview(data), *bounds)


def some_bytes(rng: random.Random) -> bytearray:
    """A batch that is plain more often than not, or nearly."""
    around = rng.choice((0, 1_000, NO_TIMESTAMP, rng.randrange(1 << 41)))
    records = [
        Record(rng.choice((None, b"key")), rng.randbytes(rng.randrange(9)), (), around - at % 3)
        for at in range(rng.randrange(1, 4))
    ]
    attributes = rng.choice((0, 0, 0, 0, 0x08, 0x10, 0x20, 0x40, 0x80))
    made = bytearray(
        build_batch(records, codec=max(0, rng.randrange(-9, 5)), attributes=attributes)
    )
    if rng.random() < 0.3:
        batches.stamp_producer(
            memoryview(made),
            producer_id=rng.randrange(-1, 2),
            producer_epoch=rng.randrange(-1, 2),
            base_sequence=rng.randrange(-1, 2),
        )
    for _ in range(rng.choice((0, 0, 1))):
        made[rng.randrange(len(made))] = rng.choice((0, 1, 2, 127, 255, rng.randrange(256)))
        if rng.random() < 0.8:  # damage that the checksum agrees with
            batches.seal(memoryview(made), 0, len(made))
    return made + rng.randbytes(rng.choice((0, 0, 0, 1)))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_plain_passes_step_by_step_and_both_twins_say_the_same(seed: int) -> None:
    rng = random.Random(seed)
    plain = 0
    for _ in range(1_500):
        data = memoryview(some_bytes(rng))
        bounds = (
            rng.choice((0, 1_000, 1 << 41)),
            rng.choice((0, 1, HOUR_MS, INT64_MAX)),
            rng.choice((0, 1, HOUR_MS, INT64_MAX)),
        )
        told = {twin(data, *bounds) for twin in TWINS}
        assert len(told) == 1, (bytes(data), bounds)
        header = told.pop()
        if header is None:
            continue
        plain += 1
        assert type(header) is BatchHeader
        assert header == check_batch(data, 0, len(data))
        times, _ = walk_records(
            data[BATCH_HEADER_BYTES:], header.record_count, header.base_timestamp
        )
        assert times.newest_ms == header.max_timestamp
        assert header.size_bytes == len(data)
    assert plain > 100, "or nothing was compared"


def test_records_without_keys_and_of_a_transaction_are_plain(twin: CheckPlain) -> None:
    data = batch(record(0, None, b"v"), 1, attributes=0x10, producer_id=7, producer_epoch=0,
                 base_sequence=0)  # fmt: skip
    header = looked_at(twin, data)
    assert header is not None
    assert (header.producer_id, header.attributes, header.crc) == (7, 0x10, check_batch(
        memoryview(data), 0, len(data)).crc)  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        simple() + simple(),
        simple() + b"\0",
        simple()[:-1],
        simple()[:60],
        b"",
        simple(crc=1),
        simple(magic=1),
        simple(attributes=1),
        simple(attributes=7),
        simple(attributes=0x08),
        simple(attributes=0x20),
        simple(attributes=0x40),
        simple(attributes=0x80),
        simple(last_offset_delta=1),
        simple(record_count=2, last_offset_delta=1),
        simple(record_count=4, last_offset_delta=3),
        simple(record_count=0, last_offset_delta=-1),
        simple(record_count=1 << 30, last_offset_delta=(1 << 30) - 1),
        simple(producer_id=1),
        simple(producer_id=1, producer_epoch=0),
        simple(producer_id=1, base_sequence=0),
        simple(max_timestamp=999),
        simple(max_timestamp=1_001),
        simple(batch_length=1 << 30),
        simple(batch_length=-1),
        batch(record(1, b"k", b"v"), 1),
        batch(b"\x0c" + b"\1" + record(0, None, None)[2:], 1),
        batch(record(0, b"", b"x" * (PLAIN_BYTES_MAX - BATCH_HEADER_BYTES - 8)), 1),
    ],
)
def test_whatever_is_not_plain_is_left_to_a_closer_look(twin: CheckPlain, data: bytes) -> None:
    assert looked_at(twin, data) is None


def test_a_batch_of_64_kib_is_plain(twin: CheckPlain) -> None:
    data = batch(record(0, b"", b"x" * (PLAIN_BYTES_MAX - BATCH_HEADER_BYTES - 11)), 1)
    assert len(data) == PLAIN_BYTES_MAX
    assert looked_at(twin, data) is not None
    assert looked_at(twin, batch(bytes(data[BATCH_HEADER_BYTES:]) + b"\0", 1)) is None


@pytest.mark.parametrize(
    ("times", "bounds", "is_plain"),
    [
        ((1_000, 995), (1_000, 5, 0), True),
        ((1_000, 995), (1_000, 4, 0), False),
        ((1_000, 1_005), (1_000, 0, 5), True),
        ((1_000, 1_005), (1_000, 0, 4), False),
        ((1_000, 1_000), (1_000, 0, 0), True),
        ((995, NO_TIMESTAMP), (1_000, 5, 0), True),
        ((0, INT64_MAX), (0, 0, INT64_MAX), True),
        ((0, INT64_MAX), (0, 0, INT64_MAX - 1), False),
        ((0, -INT64_MAX), (0, INT64_MAX, 0), True),
        ((0, -INT64_MAX), (0, INT64_MAX - 1, 0), False),
        ((INT64_MIN, INT64_MIN), (0, INT64_MAX, INT64_MAX), False),
    ],
)
def test_times_are_within_both_bounds_inclusive(
    twin: CheckPlain, times: tuple[int, int], bounds: Bounds, is_plain: bool
) -> None:
    first, second = times
    payload = record(0, b"k", b"v") + record(1, b"k", b"v", second - first)
    data = batch(payload, 2, base_timestamp=first, max_timestamp=max(times))
    assert (looked_at(twin, data, bounds) is not None) is is_plain


@pytest.mark.parametrize(
    ("count", "is_plain"), [(PLAIN_RECORDS_MAX, True), (PLAIN_RECORDS_MAX + 1, False)]
)
def test_a_batch_of_many_records_is_left_to_a_closer_look(
    twin: CheckPlain, count: int, is_plain: bool
) -> None:
    assert (looked_at(twin, simple(count)) is not None) is is_plain


def test_a_batch_without_times_is_within_any_bounds(twin: CheckPlain) -> None:
    data = simple(base_timestamp=NO_TIMESTAMP, max_timestamp=NO_TIMESTAMP)
    assert looked_at(twin, data, (1 << 41, 0, 0)) is not None
