"""Records that can not be read are kept in memory up to a bound, and beyond it in the log alone."""

from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unread import IN_LOG_ONLY, UnreadRecords, unread_bytes


def record(number: int) -> UnreadRecord:
    return UnreadRecord(b"%d" % number, bytes(100), (("h", b"1"),), number)


def test_as_many_as_the_bound_says_are_kept_and_with_one_more_none_is() -> None:
    unread = UnreadRecords(0, 2 * unread_bytes(record(0)))
    for number in range(2):
        unread.put(record(number))
    assert [*unread.records()] == [record(0), record(1)]
    assert not unread.is_in_log_only
    unread.put(record(2))
    assert unread.is_in_log_only
    assert ([*unread.records()], unread.size_bytes) == ([], 0)
    assert unread.keep(record(3)) is IN_LOG_ONLY


def test_the_newest_of_a_key_takes_the_room_of_the_one_before() -> None:
    unread = UnreadRecords(0, unread_bytes(record(0)))
    for timestamp_ms in range(3):
        unread.put(record(0)._replace(timestamp_ms=timestamp_ms))
    assert [one.timestamp_ms for one in unread.records()] == [2]
    unread.put(record(0)._replace(value=None))
    assert ([*unread.records()], unread.size_bytes) == ([], 0)
