"""The batch header: what is taken, what is refused with which error, what stamping touches."""

import pytest

from penstock.record.batch import (
    TRANSACTIONAL,
    check_batch,
    check_from_client,
    read_header,
    stamp,
    stamp_log_append_time,
)
from penstock.record.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    UnsupportedCodec,
    UnsupportedMagic,
)
from tests.record.batches import batch, simple


def check(data: bytearray) -> object:
    return check_batch(memoryview(data), 0, len(data))


def test_good_batch_in_the_middle_of_a_buffer_gives_its_header() -> None:
    one = simple(3, producer_id=7, producer_epoch=0, base_sequence=5, attributes=0x10)
    data = memoryview(b"xx" + one + b"yy")
    header = check_batch(data, 2, 2 + len(one))
    assert header.size_bytes == len(one)
    assert (header.record_count, header.last_offset, header.last_sequence) == (3, 2, 7)
    assert header.attributes & TRANSACTIONAL
    assert not header.is_control
    assert header == read_header(data, 2)


def test_last_sequence_wraps_to_zero_after_the_largest_int32() -> None:
    header = read_header(memoryview(simple(3, producer_id=1, base_sequence=2**31 - 2)))
    assert header.last_sequence == 0
    assert read_header(memoryview(simple(3))).last_sequence == -1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"magic": 1}, UnsupportedMagic),
        ({"magic": 3}, UnsupportedMagic),
        ({"crc": 5}, CorruptBatch),
        ({"batch_length": 48}, CorruptBatch),
        ({"batch_length": -1}, CorruptBatch),
        ({"batch_length": 2**31 - 1}, CorruptBatch),
        ({"record_count": 0}, InvalidRecord),
        ({"record_count": -1, "last_offset_delta": -2}, InvalidRecord),
        ({"record_count": 2}, InvalidRecord),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, InvalidRecord),
        ({"attributes": 5}, UnsupportedCodec),
        ({"attributes": 7}, UnsupportedCodec),
        ({"producer_id": 1, "producer_epoch": -1, "base_sequence": 0}, InvalidRecord),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, InvalidRecord),
    ],
)
def test_broken_rule_is_refused_with_its_own_error(
    changed: dict[str, int], error: type[RecordError]
) -> None:
    with pytest.raises(error):
        check(simple(3, **changed))


def test_every_flipped_byte_after_the_stamped_fields_is_noticed() -> None:
    good = simple(2)
    for at in [*range(8, 12), *range(16, len(good))]:
        bad = bytearray(good)
        bad[at] ^= 0x10
        with pytest.raises(RecordError):
            check(bad)


def test_every_truncation_is_noticed() -> None:
    good = simple(2)
    for end in range(len(good)):
        with pytest.raises(CorruptBatch):
            check_batch(memoryview(good), 0, end)


def test_short_message_of_an_old_format_is_named_as_such() -> None:
    with pytest.raises(UnsupportedMagic):
        check(bytearray(16) + b"\1" + bytes(20))


def test_stamping_keeps_the_crc_valid() -> None:
    data = simple(3)
    stamp(memoryview(data), 0, base_offset=2**40, leader_epoch=9)
    header = check_batch(memoryview(data), 0, len(data))
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)


def test_log_append_time_renews_the_crc_and_touches_only_its_fields() -> None:
    before = read_header(memoryview(simple(3)))
    data = memoryview(bytearray(b"..") + simple(3) + b"..")
    stamp_log_append_time(data, 2, 123456)
    after = check_batch(data, 2, len(data))
    assert after.is_log_append_time
    assert after._replace(attributes=0, max_timestamp=1000, crc=0) == before._replace(crc=0)
    assert bytes(data[:2]) == bytes(data[-2:]) == b".."


def test_clients_may_write_no_control_batches_no_append_time_and_no_horizon() -> None:
    check_from_client(read_header(memoryview(simple())))
    with pytest.raises(InvalidRecord):
        check_from_client(read_header(memoryview(simple(attributes=0x20))))
    with pytest.raises(InvalidRecord, match="horizon"):
        check_from_client(read_header(memoryview(simple(attributes=0x40))))
    with pytest.raises(InvalidTimestamp):
        check_from_client(read_header(memoryview(simple(attributes=0x08))))


def test_the_delete_horizon_is_the_base_timestamp_if_its_bit_says_so() -> None:
    assert read_header(memoryview(simple())).delete_horizon_ms is None
    assert read_header(memoryview(simple(attributes=0x40))).delete_horizon_ms == 1000


def test_control_batch_needs_no_sequence() -> None:
    data = batch(bytes(20), 1, attributes=0x30, producer_id=4, producer_epoch=1)
    assert check_batch(memoryview(data), 0, len(data)).is_control
