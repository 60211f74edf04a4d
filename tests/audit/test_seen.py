"""Which rows were read before, by the numbers of their writers."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.audit.seen import Seen

KEYS = st.lists(st.tuples(st.sampled_from((b"1:7", b"2:7")), st.integers(0, 12)), max_size=60)


@given(KEYS)
def test_a_row_is_new_once(keys: list[tuple[bytes, int]]) -> None:
    seen = Seen()
    before: set[tuple[bytes, int]] = set()
    for writer, number in keys:
        assert seen.is_new(b"%b:%d" % (writer, number)) is ((writer, number) not in before)
        before.add((writer, number))
    assert seen.forgot == 0


def test_numbers_in_a_row_take_the_memory_of_one_range() -> None:
    seen = Seen(most=2)
    assert all(seen.is_new(b"1:7:%d" % number) for number in range(1000))
    assert all(seen.is_new(b"2:7:%d" % number) for number in range(1000, 0, -1))
    assert seen.forgot == 0
    assert not any(seen.is_new(b"1:7:%d" % number) for number in range(1000))


def test_more_gaps_than_fit_are_forgotten_and_told() -> None:
    seen = Seen(most=2)
    assert all(seen.is_new(b"1:7:%d" % number) for number in (0, 5, 10))
    assert seen.forgot == 1
    assert seen.is_new(b"1:7:0")


def test_what_is_no_key_of_a_row_is_always_new() -> None:
    seen = Seen()
    for key in (None, b"", b"7", b"1:7:x", b":3"):
        assert seen.is_new(key)
        assert seen.is_new(key)


def test_ranges_are_counted_as_many_as_there_are() -> None:
    seen = Seen(most=3)
    for number in (0, 2, 1, 10, 20):  # the third makes one range of the first two
        assert seen.is_new(b"1:7:%d" % number)
    assert seen.forgot == 0
    assert not seen.is_new(b"1:7:0")
    assert seen.is_new(b"1:7:30")
    assert seen.forgot == 1


def test_after_all_was_forgotten_there_is_all_room_again() -> None:
    seen = Seen(most=2)
    for number in (0, 5, 10, 15, 20):
        assert seen.is_new(b"1:7:%d" % number)
    assert seen.forgot == 1
    assert not seen.is_new(b"1:7:15")
